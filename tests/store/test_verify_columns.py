"""Promise 2: verify names a change of every column of every table, or the documentation says why it cannot.

The columns come from the catalog of the database: one that is added later fails here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from chronolake_metastore.domain import leases
from chronolake_metastore.domain.eras import RecordArchivedEra
from chronolake_metastore.domain.grants import GrantRole
from chronolake_metastore.domain.locations import AllowLocation
from chronolake_metastore.domain.proof import Check
from chronolake_metastore.domain.tokens import CreateToken, RevokeToken, RotateToken
from chronolake_metastore.proof.verification import Report
from chronolake_model.roles import Role
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action
from tests.store import archiving, tampering
from tests.store.streamed import Streamed
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, group, stat

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
CHANGED = {
    "bool": "NOT coalesce({0}, false)",
    "int2": "coalesce({0}, 0) + 1",
    "int4": "coalesce({0}, 0) + 1000",
    "int8": "coalesce({0}, 0) + 1000",
    "numeric": "coalesce({0}, 0) + 1",
    "text": "coalesce({0}, '') || 'x'",
    "uuid": "gen_random_uuid()",
    "timestamptz": "coalesce({0}, '9999-01-01') - interval '1 ms'",
    "bytea": "sha256(coalesce({0}, ''))",
    "jsonb": "jsonb_build_object('changed', {0})",
    "json": "json_build_object('changed', {0})",
    "xid8": "(coalesce({0}, '0')::text::bigint + 1)::text::xid8",
    "_text": "array_append({0}, 'x')",
    "_int8": "array_append({0}, 1)",
}
"""Another value of a column ``{0}``, by its type."""
COLUMNS = """
    SELECT c.relname, a.attname, t.typname
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relnamespace = 'chronolake'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
        -- It says in which partition a row is, and nothing else.
        AND NOT (c.relkind = 'p' AND a.attname = 'era')
    ORDER BY c.relname, a.attnum
"""
UNLOCK = """
    SELECT format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I CASCADE', conrelid::regclass, conname)
    FROM pg_constraint
    WHERE connamespace = 'chronolake'::regnamespace AND contype IN ('c', 'f', 'x') AND conislocal
    UNION ALL
    SELECT format('DROP INDEX IF EXISTS %s', indexrelid::regclass)
    FROM pg_index
    WHERE indexprs IS NOT NULL
        AND indrelid IN (
            SELECT oid FROM pg_class WHERE relnamespace = 'chronolake'::regnamespace AND NOT relispartition
        )
    UNION ALL
    SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
    FROM pg_trigger
    WHERE NOT tgisinternal AND tgparentid = 0
        AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'chronolake'::regnamespace)
    UNION ALL
    SELECT format(
        'ALTER TABLE %s ALTER %I DROP %s', attrelid::regclass, attname,
        CASE WHEN attidentity <> '' THEN 'IDENTITY' ELSE 'EXPRESSION' END
    )
    FROM pg_attribute
    WHERE (attidentity <> '' OR attgenerated <> '')
        AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'chronolake'::regnamespace)
"""
"""Statements that remove the obstacles to a superuser's change of a value."""
Column = tuple[str, str, str]
"""A table, its column, and the type of that."""


def documented() -> set[str]:
    """The tables and columns of the page that verify does not prove."""
    section = (
        OPERATIONS.read_text(encoding="utf-8")
        .partition("### What `verify` cannot prove")[2]
        .partition("\n#")[0]
    )
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.fixture
def everything_dsn(dsn: str) -> str:
    """A database with a row in every table of the log and every projection."""
    with TablesOfTypes(dsn, role="none") as history:
        history.make()
        written = history.start(COW, Action.COMMIT)
        history.mark(COW, written.requested_time, 0, 1)
        history.report(COW, written.requested_time, 1)
        history.finish(written, stat(written, 0))
        replacing = history.start(COW, Action.REPLACECOMMIT)
        history.finish(replacing, stat(replacing, 2), replaced=(group(0),))
        appended = history.start(MOR, Action.DELTACOMMIT)
        history.finish(appended, stat(appended, 0))
        history.planned(MOR, Action.COMPACTION, group(0))
        history.refused(
            leases.RenewLease(
                COW,
                Micros(1000),
            )
        )
        streamed = Streamed(history)
        streamed.report("job", streamed.open("job"), -1, [0])
        history.done(CreateToken("abcdefghij", "a-key", "a digest", False, 60))
        history.done(RotateToken("abcdefghij", "a-key", "another digest", 60))
        history.done(RevokeToken("abcdefghij"))
        history.done(AllowLocation("shop", "s3://lake/"))
        history.done(GrantRole("token:abcdefghij", Role.WRITER, "shop"))
        # The last command: there is no such archive to look keys up in.
        history.done(RecordArchivedEra(1, 1_000, "s3://archive", ["a digest"]))
    return dsn


@contextmanager
def changed(connection: psycopg.Connection[Any], table: str, column: str, kind: str) -> Iterator[None]:
    """Change the column of one row, and put the row back."""
    names = sql.Identifier(table), sql.Identifier(column)
    [row] = connection.execute(sql.SQL("SELECT ctid::text FROM {} LIMIT 1").format(names[0])).fetchone() or [
        None
    ]
    assert row is not None, f"the history has no row of {table}: add one, so that its columns are tried"
    value = sql.SQL(CHANGED.get(kind, "NULL")).format(names[1])
    change = sql.SQL("UPDATE {} SET {} = {} WHERE ctid = {}::tid RETURNING ctid::text")
    kept = connection.execute(
        sql.SQL("SELECT {}::text FROM {} WHERE ctid = {}::tid").format(names[1], names[0], row)
    ).fetchone()
    [moved] = connection.execute(change.format(names[0], names[1], value, row)).fetchone() or [""]
    yield
    again = sql.SQL("{}::{}").format(sql.Literal(kept[0] if kept else None), sql.SQL(kind))
    connection.execute(change.format(names[0], names[1], again, moved))


def columns_by_table(connection: psycopg.Connection[Any]) -> dict[str, list[Column]]:
    """The columns that are to be tried: not those of tables that are documented as unproved."""
    by_table: dict[str, list[Column]] = {}
    for table, column, kind in connection.execute(COLUMNS).fetchall():
        if table not in documented():
            by_table.setdefault(table, []).append((table, column, kind))
    return by_table


def differing_projections(report: Report) -> set[str]:
    """The projections that a report says to differ from the replay."""
    compared = [finding.what for finding in report.findings if finding.check is Check.PROJECTION]
    return {what.partition("(")[0] for what in compared}


def test_every_column_is_proved_or_documented(everything_dsn: str, tmp_path: Path) -> None:
    # Empty, as no answer has left: verify would ask for it where the first outcome of a chain is changed.
    archive = archiving.local(tmp_path)
    with psycopg.connect(everything_dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO chronolake")
        for (statement,) in connection.execute(UNLOCK).fetchall():
            connection.execute(statement.encode())
        tables = {table for table, *_ in connection.execute(COLUMNS).fetchall()} & documented()
        by_table = columns_by_table(connection)
        alone = [column for table in tampering.LOG for column in by_table.pop(table, [])]
        # Each projection is compared with its replay by itself, so one run tries a column of each.
        for columns in itertools.zip_longest(*by_table.values()):
            together = [column for column in columns if column is not None]
            with ExitStack() as changes:
                for column in together:
                    changes.enter_context(changed(connection, *column))
                differing = differing_projections(tampering.verify(everything_dsn, archive=archive))
            alone += [column for column in together if column[0] not in differing]
        unproved = set()
        for table, name, kind in alone:
            with changed(connection, table, name, kind):
                if tampering.verify(everything_dsn, archive=archive).holds:
                    unproved.add(f"{table}.{name}")

    assert unproved | tables == documented()
    assert tampering.verify(everything_dsn, archive=archive).holds
