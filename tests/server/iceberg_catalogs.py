"""Iceberg catalogs in the process of a test, and what they have written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import fastavro
from typing_extensions import override

import chronolake
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.iceberg.catalog import Catalog, LoadedTable
from chronolake_metastore.iceberg.folders import MetadataFolder
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.iceberg_folders import IcebergFolder, IcebergFolders
from chronolake_model.file_names import base_file_name
from chronolake_model.files import WriteStat
from tests.store.shown import TESTER

Result = TypeVar("Result")


def with_catalog(
    dsn: str,
    use: Callable[[Catalog], Coroutine[Any, Any, Result]],
    snapshots_max: int = 1_000,
    wrap: Callable[[IcebergFolder], MetadataFolder] = lambda folder: folder,
) -> Result:
    """The result of the use of a new catalog, whose folders may be wrapped."""

    async def run() -> Result:
        database = Database(Settings(dsn=dsn))
        folders = IcebergFolders(database, ())

        async def open_folder(table: Table) -> MetadataFolder:
            return wrap(await folders.open(table))

        catalog = Catalog(Service(database), open_folder, snapshots_max)
        try:
            return await use(catalog)
        finally:
            await catalog.close()
            await database.close()

    return asyncio.run(run())


def load(dsn: str, table: chronolake.Table, snapshots_max: int = 1_000) -> LoadedTable:
    """A table as a new catalog loads it when all snapshots are made."""
    return with_catalog(dsn, lambda catalog: load_whole(catalog, table.name), snapshots_max)


async def load_whole(catalog: Catalog, name: str) -> LoadedTable:
    """A table with all snapshots."""
    await catalog.load(TESTER, name)
    while await catalog.follow(TESTER):
        pass
    return await catalog.load(TESTER, name)


def records_of(url: str) -> list[Any]:
    """The records of a manifest or a manifest list."""
    with Path(url.removeprefix("file://")).open("rb") as content:
        return list(fastavro.reader(content))


def list_of(loaded: LoadedTable, at: int) -> Path:
    """The manifest list of a snapshot."""
    return Path(loaded.metadata["snapshots"][at]["manifest-list"].removeprefix("file://"))


class WrappedFolder:
    """A folder that records its calls; a subclass changes what they do."""

    def __init__(self, folder: MetadataFolder) -> None:
        self.path = folder.path
        self.calls: list[str] = []
        self._folder = folder

    async def check_location(self) -> None:
        await self._folder.check_location()

    async def sizes(self) -> dict[str, int]:
        self.calls.append("sizes")
        return await self._folder.sizes()

    async def read(self, name: str, bytes_max: int) -> bytes | None:
        self.calls.append("read")
        return await self._folder.read(name, bytes_max)

    async def remove(self, names: Sequence[str]) -> None:
        self.calls.append("remove")
        await self._folder.remove(names)

    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        self.calls.append("create")
        await self._folder.create(stages)


class StalledFolder(WrappedFolder):
    """A folder in a storage that answers when it is told to."""

    def __init__(self, folder: MetadataFolder, answers: asyncio.Event) -> None:
        super().__init__(folder)
        self._answers = answers

    @override
    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        await self._answers.wait()
        await super().create(stages)


def live_files(loaded: LoadedTable) -> list[str]:
    """The paths of the files of the present snapshot."""
    return sorted(
        entry["data_file"]["file_path"]
        for manifest in records_of(loaded.metadata["snapshots"][-1]["manifest-list"])
        for entry in records_of(manifest["manifest_path"])
        if entry["status"] != 2
    )


def commit_all(table: chronolake.Table, file_ids: Sequence[str]) -> None:
    """An instant with one base file of each file group."""
    with table.begin() as write:
        for file_id in file_ids:
            name = base_file_name(file_id, "0-0-0", write.requested_time)
            write.add(WriteStat("", file_id, name, 100, 3, inserts=3, has_field_ids=True))


def files_of(loaded: LoadedTable) -> list[tuple[int, int, int, str]]:
    """The status of each file of the present snapshot, and the fields that readers use."""
    return sorted(
        (entry["status"], entry["snapshot_id"], entry["sequence_number"], repr(entry["data_file"]))
        for manifest in records_of(loaded.metadata["snapshots"][-1]["manifest-list"])
        for entry in records_of(manifest["manifest_path"])
    )


async def expire_twice(catalog: Catalog, *names: str) -> None:
    """Load tables, and let what they do not need expire."""
    for name in names:
        await catalog.load(TESTER, name)
    await catalog.expire(TESTER)
    await catalog.expire(TESTER)
