"""Queries only read; some wait for others, or share their result."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import psycopg
import pytest

from chronolake_metastore import errors, queries
from chronolake_metastore.queries import publication
from chronolake_metastore.queries.readiness import Probe
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import clocks
from chronolake_metastore.store.postgres.engine import PUBLICATION_PAGES_MAX, Database
from tests.store.shown import TESTER

WRITING = re.compile(r"\.(committing|autocommit|watching|connect)\(")
"""How a transaction begins that may write."""


def test_no_query_opens_a_transaction_that_may_write() -> None:
    modules = sorted(Path(queries.__path__[0]).glob("*.py"))
    assert len(modules) > 20
    assert [module.name for module in modules if WRITING.search(module.read_text())] == []


def test_postgresql_refuses_a_write_in_a_transaction_of_a_query(dsn: str) -> None:
    async def write() -> None:
        database = Database(Settings(dsn=dsn))
        try:
            async with database.reading() as connection:
                await clocks.advance_wall_clock(connection)
        finally:
            await database.close()

    with pytest.raises(errors.DatabaseUnavailable) as refused:
        asyncio.run(write())
    assert "read-only transaction" in refused.value.context["reason"]


def test_a_connection_that_has_read_may_write_for_the_next_note(dsn: str) -> None:
    async def read_and_write() -> None:
        database = Database(Settings(dsn=dsn, pool_size=1))
        try:
            for _ in range(2):
                async with database.reading() as connection:
                    await clocks.now(connection)
                async with database.committing() as connection:
                    await clocks.advance_wall_clock(connection)
                async with database.autocommit() as connection:
                    await clocks.advance_wall_clock(connection)
        finally:
            await database.close()

    asyncio.run(read_and_write())


@pytest.mark.parametrize("commits", [True, False])
def test_a_note_counts_once_its_block_has_ended_without_an_error(dsn: str, commits: bool) -> None:
    async def write() -> tuple[int, bool]:
        database = Database(Settings(dsn=dsn, pool_size=1))
        try:
            with contextlib.suppress(KeyError):
                async with database.committing() as connection:
                    await connection.execute("CREATE TEMPORARY TABLE noted (number integer)")
                    changed = (await connection.execute("INSERT INTO noted VALUES (1), (2)")).changed
                    if not commits:
                        raise KeyError
            async with database.autocommit() as connection:
                found = await connection.execute("SELECT to_regclass('pg_temp.noted') IS NOT NULL")
                return changed, found.scalar_one()
        finally:
            await database.close()

    assert asyncio.run(write()) == (2, commits)


def test_a_cancelled_read_ends_its_connection_and_the_next_read_gets_another(dsn: str) -> None:
    async def run() -> list[int]:
        database = Database(Settings(dsn=dsn, pool_size=1))
        backends: list[int] = []

        async def read(then: str) -> None:
            async with database.reading() as connection:
                backends.append((await connection.execute("SELECT pg_backend_pid()")).scalar_one())
                await connection.execute(then)

        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await read("SELECT pg_sleep(60)")
            await read("SELECT 1")
        finally:
            await database.close()
        return backends

    cancelled, other = asyncio.run(run())
    assert cancelled != other


def test_an_error_of_a_statement_leaves_the_connection_as_it_was(dsn: str) -> None:
    async def run() -> list[int]:
        database = Database(Settings(dsn=dsn, pool_size=1))
        backends: list[int] = []
        try:
            for statement in ("SELECT 1 / 0", "SELECT 1"):
                with contextlib.suppress(psycopg.errors.DivisionByZero):
                    async with database.reading() as connection:
                        backends.append((await connection.execute("SELECT pg_backend_pid()")).scalar_one())
                        await connection.execute(statement)
        finally:
            await database.close()
        return backends

    first, second = asyncio.run(run())
    assert first == second


def test_a_caller_that_checks_again_at_once_disturbs_no_other_caller(dsn: str) -> None:
    async def check_twice(probe: Probe) -> None:
        await probe.check()
        await probe.check()

    async def run() -> None:
        database = Database(Settings(dsn=dsn))
        probe = Probe(database)
        await asyncio.gather(*(check_twice(probe) for _ in range(3)))
        await database.close()

    asyncio.run(run())


def test_a_page_waits_while_others_are_made(dsn: str) -> None:
    async def look() -> None:
        database = Database(Settings(dsn=dsn))
        for _ in range(PUBLICATION_PAGES_MAX):
            await database.publication_slots.acquire()
        page = asyncio.create_task(publication.steps(TESTER, database, "shop.orders", 0))
        _, waiting = await asyncio.wait([page], timeout=0.2)
        assert waiting == {page}

        database.publication_slots.release()
        with pytest.raises(errors.TableNotFound):
            await page
        # A page that fails gives its slot back.
        with pytest.raises(errors.TableNotFound):
            await publication.steps(TESTER, database, "shop.orders", 0)
        await database.close()

    asyncio.run(look())
