"""Pages of steps of publications: few are made at a time."""

from __future__ import annotations

import asyncio

import pytest

from chronolake_metastore import errors
from chronolake_metastore.queries import publication
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import PUBLICATION_PAGES_MAX, Database
from tests.contexts import TESTER


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
