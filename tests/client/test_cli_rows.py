"""``chronolake head`` and ``query``: rows of a table that executors' code has written."""

from __future__ import annotations

import io
import sys

import pyarrow as pa
import pytest

import chronolake
from chronolake.cli import rows
from tests.client.conftest import Cli

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


def test_a_query_that_fails_ends_with_the_reason(cli: Cli) -> None:
    assert "nothing.of_it" in cli("query", "select * from nothing.of_it").err
    refused = cli("query", "create table t (id int)")
    assert (refused.code, refused.err) == (2, "Error: the text is not a query: it has no rows\n")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("from a.b@20260101, c@latest where x='d@1'", """from a."b@20260101", "c@latest" where x='d@1'"""),
        ("from b@2026-01-31T12:00:00.5Z)", 'from "b@2026-01-31T12:00:00.5Z")'),
        ('select @x, "e@1" /* f@1 */ -- g@1', 'select @x, "e@1" /* f@1 */ -- g@1'),
    ],
)
def test_only_names_of_tables_with_a_time_are_quoted(sql: str, expected: str) -> None:
    assert rows.with_times_quoted(sql) == expected
