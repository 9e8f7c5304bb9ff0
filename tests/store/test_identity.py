"""A metastore has one identity, which holds in one PostgreSQL only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronolake_metastore import errors
from chronolake_metastore.queries import identity as queries
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import identity
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from tests.store.history import History

T = TypeVar("T")


def run_query(dsn: str, query: Callable[[Connection], Awaitable[T]], *, commit: bool = False) -> T:
    """Run ``query`` on a connection of its own and return its result."""

    async def run() -> T:
        database = Database(Settings(dsn=dsn))
        try:
            async with database.committing() if commit else database.reading() as connection:
                return await query(connection)
        finally:
            await database.close()

    return asyncio.run(run())


def test_a_copy_of_a_database_does_not_hold_the_identity_until_it_is_renewed(postgres: str, dsn: str) -> None:
    name = conninfo_to_dict(dsn)["dbname"]
    copy = make_conninfo(postgres, dbname=f"{name}_copy")
    original = run_query(dsn, identity.get)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}" STRATEGY wal_log')
        try:
            copied = run_query(copy, identity.get)
            known = run_query(copy, identity.renew, commit=True)
            renewed = run_query(copy, identity.get)
        finally:
            connection.execute(f'DROP DATABASE "{name}_copy" WITH (FORCE)')

    assert original.is_of_this_database
    assert (copied.metastore_id, copied.is_of_this_database) == (original.metastore_id, False)
    assert (renewed.metastore_id, renewed.is_of_this_database) == (known[-1], True)
    assert original.metastore_id in known[:-1]
    assert run_query(dsn, identity.get) == original


def test_deletions_in_a_promoted_copy_are_refused_with_the_command_to_run(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        # The identity of a PostgreSQL of another timeline, as a promoted copy would find it.
        connection.execute(
            "INSERT INTO chronolake.metastore (database)"
            " SELECT regexp_replace(chronolake.this_database(), '/[0-9A-F]+$', '/000000FF')"
        )
    with pytest.raises(errors.MetastoreMoved, match="chronolake-metastore claim"):
        run_query(dsn, queries.refuse_foreign_database)


def test_the_identity_of_an_embedded_database_holds_only_in_the_place_where_it_was_made(dsn: str) -> None:
    here = make_conninfo(dsn, options="-c chronolake.place=here")
    copy = make_conninfo(dsn, options="-c chronolake.place=there")
    run_query(here, identity.renew, commit=True)

    assert run_query(here, identity.get).is_of_this_database
    assert not run_query(copy, identity.get).is_of_this_database
    assert not run_query(dsn, identity.get).is_of_this_database
    run_query(copy, identity.renew, commit=True)
    assert run_query(copy, identity.get).is_of_this_database


def test_the_tables_to_claim_are_the_live_ones_in_the_order_of_their_ids(dsn: str) -> None:
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table("shop.a")
        history.make_table("shop.b")
        history.make_table("shop.gone")
        history.drop_table("shop.gone")

    async def pages(connection: Connection) -> list[Place]:
        first = await identity.tables(connection, UUID(int=0), 1)
        return [*first, *await identity.tables(connection, first[-1].table_id, 10)]

    places = run_query(dsn, pages)
    assert {(place.table, place.base_path) for place in places} == {
        ("shop.a", "s3://lake/shop.a"),
        ("shop.b", "s3://lake/shop.b"),
    }
    assert [place.table_id for place in places] == sorted(place.table_id for place in places)


def test_the_servers_role_may_read_and_renew_the_identity_but_not_change_it(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET ROLE chronolake_server")
        row = connection.execute(
            "SELECT bool_and(database = chronolake.this_database()) FROM chronolake.metastore"
            " WHERE position = (SELECT max(position) FROM chronolake.metastore)"
        ).fetchone()
        assert row == (True,)
        connection.execute("INSERT INTO chronolake.metastore DEFAULT VALUES")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE chronolake.metastore SET database = ''")
