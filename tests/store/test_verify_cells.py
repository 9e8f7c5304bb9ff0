"""Promise 2, cell by cell: whichever column of a row of the log is changed, verify finds it."""

from __future__ import annotations

import random

import psycopg
import pytest
from psycopg import sql

from tests.store import tampering

NOT_SEALED = {
    ("event", "transaction_id"),
    ("event", "position"),
    ("refusal", "transaction_id"),
    ("refusal", "position"),
}
"""Given out by the database when the row is written; verify looks at the order of those of events alone."""
OTHERWISE = {
    "uuid": "gen_random_uuid()",
    "bytea": "{0} || '\\x00'",
    "text": "{0} || 'x'",
    "smallint": "{0} + 1",
    "integer": "{0} + 1000",
    "bigint": "{0} + 1000",
    "timestamp with time zone": "{0} + interval '1 us'",
    "jsonb": """'{{"v": 1, "changed": true}}'""",
    "json": """'[{{"changed": true}}]'""",
    "boolean": "NOT {0}",
}
"""By type of column, another value than the one that is there."""
COLUMNS = """
    SELECT table_name, column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'chronolake' AND is_generated = 'NEVER' AND table_name IN (
        SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE t.tgname = c.relname || '_append_only' AND c.relname <> 'metastore'
    )
    ORDER BY table_name, ordinal_position
"""


def unseen(dsn: str, seed: int) -> list[str]:
    """The columns of the log in which verify did not find a change, of a row of each table at random."""
    chance = random.Random(seed)
    missed = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO chronolake")
        for table, column, kind in connection.execute(COLUMNS).fetchall():
            if (table, column) in NOT_SEALED:
                continue
            names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
            connection.execute(sql.SQL("ALTER TABLE {table} DISABLE TRIGGER ALL").format(**names))
            filled = sql.SQL("SELECT ctid::text FROM {table} WHERE {column} IS NOT NULL ORDER BY 1")
            rows = connection.execute(filled.format(**names)).fetchall()
            if not rows:
                continue
            [row] = chance.choice(rows)
            other = sql.SQL(OTHERWISE[kind].format(f'"{column}"'))
            with psycopg.connect(dsn) as tampering_connection:
                tampering_connection.execute("SET search_path TO chronolake")
                change = sql.SQL(
                    "UPDATE {table} SET {column} = {other} WHERE ctid = %s::tid RETURNING ctid::text"
                )
                before = tampering_connection.execute(
                    sql.SQL("SELECT {column}::text FROM {table} WHERE ctid = %s::tid").format(**names), [row]
                ).fetchone()
                try:
                    now = tampering_connection.execute(change.format(other=other, **names), [row]).fetchone()
                except psycopg.errors.CheckViolation:
                    continue
            assert before is not None
            assert now is not None
            if tampering.verify(dsn).holds:
                missed.append(f"{table}.{column}")
            back = sql.SQL("UPDATE {table} SET {column} = %s::{kind} WHERE ctid = %s::tid")
            connection.execute(back.format(kind=sql.SQL(kind), **names), [before[0], now[0]])
    return missed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_any_cell_of_the_log_is_detected(dsn: str, seed: int) -> None:
    tampering.make(dsn)
    tampering.refuse(dsn, "shop.orders", "shop.none")
    tampering.refuse(dsn)
    tampering.stage(dsn)
    tampering.report_deletions(dsn)
    assert tampering.verify(dsn).holds

    assert unseen(dsn, seed) == []
    assert tampering.verify(dsn).holds
