"""The auditor's page: every column that there is, and examples that an auditor can run on a real history."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.docs import markdown
from tests.docs.markdown import ROOT
from tests.store.history import History, make_history
from tests.store.streamed import Streamed

PAGE = ROOT / "docs/audit.md"
EXAMPLES = [
    statement.strip()
    for block in markdown.blocks(PAGE)
    if block.runs == "audit"
    for statement in block.code.split(";\n")
    if statement.strip()
]


@pytest.fixture(scope="module")
def history(shared_dsn: str) -> Iterator[str]:
    """The DSN of a lake with a history, and a stream that waits for its job."""
    with History(shared_dsn) as lake:
        make_history(lake)
        streamed = Streamed(lake)
        streamed.report("job", streamed.open("job"), -1, [0])
        lake.pass_seconds(61)
    yield shared_dsn


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.split())[:60])
def test_an_example_gives_rows_to_the_auditor(history: str, example: str) -> None:
    with psycopg.connect(history) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        assert connection.execute(example.encode()).fetchall()


def test_every_relation_of_the_auditor_has_an_example(history: str) -> None:
    examples = "\n".join(EXAMPLES)
    wanted = {name for name in _columns(history) if name not in ("write_stat", "event")} | {"tables_as_of"}
    assert {name for name in wanted if f"chronolake.{name}" not in examples} == set()


def test_every_column_of_the_auditors_views_is_documented(history: str) -> None:
    sections = {
        name: section
        for section in PAGE.read_text("utf-8").split("\n## ")
        for name in re.findall(r"^`(\w+)[`(]", section, re.M)
    }
    missing = {
        (name, column)
        for name, columns in _columns(history).items()
        if name.startswith("audit_") or name == "refusal"
        for column in columns
        if f"`{column}`" not in sections[name]
    }
    assert missing == set()


def test_every_column_of_the_tables_as_of_a_moment_is_documented(history: str) -> None:
    with psycopg.connect(history) as connection:
        cursor = connection.execute("SELECT * FROM chronolake.tables_as_of(now())")
        assert cursor.description is not None
        columns = [column.name for column in cursor.description]
    [section] = [part for part in PAGE.read_text("utf-8").split("\n## ") if "\n`tables_as_of(at)`" in part]
    assert [column for column in columns if f"`{column}`" not in section] == []


def _columns(dsn: str) -> dict[str, list[str]]:
    """The relations that the auditor can read, with their columns."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        rows = connection.execute(
            "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
            " WHERE table_schema = 'chronolake' GROUP BY table_name"
        ).fetchall()
    return dict(rows)
