"""The readiness check, whose result concurrent callers share."""

from __future__ import annotations

import asyncio

from chronolake_metastore.queries.readiness import Probe
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database


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
