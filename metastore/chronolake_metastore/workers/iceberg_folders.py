"""The folders of the metadata for Iceberg's readers in the storage of tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from chronolake_metastore import errors
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.iceberg.folders import BasePathAbsent
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.table_storage import TableStorage, check_location, run
from chronolake_storage.errors import FolderMissing, TooLarge
from chronolake_storage.files import Files
from chronolake_storage.guard import ICEBERG_FILE, ICEBERG_FOLDER, Guard


class IcebergFolder:
    """The folder of one table; see ``iceberg.folders.MetadataFolder``.

    ``guard`` permits files to be created. ``deletions`` also compares the log's head with the claim.
    """

    def __init__(
        self, files: Files, guard: Guard, deletions: Guard, check_location: Callable[[], Awaitable[None]]
    ) -> None:
        self._check_location = check_location
        self._files = files
        self._guard = guard
        self._deletions = deletions
        self.path = _path(guard.table_id)

    async def check_location(self) -> None:
        """Raise ``ConfigurationError`` if the location of the table was revoked since the folder was opened."""
        await self._check_location()

    async def sizes(self) -> dict[str, int]:
        """The names of the catalog's files in the folder, with their sizes."""
        files = await run(lambda: self._files.files_in(self.path))
        # The guard refuses to remove any file as long as one of another name is to be removed too.
        return {file.file_name: file.size_bytes for file in files if ICEBERG_FILE.fullmatch(file.file_name)}

    async def read(self, name: str, bytes_max: int) -> bytes | None:
        """A file, if it exists; one that is larger than ``bytes_max`` is damaged, and reads as empty."""

        def read() -> bytes | None:
            try:
                content = self._files.read(f"{self.path}/{name}", bytes_max)
            except TooLarge:
                return b""
            return None if content is None else content.body

        return await run(read)

    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Create files, unless they exist, stage by stage; the base path must be claimed by the table."""

        def create() -> None:
            self._guard.check_claim()
            if any(stages):
                self._files.create_stages(
                    [[(f"{self.path}/{name}", content) for name, content in files] for files in stages]
                )

        await run(create)

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files of the folder."""
        await run(lambda: self._deletions.remove_iceberg_files([f"{self.path}/{name}" for name in names]))


class IcebergFolders:
    """Opens the folders of tables, each time it is asked."""

    def __init__(self, database: Database, storage_endpoints: Collection[str]) -> None:
        self._database = database
        self._storage = TableStorage(database, storage_endpoints)

    async def open(self, table: Table) -> IcebergFolder:
        """The folder of a table; raises ``ConfigurationError`` or ``BasePathAbsent`` if it fails."""
        definition = table.definition
        place = Place(table.table_id, table.name, definition.base_path, definition.properties, definition.tick)
        try:
            files, owner, metastore = await self._storage.access(place)
        except errors.ConfigurationError as exc:
            if isinstance(exc.__cause__, FolderMissing):
                raise BasePathAbsent(str(exc), _path(str(place.table_id))) from exc
            raise
        # All files are named by their content, so a database that lacks an event overwrites nothing. But it
        # would delete what the states after that event need.
        deletions = Guard(files, owner, metastore, log=metastore)
        location = partial(check_location, self._database, place)
        return IcebergFolder(files, Guard(files, owner, metastore), deletions, location)


def _path(table_id: str) -> str:
    return f"{ICEBERG_FOLDER}/{table_id}"
