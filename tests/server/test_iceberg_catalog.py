"""The Iceberg catalog of a server in this process: what it reads, makes and removes, and what it survives."""

from __future__ import annotations

import asyncio
import json
import shutil
import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake import Field
from chronolake_metastore import errors
from chronolake_metastore.iceberg import (
    bounds,
    building,
    expiry,
)
from chronolake_metastore.iceberg.catalog import Catalog, LoadedTable
from chronolake_metastore.iceberg.schemas import AmbiguousName
from chronolake_storage import claims
from tests.server.iceberg_catalogs import (
    expire_twice,
    files_of,
    list_of,
    load,
    load_whole,
    records_of,
    with_catalog,
)
from tests.server.iceberg_tables import commit, new_table
from tests.store.shown import TESTER


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("ice")
        yield client


def partitions_of(loaded: LoadedTable) -> list[tuple[int, dict[str, Any]]]:
    """The spec and the partition of each file of the present snapshot."""
    return [
        (manifest["partition_spec_id"], entry["data_file"]["partition"])
        for manifest in records_of(loaded.metadata["snapshots"][-1]["manifest-list"])
        for entry in records_of(manifest["manifest_path"])
    ]


def test_two_partition_fields_of_one_decimal_type_have_types_of_their_own(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    prices = [Field("low", "decimal(4,2)"), Field("high", "decimal(4,2)")]
    fields = {"schema": [Field("id", "bigint"), *prices], "partition_fields": ["low", "high"]}
    table = new_table(client, "ice.decimals", tmp_path / "decimals", **fields)
    commit(table, path="low=1.50/high=2.25")
    expected = {"p1000": Decimal("1.50"), "p1001": Decimal("2.25")}
    assert partitions_of(load(shared_dsn, table)) == [(0, expected)]


def test_a_path_may_have_more_decimal_places_than_the_type_of_its_column(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    fields = {"schema": [Field("id", "bigint"), Field("price", "decimal(4,2)")], "partition_fields": ["price"]}
    table = new_table(client, "ice.places", tmp_path / "places", **fields)
    commit(table, path="price=1.500")
    assert partitions_of(load(shared_dsn, table)) == [(0, {"p1000": Decimal("1.50")})]


def test_files_between_a_savepoint_and_the_next_state_are_not_read(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.gap", tmp_path / "gap")
    table.savepoint()
    for _ in range(6):
        commit(table)
    table.clean(retain_commits=1)
    monkeypatch.setattr(building, "ROWS", 4)
    snapshots = load(shared_dsn, table).metadata["snapshots"]
    assert [snapshot["summary"]["total-data-files"] for snapshot in snapshots] == ["1", "1"]


def test_a_request_that_waited_takes_the_answer_that_was_made_meanwhile(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.waiting", tmp_path / "waiting")
    commit(table)

    async def load_thrice(catalog: Catalog) -> list[LoadedTable]:
        return await asyncio.gather(*(catalog.load(TESTER, table.name) for _ in range(3)))

    first, *others = with_catalog(shared_dsn, load_thrice)
    assert all(other is first for other in others)
    # Those of older states are not made by requests.
    assert len(first.metadata["snapshots"]) == 1


def test_a_commit_costs_the_encoding_of_the_files_that_it_changes(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.carried", tmp_path / "carried")
    for bucket in (1, 2, 3):
        commit(table, file_id=f"{bucket:08d}-0000-0000-0000-000000000000-0")
    whole = load(shared_dsn, table)
    commit(table)
    statistics, encoded = bounds.statistics, list[Any]()

    def recorded(*args: Any) -> bounds.Statistics:
        encoded.append(args)
        return statistics(*args)

    monkeypatch.setattr(bounds, "statistics", recorded)
    carried = files_of(with_catalog(shared_dsn, lambda catalog: catalog.load(TESTER, table.name)))
    # The new file and the one that it replaces.
    assert len(encoded) == 2
    assert [status for status, *_ in carried].count(2) == 1
    shutil.rmtree(list_of(whole, 0).parent)
    anew = files_of(with_catalog(shared_dsn, lambda catalog: catalog.load(TESTER, table.name)))
    assert carried == anew


def test_servers_that_show_different_numbers_of_snapshots_do_not_disturb_each_other(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.numbers", tmp_path / "numbers")
    table.savepoint()
    for _ in range(5):
        commit(table)

    async def use_few(catalog: Catalog) -> LoadedTable:
        loaded = await load_whole(catalog, table.name)
        await expire_twice(catalog)
        return loaded

    few = with_catalog(shared_dsn, use_few, 2)
    many = load(shared_dsn, table)
    assert with_catalog(shared_dsn, use_few, 2) == few
    assert load(shared_dsn, table) == many
    snapshots = many.metadata["snapshots"]
    assert [len(few.metadata["snapshots"]), len(snapshots)] == [3, 6]
    assert all(records_of(snapshot["manifest-list"]) for snapshot in [*few.metadata["snapshots"], *snapshots])
    parents = [snapshot.get("parent-snapshot-id") for snapshot in snapshots]
    assert parents == [None, *(snapshot["snapshot-id"] for snapshot in snapshots[:-1])]
    assert few.metadata["snapshots"][1:] == snapshots[-2:]


def test_a_table_without_the_claim_of_its_folder_is_refused_before_its_snapshots_are_made(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.foreign", tmp_path / "foreign")
    claim = tmp_path / "foreign" / claims.PATH
    claim.write_text(json.dumps({**json.loads(claim.read_text()), "table_id": TESTER.request_id}))
    monkeypatch.setattr(bounds, "statistics", None)
    with pytest.raises(errors.ConfigurationError, match="claim"):
        load(shared_dsn, table)


def test_the_snapshots_of_a_table_with_an_ambiguous_name_are_made_once(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.ambiguous", tmp_path / "ambiguous")
    commit(table, has_field_ids=False)
    table.change_schema([chronolake.DropColumn("value"), chronolake.AddColumn("value", "string")])
    commit(table, has_field_ids=False, file_id="00000001-0000-0000-0000-000000000000-0")

    async def load_twice(catalog: Catalog) -> None:
        with pytest.raises(AmbiguousName):
            await catalog.load(TESTER, table.name)
        monkeypatch.setattr(bounds, "statistics", None)
        with pytest.raises(AmbiguousName):
            await catalog.load(TESTER, table.name)

    with_catalog(shared_dsn, load_twice)


def test_a_snapshot_whose_list_was_removed_is_made_again(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.removed", tmp_path / "removed")
    commit(table)
    manifest_list = list_of(load(shared_dsn, table), 0)
    content = manifest_list.read_bytes()
    manifest_list.unlink()
    load(shared_dsn, table)
    assert manifest_list.read_bytes() == content


def test_tables_that_swap_names_keep_their_snapshots_and_files(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    orders, others = (new_table(client, f"ice.{name}", tmp_path / name) for name in ("orders", "others"))
    for _ in range(3):
        commit(others)

    async def use(catalog: Catalog) -> tuple[LoadedTable, list[LoadedTable]]:
        before = await load_whole(catalog, "ice.orders")
        await asyncio.to_thread(orders.alter, name="ice.old_orders")
        await asyncio.to_thread(others.alter, name="ice.orders")
        while await catalog.follow(TESTER):
            pass
        after = [await load_whole(catalog, name) for name in ("ice.old_orders", "ice.orders")]
        await expire_twice(catalog)
        return before, after

    before, after = with_catalog(shared_dsn, use)
    assert [loaded.metadata["table-uuid"] for loaded in after] == [
        orders.definition.table_id,
        others.definition.table_id,
    ]
    assert before.metadata["location"] == after[0].metadata["location"]
    assert all(
        list_of(loaded, at).exists() for loaded in after for at in range(len(loaded.metadata["snapshots"]))
    )


def test_a_database_that_lacks_the_event_of_the_claim_removes_nothing(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.behind", tmp_path / "behind")
    commit(table)
    manifest_list = list_of(load(shared_dsn, table), 0)
    table.clean(retain_commits=1)
    claim = tmp_path / "behind" / claims.PATH
    stated = json.loads(claim.read_text())
    claim.write_text(json.dumps({**stated, "log_head": {"version": 1_000, "hash": "ab"}}))
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, table.name))
    assert manifest_list.exists()
    claim.write_text(json.dumps(stated))
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, table.name))
    assert not manifest_list.exists()


def test_a_damaged_list_keeps_manifests_and_does_not_stop_the_expiry_of_other_tables(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    tables = [new_table(client, f"ice.{name}", tmp_path / name) for name in ("damaged", "sound")]
    other = "00000001-0000-0000-0000-000000000000-0"
    for table in tables:
        commit(table, file_id=other)
        commit(table, file_id=other)
    loaded = [load(shared_dsn, table) for table in tables]
    manifests = [
        {Path(record["manifest_path"]).name for record in records_of(str(list_of(table, 0)))}
        for table in loaded
    ]
    for table in tables:
        table.clean(retain_commits=1)
    list_of(loaded[0], -1).write_bytes(b"no avro")
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, *(table.name for table in tables)))
    folders = [{file.name for file in list_of(table, 0).parent.iterdir()} for table in loaded]
    assert manifests[0] <= folders[0]
    assert not manifests[1] & folders[1]


def test_files_of_other_names_are_ignored_and_do_not_stop_the_expiry(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.strays", tmp_path / "strays")
    commit(table)
    manifest_list = list_of(load(shared_dsn, table), 0)
    strays = [manifest_list.with_name(name) for name in ("copy.metadata.json", "snap-x.avro", "1-copy.avro")]
    for stray in strays:
        stray.write_bytes(b"copied by hand")
    table.clean(retain_commits=1)
    with_catalog(shared_dsn, lambda catalog: expire_twice(catalog, table.name))
    assert not manifest_list.exists()
    assert all(stray.exists() for stray in strays)


def test_the_expiry_keeps_the_newest_metadata_and_does_not_read_a_table_that_has_not_changed(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(client, "ice.unchanged", tmp_path / "unchanged")

    async def use(catalog: Catalog) -> LoadedTable:
        loaded = await catalog.load(TESTER, table.name)
        await asyncio.to_thread(commit, table)
        await expire_twice(catalog)
        monkeypatch.setattr(expiry, "find_unneeded", None)
        await catalog.expire(TESTER)
        return loaded

    assert Path(with_catalog(shared_dsn, use).location.removeprefix("file://")).exists()


def test_metadata_that_another_server_has_removed_is_written_again(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.rewritten", tmp_path / "rewritten")

    async def use(catalog: Catalog) -> tuple[LoadedTable, LoadedTable]:
        before = await catalog.load(TESTER, table.name)
        await asyncio.to_thread(Path(before.location.removeprefix("file://")).unlink)
        await catalog.expire(TESTER)
        return before, await catalog.load(TESTER, table.name)

    before, after = with_catalog(shared_dsn, use)
    assert before == after
    assert Path(after.location.removeprefix("file://")).exists()


def test_the_bounds_of_zero_are_those_of_both_zeros() -> None:
    found = bounds.statistics(b'{"1": [0.0, -0.0, 0]}', {1: "double"}, 1)
    assert (found.lower[1], found.upper[1]) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))
