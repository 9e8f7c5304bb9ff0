"""The auditor's page: every column that there is, and examples that an auditor can run on a real history."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.docs import markdown
from tests.docs.markdown import ROOT
from tests.server import located
from tests.server.test_embedded import EmbeddingServer
from tests.store.history import History, make_history, make_roles, make_token
from tests.store.streamed import Streamed

PAGE = ROOT / "docs/audit.md"
EXAMPLES = [
    statement.strip()
    for block in markdown.blocks(PAGE)
    if block.runs == "audit"
    for statement in block.code.split(";\n")
    if statement.strip()
]


IN_ALL_VIEWS = [
    "table_name",
    "table_id",
    "requested_time",
    "requested_digits",
    "actor",
    "address",
    "request_id",
]
"""Columns that mean the same in all views: the page explains them."""
BESIDE_VIEWS = [
    "refusal",
    "metastore",
    "base_path",
    "steady_clock",
    "clock_jump",
    "era",
    "archived_era",
    "location",
]


@pytest.fixture(scope="module")
def history(shared_dsn: str) -> Iterator[str]:
    """The DSN of a lake with a history, and a stream that waits for its job."""
    make_token(shared_dsn)
    with History(shared_dsn) as lake:
        make_history(lake)
        make_roles(lake, "shop.orders")
        streamed = Streamed(lake)
        streamed.report("job", streamed.open("job"), -1, [0])
        lake.pass_seconds(61)
    located.allow(shared_dsn, "elsewhere", "s3://lake/elsewhere")
    yield shared_dsn


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.split())[:60])
def test_an_example_gives_rows_to_the_auditor(history: str, example: str) -> None:
    with psycopg.connect(history) as connection:
        connection.execute("SET ROLE chronolake_auditor; SET search_path TO chronolake")
        assert connection.execute(example.encode()).fetchall()


def test_the_embedded_database_is_reached_by_its_dsn(
    data_dir: Path, serve: Callable[[], EmbeddingServer]
) -> None:
    [connecting] = [block.code for block in markdown.blocks(PAGE) if block.code.startswith("psql")]
    [role] = [block.code for block in markdown.blocks(PAGE) if block.code.startswith("SET ROLE")]
    [command] = re.findall(r'"\$\((.*)\)"', connecting)
    program, *arguments = shlex.split(command.replace("/tmp/chronolake", str(data_dir)))
    serve()

    dsn = subprocess.check_output([Path(sys.executable).parent / program, *arguments], text=True)
    with psycopg.connect(dsn.strip()) as connection:
        connection.execute(role.encode())
        assert connection.execute("SELECT count(*) FROM audit_commands").fetchone() == (0,)


def test_every_relation_of_the_auditor_has_an_example(history: str) -> None:
    examples = "\n".join(EXAMPLES)
    # alembic_version is read by the archive of the log, which has the auditor's role.
    read_elsewhere = ("write_stat", "event", "alembic_version")
    wanted = {name for name in _columns(history) if name not in read_elsewhere} | {"tables_as_of", "state_at"}
    assert {name for name in wanted if not re.search(rf"(FROM|JOIN) {name}\b", examples)} == set()


def test_every_column_of_the_auditors_views_has_a_comment(history: str) -> None:
    with psycopg.connect(history) as connection:
        rows = connection.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = 'chronolake'::regnamespace AND a.attnum > 0"
            " AND (c.relname LIKE 'audit\\_%%' OR c.relname = ANY(%s))"
            " AND a.attname <> ALL(%s) AND col_description(c.oid, a.attnum) IS NULL",
            (BESIDE_VIEWS, IN_ALL_VIEWS),
        ).fetchall()
    assert rows == []


@pytest.mark.parametrize("call", ["tables_as_of(now())", "state_at('WyIwIiwwXQ')"])
def test_every_column_of_a_function_of_auditors_is_in_its_comment(history: str, call: str) -> None:
    function = f"chronolake.{call.partition('(')[0]}"
    with psycopg.connect(history) as connection:
        cursor = connection.execute(f"SELECT * FROM chronolake.{call}".encode())
        assert cursor.description is not None
        [[comment]] = connection.execute(
            "SELECT obj_description(%s::regproc, 'pg_proc')", [function]
        ).fetchall()
    columns = {column.name for column in cursor.description} - {"table_id"}
    assert {column for column in columns if f"`{column}`" not in comment} == set()


def test_the_columns_without_a_comment_are_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [
        name for name in IN_ALL_VIEWS if f"`{name.replace('requested_digits', '_digits')}`" not in page
    ] == []


def _columns(dsn: str) -> dict[str, list[str]]:
    """The relations that the auditor can read, with their columns."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        rows = connection.execute(
            "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
            " WHERE table_schema = 'chronolake' GROUP BY table_name"
        ).fetchall()
    return dict(rows)
