"""Promise 2: events are never updated or deleted, and the database itself refuses it."""

from __future__ import annotations

import psycopg
import pytest

LOG = ("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal")
APPENDED = (*LOG, *(f"{table}_1" for table in LOG), "metastore")
"""With the partitions of the first era."""
CHANGES = (
    "UPDATE chronolake.{table} SET {column} = {column}",
    "DELETE FROM chronolake.{table}",
    "TRUNCATE chronolake.{table} CASCADE",
)


def of(change: str, table: str) -> bytes:
    return change.format(table=table, column="metastore_id" if table == "metastore" else "table_id").encode()


@pytest.mark.parametrize("table", APPENDED)
@pytest.mark.parametrize("change", CHANGES)
def test_the_servers_role_may_not_change_the_log(shared_dsn: str, table: str, change: str) -> None:
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(of(change, table))


@pytest.mark.parametrize("table", APPENDED)
@pytest.mark.parametrize("change", CHANGES)
def test_not_even_the_owner_may_change_the_log(shared_dsn: str, table: str, change: str) -> None:
    with (
        psycopg.connect(shared_dsn) as connection,
        pytest.raises(psycopg.errors.RestrictViolation, match="append-only"),
    ):
        connection.execute(of(change, table))


@pytest.mark.parametrize("table", APPENDED)
@pytest.mark.parametrize("change", CHANGES)
def test_replication_mode_does_not_switch_the_refusal_off(shared_dsn: str, table: str, change: str) -> None:
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute(of(change, table))


@pytest.mark.parametrize("table", LOG)
def test_the_servers_role_may_append_to_the_log(shared_dsn: str, table: str) -> None:
    with psycopg.connect(shared_dsn) as connection:
        row = connection.execute(
            "SELECT has_any_column_privilege('chronolake_server', %s, 'INSERT')", [f"chronolake.{table}"]
        ).fetchone()
    assert row == (True,)


def test_the_servers_role_cannot_make_or_drop_anything(shared_dsn: str) -> None:
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE chronolake.mine ()")
