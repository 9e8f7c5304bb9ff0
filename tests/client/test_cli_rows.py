"""``chronolake head``, ``query``, ``diff`` and ``history``: rows of real files."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import chronolake
from chronolake import Action, Field, _keys
from chronolake.cli import output, rows
from chronolake.slices import python_rows
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from tests.client.conftest import Cli
from tests.client.rows import SCHEMA, NewTable, of_day, write
from tests.spark.arrow_writes import row, upsert

ALL = [
    {"id": 2, "amount": 20, "note": "b"},
    {"id": 4, "amount": 40, "note": "d"},
    {"id": 3, "amount": None, "note": "c"},
    {"id": 1, "amount": 11, "note": "a"},
]
"""By file groups; a record of a log file comes after those of the base file."""


@pytest.fixture
def first(orders: chronolake.Table) -> str:
    """The completion time of the first write."""
    time = next(iter(orders.instants())).completion_time
    assert time is not None
    return time


def test_head_shows_rows_in_four_forms(
    cli: Cli, orders: chronolake.Table, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ("--columns", "id,amount,note")
    assert cli("head", orders.name, *columns, "--json").json == ALL
    assert cli("head", orders.name, *columns, "--as-of", first, "--where", "id = 1", "-o", "json").json == [
        {"id": 1, "amount": 10, "note": "a"}
    ]
    assert (
        cli("head", orders.name, *columns, "--output", "csv", "--limit", "1").out == "id,amount,note\n2,20,b\n"
    )
    assert "20  b" in cli("head", orders.name, *columns).out
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stdout)
    assert cli("head", orders.name, *columns, "--output", "arrow").code == 0
    with pa.ipc.open_stream(stdout.buffer.getvalue()) as stream:
        assert stream.read_all().to_pylist() == ALL


def test_head_imports_only_what_it_needs(server_url: str, new_rows: NewTable) -> None:
    schema = [Field("id", "bigint"), Field("at", "timestamp")]
    table = new_rows(schema=schema, partition_fields=[], ordering_field=None)
    table.insert([{"id": 1, "at": datetime(2024, 1, 1, 12, 0, 0, 5, tzinfo=UTC)}, {"id": 2, "at": None}])
    code = (
        "import atexit, sys; from chronolake_start import client;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); client()"
    )
    arguments = ("head", table.name, "--output", "csv", "--url", server_url)
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)

    others = {"asyncio", "chronolake._async", "chronolake.cli.tables", "chronolake_hudi", "click", "duckdb"}
    others |= {"fastavro", "pandas", "polars", "pyarrow.compute", "pydantic", "rich"}
    assert set(ended.stdout.splitlines()) == {"id,at", "1,2024-01-01 12:00:00.000005+00:00", "2,"}
    assert others.isdisjoint(ended.stderr.split())


def test_dates_and_floats_that_python_or_json_lacks_are_texts(cli: Cli, new_rows: NewTable) -> None:
    fields = {"day": "date", "at": "timestamp", "days": "array<date>", "x": "double", "xs": "array<double>"}
    schema = [Field("id", "int"), *(Field(name, type_) for name, type_ in fields.items())]
    table = new_rows(schema=schema, partition_fields=[], ordering_field=None)
    late = pa.array([2932897], pa.date32())
    table.insert(
        pa.table(
            {
                "id": [1],
                "day": late,
                "at": pa.array([-62135596800000001], pa.timestamp("us", "UTC")),
                "days": pa.ListArray.from_arrays([0, 1], late),
                "x": [math.nan],
                "xs": [[math.inf, -math.inf, 0.5]],
            }
        )
    )
    whole = {
        "id": 1,
        "day": "+10000-01-01",
        "at": "+0000-12-31T23:59:59.999999Z",
        "days": ["+10000-01-01"],
        "x": "NaN",
        "xs": ["Infinity", "-Infinity", 0.5],
    }
    assert cli("head", table.name, "--json").json == [whole]
    assert cli("query", f"from {table.name}", "--json").json == [whole]
    assert [version["after"] for version in cli("history", table.name, "--key", "1", "--json").json] == [whole]
    assert [difference["after"] for difference in cli("diff", table.name, "earliest", "--json").json] == [whole]
    assert "+10000-01-01" in cli("head", table.name).out


@pytest.mark.parametrize("type_", [pa.list_(pa.date32()), pa.large_list(pa.date32()), pa.list_(pa.date32(), 1)])
def test_lists_of_each_kind_have_dates_that_python_lacks_as_texts(type_: pa.DataType) -> None:
    days = pa.array([[2932897], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())).cast(type_)
    assert python_rows.values(days) == [["+10000-01-01"], None]


def test_csv_tells_null_from_the_empty_text_as_ingest_does(cli: Cli) -> None:
    sql = """from (values (null, ''), ('a "b", c', 'd')) t(x, "y,")"""
    assert cli("query", sql, "-o", "csv").out == 'x,"y,"\n,""\n"a ""b"", c",d\n'
    assert cli("query", "from (values (null), ('a')) t(x)", "-o", "csv").out == 'x\n""\na\n'


def test_head_says_which_columns_there_are(cli: Cli, orders: chronolake.Table) -> None:
    refused = cli("head", orders.name, "--columns", "nothing")
    assert (refused.code, "it has id, amount, note, ts, day" in refused.err) == (1, True)


def test_a_query_joins_states_of_tables_that_are_found_by_name(
    cli: Cli, orders: chronolake.Table, first: str
) -> None:
    name = orders.name.partition(".")[2]
    sql = f"""
        with old as (select * from {name}@{first})
        select id, old.amount as before, new.amount as after  -- the time in 'orders@2026' is text
        from old join {orders.name} as new using (id) where old.amount <> new.amount
    """
    assert cli("query", sql, "--json").json == [{"id": 1, "before": 10, "after": 11}]
    assert cli("query", f'select count(*) as rows from "{name}@{first}"', "-o", "csv").out == "rows\n4\n"


def test_a_query_reads_tables_at_one_moment_and_as_of_a_cut(
    cli: Cli, client: chronolake.Client, new_rows: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_rows(), new_rows()
    write(first, (1, 10, "a", 1))
    write(second, (1, 10, "a", 1))
    cut = client.cut(tables=[first.name, second.name]).to_json()
    sql = f"select (select count(*) from {first.name}) as a, (select count(*) from {second.name}) as b"
    note_time = rows._note_time

    def write_between(*arguments: Any) -> None:
        write(second, (2, 20, "b", 1))
        monkeypatch.setattr(rows, "_note_time", note_time)

    monkeypatch.setattr(rows, "_note_time", write_between)
    assert cli("query", sql, "-o", "csv").out == "a,b\n1,1\n"
    assert cli("query", sql, "-o", "csv").out == "a,b\n1,2\n"
    assert cli("query", sql, "--as-of", cut, "-o", "csv").out == "a,b\n1,1\n"
    other = new_rows()
    assert "does not have the table" in cli("query", f"from {other.name}", "--as-of", cut).err
    assert "does not have the table" in cli("head", other.name, "--as-of", cut).err


def test_a_query_reads_a_table_whatever_its_name_is(
    cli: Cli, client: chronolake.Client, orders: chronolake.Table, new_rows: NewTable
) -> None:
    definition = new_rows().definition
    for name in ("rows_0", "rows_1"):
        client.create_table(
            f"rows.{name}",
            base_path=f"{definition.base_path}_{name}",
            schema=definition.schema,
            record_key_fields=["id"],
        )
    counts = [f"(select count(*) from {name})" for name in ("rows_0", "rows_1", orders.name)]
    sql = f"select {' + '.join(counts)} as n"
    assert cli("query", sql, "-o", "csv").out == "n\n4\n"


def test_columns_of_one_name_are_told_apart(cli: Cli, orders: chronolake.Table, first: str) -> None:
    sql = f"select id, note, old.amount, new.amount from {orders.name}@{first} old join {orders.name} new"
    found = cli("query", f"{sql} using (id, note) where id = 1", "--json").json
    assert found == [{"id": 1, "note": "a", "amount": 10, "amount_1": 11}]


def test_an_expression_may_have_the_name_of_tables(
    cli: Cli, client: chronolake.Client, orders: chronolake.Table, new_rows: NewTable
) -> None:
    table = new_rows()
    name = table.name.partition(".")[2]
    definition = table.definition
    client.create_namespace("others")
    client.create_table(
        f"others.{name}",
        base_path=f"{definition.base_path}_other",
        schema=definition.schema,
        record_key_fields=["id"],
    )
    sql = f"with {name} as (select * from {orders.name}) select count(*) as rows from {name}"
    assert cli("query", sql, "-o", "csv").out == "rows\n4\n"
    assert "several tables have the name" in cli("query", f"from {name}").err


def test_a_query_finds_nan_greater_than_all_numbers(cli: Cli, new_rows: NewTable) -> None:
    table = new_rows(schema=[*SCHEMA, Field("x", "double")])
    rows = (of_day(id_ % 2, id_, ts=1, x=x) for id_, x in ((1, 1.0), (2, math.nan), (3, 7.0)))
    upsert(table, *rows)
    sql = f"select id from {table.name} where x > 5 order by id"
    assert cli("query", sql, "-o", "csv").out == "id\n2\n3\n"


def test_a_query_that_fails_ends_with_the_reason(cli: Cli, orders: chronolake.Table) -> None:
    refused = cli("query", f"select note::int from {orders.name}")
    assert (refused.code, "Could not convert string" in refused.err) == (1, True)
    for unknown in ("nothing.of_it", "of_it", f"{orders.name}_old@2026"):
        refused = cli("query", f"from {unknown}")
        assert f"there is no table {unknown.removesuffix('@2026')}; the server has " in refused.err
        assert refused.code == output.NOT_FOUND
    assert "no_column" in cli("query", f"select no_column from {orders.name}").err
    for sql in (f"delete from {orders.name}", f"update {orders.name} set id = 1"):
        refused = cli("query", sql)
        assert (refused.code, "query only reads" in refused.err) == (2, True)
    refused = cli("query", f"from {orders.name}@yesterday")
    assert (refused.code, "'yesterday' is no time" in refused.err) == (2, True)
    refused = cli("query", "create table t (id int)")
    assert (refused.code, refused.err) == (2, "Error: the text is not a query: it has no rows\n")


def test_a_time_that_may_be_mistyped_is_noted(cli: Cli, orders: chronolake.Table, first: str) -> None:
    assert "after 2020-01-01 00:00:00.000" in cli("head", orders.name, "--as-of", "2020-01-01").err
    future = cli("query", f"from {orders.name}@9000-01-01", "-o", "csv")
    assert (future.code, "is in the future" in future.err) == (0, True)
    assert cli("head", orders.name, "--as-of", first).err == ""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("from a.b@20260101, c@latest where x='d@1'", """from a."b@20260101", "c@latest" where x='d@1'"""),
        ("from a.b@today join c", 'from a."b@today" join c'),
        ("from b@2026-01-31T12:00:00.5Z)", 'from "b@2026-01-31T12:00:00.5Z")'),
        ('select @x, "e@1" /* f@1 */ -- g@1', 'select @x, "e@1" /* f@1 */ -- g@1'),
    ],
)
def test_only_names_of_tables_with_a_time_are_quoted(sql: str, expected: str) -> None:
    assert rows.with_times_quoted(sql) == expected


@pytest.fixture(scope="module", params=[IndexType.SIMPLE, IndexType.BUCKET])
def changed(request: pytest.FixtureRequest, new_rows: NewTable) -> chronolake.Table:
    """A table with an insert, an update, a late change, a delete, a restore, and a compaction between."""
    table = new_rows(index=BucketIndex(request.param, 2), partition_fields=[], type=TableType.COPY_ON_WRITE)
    bucket = int(_keys.buckets([pa.array(["2"])], 2)[0])

    def put(amount: int, ts: int, *, delete: bool = False) -> None:
        changed = row(2, group=bucket, delete=delete, id=2, amount=amount, note="n", ts=ts)
        upsert(table, changed, row(9, group=1 - bucket, id=9, ts=ts))

    put(20, 1)
    table.savepoint()
    put(21, 2)
    put(0, 1)
    put(0, 3, delete=True)
    return table


def test_the_history_of_a_record_names_who_changed_it_and_what_it_was(
    cli: Cli, changed: chronolake.Table
) -> None:
    instants = list(changed.timeline.completed().by_completion_time().where(action=Action.COMMIT))
    versions = cli("history", changed.name, "--key", "2", "--json").json
    amounts_of = [
        tuple(None if version[side] is None else version[side]["amount"] for side in ("before", "after"))
        for version in versions
    ]
    assert [version["change"] for version in versions] == ["insert", "update", "delete"]
    assert amounts_of == [(None, 20), (20, 21), (21, None)]
    made_by = [instants[number] for number in (0, 1, 3)]
    assert [version["requested_time"] for version in versions] == [made.requested_time for made in made_by]
    assert {version["writer"] for version in versions} == {instants[0].writer}
    assert "amount: 20 -> 21" in cli("history", changed.name, "--key", "id=2").out
    assert "No version" in cli("history", changed.name, "--key", "3").out


def test_a_history_fits_a_narrow_screen(
    cli: Cli, changed: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("history", changed.name, "--key", "2").out.splitlines()
    assert all(word in lines[1] for word in ("instant", "writer", "change", "columns"))
    assert max(len(line) for line in lines) <= 80


def test_the_history_is_without_what_a_restore_has_undone(new_rows: NewTable) -> None:
    table = new_rows()
    write(table, (1, 10, "a", 1))
    savepoint = table.savepoint()
    write(table, (1, 11, "a", 2))
    table.restore(savepoint.requested_time)
    last = upsert(table, of_day(1, 1, ts=3, delete=True))
    versions = table.record_history((1,))
    assert [version.change for version in versions] == ["insert", "delete"]
    assert versions[-1].requested_time == last.requested_time
    assert versions[-1].before == {"id": 1, "amount": 10, "note": "a", "ts": 1, "day": "1"}


def test_a_history_that_a_clean_shortened_says_since_when_it_can_be_read(cli: Cli, new_rows: NewTable) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE)
    write(table, (1, 10, "a", 1), (2, 20, "b", 1))
    write(table, (1, 11, "a", 2))
    assert "cleaned" not in cli("history", table.name, "--key", "3").out
    table.clean(retain_commits=1)
    write(table, (1, 12, "a", 3), (4, 40, "d", 1))
    since = f"History up to {table.snapshot('earliest').as_of} ("
    assert [since in cli("history", table.name, "--key", key).out for key in "124"] == [True, True, False]


def test_a_key_of_another_form_is_refused(cli: Cli, orders: chronolake.Table) -> None:
    refused = cli("history", orders.name, "--key", "id=1", "--key", "day=1")
    assert (refused.code, "--key id=VALUE" in refused.err) == (2, True)
    assert "is not a key" in cli("history", orders.name, "--key", "x").err


def test_the_diff_of_two_states_has_what_differs_in_them(cli: Cli, new_rows: NewTable) -> None:
    table = new_rows(properties={"hudi.publish": "false", "merge.mode": "commit-time"})
    first = write(table, (1, 10, "a", 1), (2, 20, "b", 1), (3, 30, "c", 1), (5, 50, "e", 1))
    write(table, (1, 11, "a", 2), (3, 30, "c", 1), (4, 40, "d", 1))
    upsert(table, of_day(0, 2, ts=3, delete=True))
    assert first.completion_time is not None
    listed = cli("diff", table.name, first.completion_time, "--columns", "id,amount", "--json").json
    assert sorted(listed, key=str) == [
        {"change": "delete", "before": {"id": 2, "amount": 20}, "after": None},
        {"change": "insert", "before": None, "after": {"id": 4, "amount": 40}},
        {"change": "update", "before": {"id": 1, "amount": 10}, "after": {"id": 1, "amount": 11}},
    ]
    assert "amount: 10 -> 11" in cli("diff", table.name, first.completion_time, "--columns", "amount").out
    shown = cli("diff", table.name, first.completion_time, "latest")
    assert "1 x insert, 1 x update, 1 x delete" in shown.out
    assert "amount: 10 -> 11" in shown.out
