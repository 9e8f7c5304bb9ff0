"""Reads of rows by the client, of tables that executors' code has written. Random histories: tests/spark."""

from __future__ import annotations

import gc
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sized
from datetime import UTC, datetime

import duckdb
import polars
import pyarrow.dataset as ds
import pytest

import chronolake
from chronolake import Field, _record_versions, col
from chronolake._rows import RowReader, StateRows
from chronolake.slices.errors import BaseFileDamaged, SchemaMismatch
from chronolake_model.vocabulary import TableType
from tests.client.rows import SCHEMA, NewTable, amounts, of_day, write
from tests.fix_s3 import S3
from tests.spark.arrow_writes import row, upsert


@pytest.mark.parametrize("type_", TableType)
def test_rows_are_those_of_the_state_that_is_asked_for(new_rows: NewTable, type_: TableType) -> None:
    table = new_rows(type=type_)
    assert table.to_arrow().schema.names == ["id", "amount", "note", "ts", "day"]
    assert len(table.to_arrow()) == 0
    first = write(table, (1, 10, "a", 1), (2, 20, "b", 1))
    second = write(table, (1, 11, "a", 2), (4, 40, "d", 1))
    assert amounts(table.to_arrow(first)) == {1: 10, 2: 20}
    assert amounts(table.to_arrow(second.completion_time)) == amounts(table.to_arrow()) == {1: 11, 2: 20, 4: 40}
    changed = table.changes_to_arrow(first, second)
    assert (amounts(changed), set(changed["_change_type"].to_pylist())) == ({1: 11, 4: 40}, {"upsert"})


def test_rows_of_several_tables_are_those_of_one_cut(client: chronolake.Client, new_rows: NewTable) -> None:
    first, second, empty = new_rows(), new_rows(), new_rows()
    write(first, (1, 10, "a", 1))
    write(second, (2, 20, "b", 1))
    cut = client.cut(tables=[first.name, second.name, empty.name])
    for table in (first, second, empty):
        write(table, (1, 11, "c", 2), (3, 30, "c", 2))

    assert [amounts(table.to_arrow(cut)) for table in (first, second, empty)] == [{1: 10}, {2: 20}, {}]
    assert amounts(first.to_polars(cut.to_json()).collect().to_arrow()) == {1: 10}
    assert amounts(second.changes_to_arrow(cut)) == {1: 11, 3: 30}


def test_rows_are_filtered_exactly_after_files_were_pruned(orders: chronolake.Table) -> None:
    assert amounts(orders.to_arrow(where="day = '1' and amount > 10")) == {1: 11}
    assert amounts(orders.to_arrow(where=~(col("amount") > 10))) == {}
    assert orders.to_arrow(where="amount is null", columns=["note"]).to_pylist() == [{"note": "c"}]
    with pytest.raises(chronolake.errors.InvalidFilter):
        orders.to_arrow(where="nothing = 1")
    with pytest.raises(ValueError, match="expected"):
        orders.to_arrow(where="amount >")


def test_columns_come_in_the_order_asked_for_also_those_of_hudi(orders: chronolake.Table) -> None:
    rows = orders.to_arrow(columns=["note", "_hoodie_record_key"], where="id = 1")
    assert (rows.schema.names, rows.to_pylist()) == (
        ["note", "_hoodie_record_key"],
        [{"note": "a", "_hoodie_record_key": "1"}],
    )
    with pytest.raises(SchemaMismatch, match="no columns nothing; it has id, amount"):
        orders.to_arrow(columns=["nothing"])


def test_a_key_of_another_type_is_refused_and_not_changed(orders: chronolake.Table) -> None:
    assert [version.after and version.after["amount"] for version in orders.record_history(1)] == [10, 11]
    with pytest.raises(SchemaMismatch, match=r"1.5 is not an int"):
        orders.record_history(1.5)


def test_a_time_without_a_zone_is_no_key(new_rows: NewTable) -> None:
    table = new_rows(
        schema=[Field("at", "timestamp")], record_key_fields=["at"], partition_fields=[], ordering_field=None
    )
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    table.insert([{"at": noon}])
    assert len(table.record_history(noon)) == len(table.record_history("2024-01-01 12:00:00Z")) == 1
    with pytest.raises(SchemaMismatch, match="has no time zone: add one"):
        table.record_history(noon.replace(tzinfo=None))
    for refused in (
        lambda: table.record_history("2024-01-01 12:00:00"),
        lambda: table.delete({"at": [noon.replace(tzinfo=None)]}),
        lambda: table.delete(["2024-01-01 12:00:00"]),
    ):
        with pytest.raises(SchemaMismatch, match=r"give (the time with its zone|it a time zone)"):
            refused()


def test_files_of_earlier_schemas_are_read_in_the_present_columns(new_rows: NewTable) -> None:
    table = new_rows()
    before = write(table, (1, 10, "a", 1), (2, 20, "b", 1))
    table.change_schema(
        [
            chronolake.RenameColumn("amount", "total"),
            chronolake.WidenColumn("total", "bigint"),
            chronolake.AddColumn("extra", "struct<a:int>"),
        ]
    )
    upsert(table, of_day(1, 1, total=2**40, note="a", ts=2, extra={"a": 1}))
    rows = {of["id"]: (of["total"], of["extra"]) for of in table.to_arrow().to_pylist()}
    assert rows == {1: (2**40, {"a": 1}), 2: (20, None)}
    assert table.to_arrow(before, where="total >= 20").to_pylist() == [
        {"id": 2, "total": 20, "note": "b", "ts": 1, "day": "0", "extra": None}
    ]
    assert table.to_arrow(before, columns=["extra"]).to_pylist() == [{"extra": None}, {"extra": None}]


def test_a_read_that_a_clean_overtakes_says_so(new_rows: NewTable) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE)
    time = write(table, (2, 10, "a", 1)).completion_time
    reads = [table.to_batches(time).read_all, table.to_dataset(time).to_table, table.to_polars(time).collect]
    for amount in (11, 12):
        write(table, (2, amount, "a", amount))
    assert table.clean(retain_commits=1)
    for read in reads:
        with pytest.raises(chronolake.errors.HistoryCleaned, match=r"was cleaned: .* is earlier than"):
            read()


@pytest.mark.parametrize(
    ("step", "read"),
    [
        ((RowReader, "changed_rows"), chronolake.Table.changes_to_arrow),
        ((_record_versions, "differences"), chronolake.Table.differences_to_arrow),
        ((_record_versions, "versions"), lambda table, _time: table.record_history(2)),
    ],
)
def test_no_clean_overtakes_a_read_of_changes(
    new_rows: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[object, str],
    read: Callable[[chronolake.Table, str | None], Sized],
) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE)
    first, *_ = [write(table, (2, amount, "a", amount)) for amount in (10, 11, 12)]
    inner = getattr(*step)

    def after_a_clean(*arguments: object) -> object:
        assert table.clean(retain_commits=1) == []
        return inner(*arguments)

    monkeypatch.setattr(*step, after_a_clean)
    assert len(read(table, first.completion_time)) > 0
    assert (list(table.readers()), len(table.clean(retain_commits=1))) == ([], 1)


def test_batches_are_read_when_they_are_needed_and_leave_no_thread(new_rows: NewTable) -> None:
    table = new_rows(partition_fields=[])
    for group in range(40):
        upsert(table, row(group, group=group, id=group, ts=1))
    [base_file] = [slice_.base_file for slice_ in table.snapshot().slices[-1:]]
    assert base_file is not None
    folder = table.definition.base_path
    reader = table.to_batches()
    assert reader.read_next_batch().num_rows == 1
    # The last file is not open yet.
    (chronolake.storage.open_filesystem(folder)[0]).delete_file(f"{folder}/{base_file.path}")
    with pytest.raises(BaseFileDamaged, match="not in storage"):
        reader.read_all()
    del reader
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("chronolake-rows"):
            thread.join(10)
            assert not thread.is_alive()


def test_a_relation_of_duckdb_is_read_again_by_each_query(orders: chronolake.Table) -> None:
    connection = duckdb.connect()
    relation = orders.to_duckdb(connection)
    for _ in range(2):
        assert relation.aggregate("count(*), sum(amount)").fetchall() == [(4, 71)]
    connection.register("orders", orders.to_dataset(where="day = '0'"))
    query = "select note from orders where amount > 20 and id in (2, 4)"
    assert connection.sql(query).fetchall() == [("d",)]


_CALLS = """
import json, pickle, sys
import pyarrow as pa, pyarrow.dataset as ds
rows, found = pickle.loads(sys.stdin.buffer.read()), {}
right = ds.dataset(pa.table({"id": [1, 2], "other": [7, 8]}))
arguments = {"filter": [ds.field("amount") > 11], "head": [2, ["note"]], "join": [right, "id"]}
arguments |= {"join_asof": [right, "id", [], 0], "take": [[0, 3]], "sort_by": ["id"]}
arguments["replace_schema"] = [rows.schema]
for name in [*dir(ds.Dataset), "union", "children"]:
    if name.startswith("_"):
        continue
    try:
        value = ds.dataset([rows]).to_table() if name == "union" else getattr(rows, name)
        value = value(*arguments.get(name, [])) if callable(value) else value
        value = value.to_table() if hasattr(value, "to_table") else value
        value = value.sort_by("id") if name == "join" else value
        value = value["id"].to_pylist() if isinstance(value, pa.Table) and "id" in value.column_names else value
        found[name] = value if isinstance(value, list | int) else type(value).__name__
    except (NotImplementedError, OSError, pa.ArrowInvalid) as exc:
        found[name] = type(exc).__name__
print(json.dumps(found))
"""


@pytest.mark.slow
def test_each_attribute_of_a_dataset_of_pyarrow_works_or_is_refused(orders: chronolake.Table) -> None:
    rows = pickle.dumps(orders.to_dataset())
    ended = subprocess.run([sys.executable, "-c", _CALLS], input=rows, stdout=subprocess.PIPE, check=True)
    refused = dict.fromkeys(("get_fragments", "replace_schema", "children"), "NotImplementedError")
    assert json.loads(ended.stdout) == {
        **refused,
        "join": [1, 2, 3, 4],
        "join_asof": "ArrowInvalid",  # It wants rows in an order, as of each dataset.
        "scanner": [2, 4, 3, 1],
        "to_table": [2, 4, 3, 1],
        "count_rows": 4,
        "filter": [2, 4],
        "head": "Table",
        "partition_expression": "Expression",
        "schema": "Schema",
        "sort_by": [1, 2, 3, 4],
        "take": [2, 1],
        "to_batches": "RecordBatchReader",
        "union": "NotImplementedError",
    }


def test_a_dataset_has_the_first_rows_and_the_number_of_those_that_match(orders: chronolake.Table) -> None:
    rows = orders.to_dataset().filter(ds.field("amount") > 11)
    assert rows.head(1, columns=["note"]).to_pylist() == [{"note": "b"}]
    assert (rows.count_rows(), rows.count_rows(filter=ds.field("note") == "d")) == (2, 1)
    assert rows.scanner(columns=[]).count_rows() == 2
    assert orders.to_dataset().scanner(["note"], ds.field(0) == 4).to_table()["note"].to_pylist() == ["d"]
    with pytest.raises(NotImplementedError, match="name the columns"):
        rows.to_table({"twice": ds.field("id") * 2})


def test_a_scan_with_a_filter_on_other_columns_reads_only_its_columns(
    orders: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    of_columns = StateRows.of_columns

    def recorded(rows: StateRows, names: list[str]) -> StateRows:
        read.append(names)
        return of_columns(rows, names)

    monkeypatch.setattr(StateRows, "of_columns", recorded)
    rows = orders.to_dataset(columns=["day", "note", "amount", "id"])
    assert rows.count_rows(filter=(ds.field("amount") > 11) & (ds.field("note") == "d")) == 1
    assert rows.to_table(["id"], filter=ds.field("note") == "d").to_pylist() == [{"id": 4}]
    assert read == [["note", "amount"], ["note", "id"]]


def test_a_frame_of_polars_is_lazy_and_has_the_columns_that_a_query_needs(orders: chronolake.Table) -> None:
    frame = orders.to_polars()
    assert isinstance(frame, polars.LazyFrame)
    found = frame.filter(polars.col("amount") > 20).select("note").collect()
    assert found.to_dicts() == [{"note": "d"}]
    assert frame.select(polars.len()).collect().item() == 4


def test_pandas_gets_integers_with_nulls_as_integers(new_rows: NewTable) -> None:
    table = new_rows(schema=[*SCHEMA, Field("big", "bigint")])
    upsert(
        table,
        row(1, path="day=1", id=1, ts=1, day="1", big=2**53 + 1),
        row(3, path="day=1", id=3, ts=1, day="1"),
    )
    frame = table.to_pandas(columns=["id", "big"])
    assert frame["big"].iloc[0] == 2**53 + 1
    assert frame["big"].isna().tolist() == [False, True]


def test_other_readers_find_the_same_rows_in_the_files_of_a_copy_on_write_table(new_rows: NewTable) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE)
    write(table, (1, 10, "a", 1), (2, 20, "b", 1))
    write(table, (1, 11, "a", 2), (4, None, "d", 1))
    base_path = table.definition.base_path
    files = [f"{base_path}/{slice_.base_file.path}" for slice_ in table.snapshot().slices if slice_.base_file]
    rows = table.to_arrow(columns=ds.dataset(files).schema.names)
    assert rows.equals(ds.dataset(files).to_table())
    assert duckdb.read_parquet(files).order("id").select("id, amount, day").fetchall() == sorted(
        zip(*(rows[name].to_pylist() for name in ("id", "amount", "day")), strict=True)
    )


def test_rows_of_a_table_in_a_bucket_are_read(shared_server_url: str, s3: S3) -> None:
    where = {f"storage.{name}": s3.options[name] for name in ("endpoint_override", "region")}
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    with chronolake.connect(shared_server_url, storage_options=secrets) as client:
        client.create_namespace("rows_of_bucket")
        table = client.create_table(
            "rows_of_bucket.table",
            base_path=s3.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            partition_fields=["day"],
            ordering_field="ts",
            type=TableType.MERGE_ON_READ,
            properties={**where, "hudi.publish": "false"},
        )
        write(table, (1, 10, "a", 1), (2, 20, "b", 1))
        write(table, (1, 11, "a", 2))
        assert amounts(table.to_arrow()) == {1: 11, 2: 20}
        assert table.to_duckdb(duckdb.connect()).sum("amount").fetchall() == [(31,)]


def test_a_library_that_is_missing_is_named_with_its_extra(
    orders: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"pip install 'chronolake\[polars\]'"):
        orders.to_polars()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_for_an_event_loop_reads_rows_too(
    shared_server_url: str, orders: chronolake.Table
) -> None:
    async with chronolake.connect_async(shared_server_url) as client:
        table = await client.table(orders.name)
        assert amounts(await table.to_arrow()) == amounts(orders.to_arrow())
        assert (await table.to_batches(columns=["id"])).read_all().num_rows == 4


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_lost_file_is_found_also_in_the_thread_of_the_event_loop(
    shared_server_url: str, new_rows: NewTable
) -> None:
    name = new_rows(type=TableType.COPY_ON_WRITE).name
    async with chronolake.connect_async(shared_server_url) as client:
        table = await client.table(name)
        await table.insert([{"id": 2, "amount": 1, "note": "a", "ts": 1, "day": "0"}])
        reader = await table.to_batches()
        [path] = [of.base_file.path for of in (await table.snapshot()).slices if of.base_file is not None]
        base_path = table.definition.base_path
        chronolake.storage.open_filesystem(base_path)[0].delete_file(f"{base_path}/{path}")
        with pytest.raises(BaseFileDamaged, match="not in storage"):
            reader.read_all()
