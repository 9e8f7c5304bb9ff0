"""Events that leave, for tests: what lets them, and what must not change by it."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from chronolake_metastore.archive.dropping import Dropped
from chronolake_metastore.domain import needed_events, tables
from chronolake_metastore.domain.needed_events import Causes, Need
from chronolake_storage.files import Files
from tests.store import archiving
from tests.store.history import History, make_history

TABLES = ("event", "event_entry", "write_stat", "deleted_file")
TRIES = 20
LEAST = {"hoodie.keep.min.commits": "1", "deletions.grace-seconds": "60"}
"""Properties of a table that keeps as few events as it may."""


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, which may change some."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def publish(dsn: str) -> None:
    """As if a publisher had published each log, and moved all but the last commit into the history."""
    query(dsn, """
        INSERT INTO publication (table_id, published_version, published_completion, history)
        SELECT c.table_id, c.version, 'epoch', jsonb_build_object('before', (
            SELECT coalesce(max(micros(i.requested_time)), 0) FROM instant i
            WHERE i.table_id = c.table_id AND i.completion_time IS NOT NULL
        ))
        FROM clock c JOIN lake_table t USING (table_id)
        ON CONFLICT (table_id) DO UPDATE
        SET published_version = excluded.published_version, history = excluded.history
    """)  # fmt: skip


def begin_era(dsn: str) -> None:
    """Begin the next era."""
    query(dsn, "SELECT begin_era((SELECT max(era) + 1 FROM era))")


def need_little(monkeypatch: pytest.MonkeyPatch, share: float = 1.0) -> None:
    """Let tables need the last share of their events only, whatever their state needs."""

    def need(causes: Causes) -> Need:
        return Need(None, max(1, round(share * causes.version)))

    monkeypatch.setattr(needed_events, "need", need)
    monkeypatch.setattr(needed_events, "need_for_blockers", need)


def log(dsn: str) -> dict[str, set[str]]:
    """The rows of the log by table, without their eras."""
    rows = {}
    for table in TABLES:
        names = [name for (name,) in query(dsn, f"""
            SELECT attname::text FROM pg_attribute
            WHERE attrelid = '{table}'::regclass AND attnum > 0 AND attname <> 'era' ORDER BY attnum
        """)]  # fmt: skip
        selected = sql.SQL(", ").join(map(sql.Identifier, names)).as_string()
        rows[table] = {repr(row) for row in query(dsn, f"SELECT {selected} FROM {table}")}
    return rows


def left_over(dsn: str) -> list[str]:
    """Tables of copies that nothing has taken away."""
    return [name for (name,) in query(dsn, "SELECT relname FROM pg_class WHERE relname LIKE '%\\_needed'")]


def catalog(dsn: str, table: str, era: int) -> list[str]:
    """The columns, constraints, indexes and triggers of a partition by the catalogs, without its number."""
    part = f"{table}_{era}"
    rows = query(dsn, f"""
        SELECT concat_ws(' ', 'table', c.relname, c.relkind, c.relpersistence, c.relhastriggers,
            c.relispartition, c.reloptions, c.relowner, c.relacl, c.relchecks, c.relreplident,
            pg_get_expr(c.relpartbound, c.oid))
        FROM pg_class c WHERE c.oid = '{part}'::regclass
        UNION ALL
        SELECT concat_ws(' ', 'column', a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            a.attislocal, a.attinhcount, a.attstorage, a.attcompression, a.attcollation, a.attacl,
            pg_get_expr(d.adbin, d.adrelid))
        FROM pg_attribute a
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = '{part}'::regclass AND a.attnum > 0
        UNION ALL
        SELECT concat_ws(' ', 'constraint', k.conname, k.contype, k.convalidated, k.conislocal, k.coninhcount,
            pg_get_constraintdef(k.oid), k.conindid::regclass, parent.conname)
        FROM pg_constraint k LEFT JOIN pg_constraint parent ON parent.oid = k.conparentid
        WHERE k.conrelid = '{part}'::regclass
        UNION ALL
        SELECT concat_ws(' ', 'index', i.indexrelid::regclass, pg_get_indexdef(i.indexrelid), i.indisprimary,
            i.indisunique, i.indisvalid, h.inhparent::regclass)
        FROM pg_index i LEFT JOIN pg_inherits h ON h.inhrelid = i.indexrelid
        WHERE i.indrelid = '{part}'::regclass
        UNION ALL
        SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), t.tgenabled)
        FROM pg_trigger t WHERE t.tgrelid = '{part}'::regclass
    """)  # fmt: skip
    return sorted(text.replace(part, table).replace(f"({era})", "").replace(f"'{era}'", "") for (text,) in rows)


def make(dsn: str, history: History) -> None:
    """Tables that keep few events, in several eras, published."""
    make_history(history)
    begin_era(dsn)
    for name in ("shop.orders", "shop.clicks"):
        history.done(tables.AlterTable(name, set=LEAST))
    for number in range(6):
        history.write("shop.clicks", number % 3, 3)
        history.pass_seconds(600)
        if number == 3:
            begin_era(dsn)
    publish(dsn)


def drop(dsn: str, archive: Files) -> Dropped:
    """Archive, then drop, until no transaction of another database is in the way; counts all that left."""
    left = Dropped([], None, 0, [])
    for _ in range(TRIES):
        archiving.write(dsn, archive)
        dropped = archiving.drop(dsn, archive)
        events, instants = left.events + dropped.events, left.instants + dropped.instants
        left = msgspec.structs.replace(dropped, events=events, instants=instants)
        if not dropped.waiting:
            break
    return left
