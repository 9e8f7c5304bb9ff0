"""Queries only read; some wait for others, or share their result."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

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
