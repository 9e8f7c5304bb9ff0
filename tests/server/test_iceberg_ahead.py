"""The work of the Iceberg catalog after a commit: what a load reads and writes, and what is made ahead."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import chronolake
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.domain.context import Context
from chronolake_metastore.iceberg import manifests
from chronolake_metastore.iceberg.building import KeptManifests
from chronolake_metastore.iceberg.catalog import Catalog
from chronolake_metastore.iceberg.folders import MetadataFolder
from chronolake_metastore.iceberg.manifests import ManifestEntry, Status
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.workers import iceberg_snapshots
from chronolake_metastore.workers.worker import Resources
from chronolake_storage.local import LocalFiles
from chronolake_storage.objects import ObjectFiles
from tests.server.iceberg_catalogs import WrappedFolder, with_catalog
from tests.server.iceberg_tables import commit, new_table
from tests.store.shown import TESTER


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("ice")
        yield client


class _Folders:
    """Opens folders that record their calls."""

    def __init__(self) -> None:
        self.opened: list[WrappedFolder] = []

    def __call__(self, folder: MetadataFolder) -> WrappedFolder:
        self.opened.append(WrappedFolder(folder))
        return self.opened[-1]

    def calls(self) -> list[str]:
        """The calls since the last time."""
        calls = [call for folder in self.opened for call in folder.calls]
        for folder in self.opened:
            folder.calls.clear()
        return calls


def test_a_load_after_a_commit_reads_no_file_and_writes_at_once(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.kept", tmp_path / "kept")
    folders = _Folders()

    async def use(catalog: Catalog) -> list[list[str]]:
        await catalog.load(TESTER, table.name)
        folders.calls()
        await asyncio.to_thread(commit, table)
        after_commit = await catalog.load(TESTER, table.name)
        calls = [folders.calls()]
        assert await catalog.load(TESTER, table.name) is after_commit
        return [*calls, folders.calls()]

    assert with_catalog(shared_dsn, use, wrap=folders) == [["create"], []]


def test_a_commit_during_a_look_of_the_worker_is_made_ahead_of_a_load(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.ahead", tmp_path / "ahead")
    monkeypatch.setattr(iceberg_snapshots, "POLL_SECONDS", 3_600.0)
    folders, notifier = _Folders(), Notifier()

    follow, looks = Catalog.follow, list[bool]()
    has_looked_again = asyncio.Event()

    async def followed(catalog: Catalog, ctx: Context) -> bool:
        looks.append(await follow(catalog, ctx))
        if len(looks) == 1:
            await asyncio.to_thread(commit, table)
            notifier.notify()
        else:
            has_looked_again.set()
        return looks[-1]

    async def use(catalog: Catalog) -> list[str]:
        await catalog.load(TESTER, table.name)
        resources = SimpleNamespace(notifier=notifier, catalog=catalog, metrics=Metrics())
        worker = asyncio.create_task(iceberg_snapshots.run(cast("Resources", resources)))
        async with asyncio.timeout(60):
            await has_looked_again.wait()
        worker.cancel()
        folders.calls()
        loaded = await catalog.load(TESTER, table.name)
        assert len(loaded.metadata["snapshots"]) == 2
        return folders.calls()

    monkeypatch.setattr(Catalog, "follow", followed)
    assert with_catalog(shared_dsn, use, wrap=folders) == []


def test_kept_manifests_are_bounded_and_those_in_use_stay() -> None:
    blocks = [manifests.make_block([ManifestEntry(("", "f"), Status.EXISTING, 1, 1, 1, 0, b"file")], 1)]
    kept = KeptManifests(bytes_max=2 * blocks[0].size_bytes)
    kept.keep({"a": blocks, "b": blocks})
    assert kept.get("a") == blocks
    kept.keep({"c": blocks, "a": blocks})
    assert [kept.get(name) for name in "abc"] == [blocks, None, blocks]


def test_in_an_object_store_a_stage_begins_after_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[list[str]] = []

    def create_all(_: ObjectFiles, bodies: list[tuple[str, bytes]], *, in_order: bool) -> list[bool]:
        created.append([path for path, _ in bodies])
        return [not in_order] * len(bodies)

    monkeypatch.setattr(ObjectFiles, "create_all", create_all)
    files = ObjectFiles.__new__(ObjectFiles)
    files.create_stages([[("manifest", b""), ("other", b"")], [("list", b"")], [("metadata", b"")]])
    assert created == [["manifest", "other"], ["list"], ["metadata"]]


def test_on_a_local_disk_files_appear_stage_by_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, appeared = os.link, list[str]()

    def linked(part: str, name: str, **options: Any) -> None:
        appeared.append(name)
        link(part, name, **options)

    monkeypatch.setattr(os, "link", linked)
    stages = [[(f"{at}{name}", b"content") for name in "ba"] for at in (2, 1, 3)]
    LocalFiles(str(tmp_path)).create_stages(stages)
    assert appeared == ["2b", "2a", "1b", "1a", "3b", "3a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(appeared)
