"""The limits of the Iceberg catalog: memory, time, and what blocks the event loop."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from litestar import Request

import chronolake
from chronolake_metastore import errors
from chronolake_metastore.api.iceberg import refusals
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.iceberg import (
    avro,
    bounds,
    building,
    catalog as served,
    chunks,
    documents,
    expiry,
    manifests,
    snapshots,
)
from chronolake_metastore.iceberg.catalog import Catalog, LoadedTable
from chronolake_metastore.iceberg.folders import MetadataFolder
from chronolake_metastore.workers.iceberg_folders import IcebergFolder, IcebergFolders
from chronolake_model.backoff import Backoff
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType
from tests.server.iceberg_catalogs import (
    StalledFolder,
    WrappedFolder,
    commit_all,
    expire_twice,
    live_files,
    load,
    load_whole,
    with_catalog,
)
from tests.server.iceberg_tables import commit, new_table
from tests.store.shown import TESTER


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("ice")
        yield client


def test_the_files_of_a_snapshot_are_encoded_outside_of_the_event_loop(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.threads", tmp_path / "threads")
    commit(table)
    statistics, threads = bounds.statistics, set[int]()

    def recorded(*args: Any) -> bounds.Statistics:
        threads.add(threading.get_ident())
        return statistics(*args)

    monkeypatch.setattr(bounds, "statistics", recorded)
    load(shared_dsn, table)
    assert threads
    assert threading.get_ident() not in threads


def test_metadata_is_decoded_and_encoded_outside_of_the_event_loop(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.blocks", tmp_path / "blocks")
    threads = {
        function: recorded_threads(monkeypatch, module, function)
        for module, function in [
            (manifests, "blocks_of"),
            (chunks, "index_of"),
            (documents, "snapshots_of"),
            (documents, "metadata"),
            (documents, "only_of_refs"),
        ]
    }
    commit(table)
    load(shared_dsn, table)
    commit(table)
    load(shared_dsn, table)
    table.clean(retain_commits=1)
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, table.name))
    assert all(threads.values())
    assert threading.get_ident() not in set[int]().union(*threads.values())


def recorded_threads(monkeypatch: pytest.MonkeyPatch, module: Any, function: str) -> set[int]:
    """The threads that call a function from now on."""
    original, threads = getattr(module, function), set[int]()

    def recorded(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return original(*args)

    monkeypatch.setattr(module, function, recorded)
    return threads


def test_a_commit_that_changes_many_chunks_keeps_the_entries_of_few_in_memory(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "is_end", lambda group: group[1][7] in "37")
    monkeypatch.setattr(chunks, "BLOCK_FILES", 2)
    table = new_table(client, "ice.batches", tmp_path / "batches", index=BucketIndex(IndexType.SIMPLE))
    file_ids = [f"{number:08d}-0000-0000-0000-000000000000-0" for number in range(40)]
    commit_all(table, file_ids)
    load(shared_dsn, table)
    commit_all(table, file_ids[::8])
    # Of the five changed chunks with three to four files each, those of two are kept at once.
    monkeypatch.setattr(building, "ROWS", 12)
    monkeypatch.setattr(building, "WRITTEN_AT_ONCE", 1)
    folders: list[WrappedFolder] = []

    def wrap(folder: MetadataFolder) -> MetadataFolder:
        folders.append(WrappedFolder(folder))
        return folders[-1]

    carried = with_catalog(shared_dsn, lambda catalog: catalog.load(TESTER, table.name), wrap=wrap)
    live = live_files(carried)
    calls = "".join(call[0] for call in folders[0].calls)
    assert re.search("r{2,4}cr{2,4}c", calls), calls
    shutil.rmtree(tmp_path / "batches" / folders[0].path)
    monkeypatch.setattr(building, "ROWS", 100)
    anew = load(shared_dsn, table)
    assert live_files(anew) == live
    summaries = [loaded.metadata["snapshots"][-1]["summary"] for loaded in (carried, anew)]
    assert summaries[0] == summaries[1]


def test_a_request_waits_a_bounded_time_and_a_later_one_finds_the_table(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.slow", tmp_path / "slow")
    monkeypatch.setattr(served, "REQUEST_SECONDS", 0.05)
    opened: list[MetadataFolder] = []
    answers = asyncio.Event()

    def wrap(folder: MetadataFolder) -> MetadataFolder:
        opened.append(StalledFolder(folder, answers))
        return opened[-1]

    async def use(catalog: Catalog) -> LoadedTable:
        for _ in range(2):
            with pytest.raises(served.NotReady):
                await catalog.load(TESTER, table.name)
        answers.set()
        monkeypatch.setattr(served, "REQUEST_SECONDS", 20.0)
        return await catalog.load(TESTER, table.name)

    assert with_catalog(shared_dsn, use, wrap=wrap).metadata["snapshots"]
    # Both requests waited for the same work.
    assert len(opened) == 1


def test_a_table_that_a_request_makes_is_not_followed_without_pause(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.spinning", tmp_path / "spinning")
    commit(table)
    answers = asyncio.Event()

    async def use(catalog: Catalog) -> tuple[bool, LoadedTable]:
        answers.set()
        await catalog.load(TESTER, table.name)
        answers.clear()
        await asyncio.to_thread(commit, table)
        monkeypatch.setattr(served, "REQUEST_SECONDS", 0.05)
        with pytest.raises(served.NotReady):
            await catalog.load(TESTER, table.name)
        is_missing = await catalog.follow(TESTER)
        answers.set()
        monkeypatch.setattr(served, "REQUEST_SECONDS", 20.0)
        return is_missing, await load_whole(catalog, table.name)

    is_missing, whole = with_catalog(shared_dsn, use, wrap=lambda folder: StalledFolder(folder, answers))
    assert not is_missing
    # The snapshot of the first state is made after the request.
    assert len(whole.metadata["snapshots"]) == 3


def test_a_catalog_with_too_much_work_refuses_more_until_it_closes(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [new_table(client, f"ice.{name}", tmp_path / name) for name in ("one_more", "too_many")]
    monkeypatch.setattr(served, "REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(served, "WAITING_MAX", 1)
    opened: list[MetadataFolder] = []
    answers = asyncio.Event()

    def wrap(folder: MetadataFolder) -> MetadataFolder:
        opened.append(StalledFolder(folder, answers))
        return opened[-1]

    async def use(catalog: Catalog) -> None:
        for table in tables:
            with pytest.raises(served.NotReady, match="try again"):
                await catalog.load(TESTER, table.name)

    with_catalog(shared_dsn, use, wrap=wrap)
    assert len(opened) <= 1


def test_tables_of_a_storage_that_does_not_answer_do_not_delay_others(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("ice.unreachable", "ice.stalled", "ice.queued", "ice.refused", "ice.healthy")
    unreachable, stalled, queued, refused, healthy = (
        new_table(client, name, tmp_path / name).name for name in names
    )
    monkeypatch.setattr(served, "storage_of", lambda table: "healthy" if table.name == healthy else "slow")
    monkeypatch.setattr(served, "WAITING_OF_STORAGE_MAX", 3)
    monkeypatch.setattr(served, "BUILDS_OF_STORAGE_MAX", 1)
    monkeypatch.setattr(served, "BUILDS_MAX", 2)
    opened: list[str] = []
    open_folder = IcebergFolders.open

    async def slow_open(folders: IcebergFolders, table: Table) -> MetadataFolder:
        opened.append(table.name)
        folder = await open_folder(folders, table)
        if table.name == unreachable:
            await asyncio.Event().wait()
        return folder if table.name == healthy else StalledFolder(folder, asyncio.Event())

    async def use(catalog: Catalog) -> LoadedTable:
        monkeypatch.setattr(served, "REQUEST_SECONDS", 0.1)
        for name in (unreachable, stalled, queued, refused):
            with pytest.raises(served.NotReady):
                await catalog.load(TESTER, name)
        monkeypatch.setattr(served, "REQUEST_SECONDS", 5.0)
        return await catalog.load(TESTER, healthy)

    monkeypatch.setattr(IcebergFolders, "open", slow_open)
    assert with_catalog(shared_dsn, use).metadata["snapshots"]
    assert stalled in opened
    assert refused not in opened


def test_a_storage_that_fails_is_tried_again_after_a_pause(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.failing", tmp_path / "failing")
    monkeypatch.setattr(served, "BACKOFF", Backoff(first_seconds=60.0, max_seconds=60.0))
    opened: list[str] = []

    async def failing_open(_folders: IcebergFolders, table: Table) -> MetadataFolder:
        opened.append(table.name)
        raise errors.ConfigurationError("the bucket does not answer")

    async def use(catalog: Catalog) -> None:
        for _ in range(3):
            with pytest.raises(errors.ConfigurationError, match="does not answer"):
                await catalog.load(TESTER, table.name)

    monkeypatch.setattr(IcebergFolders, "open", failing_open)
    with_catalog(shared_dsn, use)
    assert opened == [table.name]


def test_a_table_that_is_not_ready_is_answered_with_the_time_of_the_next_try() -> None:
    answer = refusals.refused(cast("Request[Any, Any, Any]", None), served.NotReady("shop.sales"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.content["error"]["type"] == "ServiceUnavailableException"


def test_a_request_leaves_out_snapshots_for_which_it_has_no_time(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.hurry", tmp_path / "hurry")
    monkeypatch.setattr(snapshots, "GAP_SECONDS", -1.0)

    async def use(catalog: Catalog) -> list[LoadedTable]:
        await catalog.load(TESTER, table.name)
        for _ in range(4):
            await asyncio.to_thread(commit, table)
        return [await catalog.load(TESTER, table.name), await load_whole(catalog, table.name)]

    hurried, whole = (loaded.metadata["snapshots"] for loaded in with_catalog(shared_dsn, use))
    assert [len(hurried), len(whole)] == [2, 5]
    assert [hurried[0], hurried[-1]] == [whole[0], whole[-1]]


@pytest.mark.parametrize(
    ("name", "value"), [("CACHE_BYTES_MAX", 1), ("_COLUMN_BYTES", 10**9), ("_STATE_BYTES", 10**9)]
)
def test_the_memory_for_tables_is_bounded(
    shared_dsn: str,
    client: chronolake.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: int,
) -> None:
    tables = [new_table(client, f"ice.{at}_{name.lower()}", tmp_path / at) for at in ("former", "latter")]
    opened: list[str] = []

    def wrap(folder: MetadataFolder) -> MetadataFolder:
        opened.append(folder.path.rpartition("/")[2])
        return folder

    async def use(catalog: Catalog) -> None:
        for at in (0, 1, 1, 0):
            await catalog.load(TESTER, tables[at].name)

    former, latter = (table.definition.table_id for table in tables)
    with_catalog(shared_dsn, use, wrap=wrap)
    assert opened == [former, latter]
    opened.clear()
    monkeypatch.setattr(served, name, value)
    with_catalog(shared_dsn, use, wrap=wrap)
    assert opened == [former, latter, former]


def test_metadata_that_another_program_has_damaged_is_made_again(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.planted", tmp_path / "planted")
    folder = Path(load(shared_dsn, table).location.removeprefix("file://")).parent
    for number, content in enumerate([b"[" * 100_000, b'{"snapshots": [{}]}', b"\xff", b'{"a": "\xff"}']):
        (folder / f"{2**60}-{number:032x}.metadata.json").write_bytes(content)
    with (folder / f"{2**60}-{'f' * 32}.metadata.json").open("wb") as huge:
        huge.truncate(256 * 1024 * 1024 + 1)
    assert len(load(shared_dsn, table).metadata["snapshots"]) == 1


def test_the_header_of_a_list_is_decompressed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = manifests.write_list([], "folder", 1, None, b" " * 2_000)
    monkeypatch.setattr(avro, "BLOCK_BYTES_MAX", 1_000)
    with pytest.raises(ValueError, match="damaged"):
        manifests.index_of(bomb)


def test_a_folder_that_failed_is_opened_again(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.reopened", tmp_path / "reopened")
    monkeypatch.setattr(served, "BACKOFF", Backoff(first_seconds=0.0, max_seconds=0.0))
    opened: list[str] = []
    open_folder = IcebergFolders.open

    async def recorded(folders: IcebergFolders, table: Table) -> MetadataFolder:
        opened.append(table.name)
        return await open_folder(folders, table)

    monkeypatch.setattr(IcebergFolders, "open", recorded)

    async def fail(_folder: IcebergFolder, _stages: object) -> None:
        raise errors.ConfigurationError("the bucket does not answer")

    async def use(catalog: Catalog) -> LoadedTable:
        with monkeypatch.context() as patch, pytest.raises(errors.ConfigurationError):
            patch.setattr(IcebergFolder, "create", fail)
            await catalog.load(TESTER, table.name)
        return await catalog.load(TESTER, table.name)

    assert with_catalog(shared_dsn, use).metadata["table-uuid"] == str(table.definition.table_id)
    assert opened == [table.name] * 2


@pytest.mark.parametrize("damaged", [b"\xff" * 100, avro.long(2**40) + b"\0" * 100], ids=["number", "fields"])
def test_the_numbers_in_the_header_of_an_avro_file_are_bounded(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        avro.read(b"Obj\x01" + damaged)


STORED = {
    "snapshot-id": 5_000,
    "parent-snapshot-id": 4_000,
    "sequence-number": 5_000,
    "timestamp-ms": 5,
    "manifest-list": "file:///folder/snap-5000.avro",
    "summary": {"operation": "append", documents.WITHOUT_IDS: "1,2"},
    "schema-id": 1,
}


def stored_metadata(snapshot: dict[str, Any], **fields: Any) -> bytes:
    """Metadata with a snapshot."""
    return msgspec.json.encode({**fields, "properties": {documents.TYPES: "t"}, "snapshots": [snapshot]})


def test_a_snapshot_in_stored_metadata_is_taken_as_it_is() -> None:
    first = {name: value for name, value in STORED.items() if name != "parent-snapshot-id"}
    for snapshot in (STORED, first):
        taken = documents.snapshots_of(stored_metadata(snapshot), "t")
        assert [list(each.items()) for each in taken] == [list(snapshot.items())]


@pytest.mark.parametrize(
    "damage",
    [
        {"summary": {documents.WITHOUT_IDS: "x"}},
        {"summary": {documents.WITHOUT_IDS: "9" * 5_000}},
        {"schema-id": None},
        {"sequence-number": -1},
        {"timestamp-ms": 2**70},
        {"parent-snapshot-id": 2**70},
    ],
)
def test_a_snapshot_in_stored_metadata_with_a_damaged_field_is_not_taken(damage: dict[str, Any]) -> None:
    assert documents.snapshots_of(stored_metadata({**STORED, **damage}), "t") == []


def test_fields_of_stored_metadata_that_are_not_used_take_no_memory() -> None:
    content = stored_metadata(STORED, planted=[[]] * 100_000)
    tracemalloc.start()
    try:
        assert documents.snapshots_of(content, "t")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_manifests_are_read_in_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "READ_AT_ONCE", 3)
    monkeypatch.setattr(building, "MANIFESTS_BYTES_MAX", 100)
    sizes = [40, 50, 20, 200, 10, 10, 10, 10]
    former = [manifests.describe("name", size, 0, [], 1, ()) for size in sizes]
    pages = [[manifest.size_bytes for manifest in page] for page in building.pages(former)]
    assert pages == [[40, 50], [20], [200], [10, 10, 10], [10]]


@pytest.mark.parametrize("limit", ["MANIFESTS_BYTES_MAX", "ENTRIES_BYTES_MAX"])
def test_former_manifests_that_are_too_large_are_made_anew(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    table = new_table(client, f"ice.{limit.lower()}", tmp_path / "large")
    commit(table)
    load(shared_dsn, table)
    commit(table)
    monkeypatch.setattr(building, limit, 1)
    made_anew = building.SnapshotBuilder._anew
    calls: list[building.SnapshotBuilder] = []

    async def recorded(builder: building.SnapshotBuilder) -> list[chunks.Chunk]:
        calls.append(builder)
        return await made_anew(builder)

    monkeypatch.setattr(building.SnapshotBuilder, "_anew", recorded)
    carried = with_catalog(shared_dsn, lambda catalog: catalog.load(TESTER, table.name))
    assert (len(calls), len(live_files(carried))) == (1, 1)


def test_few_files_of_metadata_of_one_snapshot_are_kept(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.piled", tmp_path / "piled")
    commit(table)
    served = Path(load(shared_dsn, table).location.removeprefix("file://"))
    for number in range(30):
        (served.parent / f"{served.name.partition('-')[0]}-{number:032x}.metadata.json").write_bytes(b"{}")
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, table.name), snapshots_max=1)
    assert len(list(served.parent.glob("*.json"))) == expiry.METADATA_MAX
    # The server that made it shows more snapshots.
    assert served.exists()
