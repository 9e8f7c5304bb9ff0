"""Statements that PostgreSQL ends, as it does at a statement timeout: each command still happens once."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.load import Load

WRITERS = 16
CANCELLED_MIN = 20
DEADLINE_SECONDS = 240.0
CANCEL = """
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'chronolake-metastore' AND state = 'active'
"""


async def _run(dsn: str, servers: tuple[ServerProcess, ServerProcess], table: str) -> Load:
    load = Load([server.url for server in servers], table)
    cancelled = 0
    try:
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run_writers(WRITERS))
            tasks.create_task(load.read())
            while cancelled < CANCELLED_MIN:
                await load.wait_for_cycles(1)
                cancelled += len(await asyncio.to_thread(database.query, dsn, CANCEL))
            load.stopping = True
    finally:
        await load.close()
    return load


def test_commands_whose_statements_are_cancelled_take_effect_once_and_in_order(
    shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess]
) -> None:
    with rest.connect(shared_servers[0].url) as http:
        table = rest.make_table(http, partition_fields=["day"], index={"type": "bucket", "buckets": WRITERS})

    load = asyncio.run(_run(shared_dsn, shared_servers, table.name))

    log = database.events(shared_dsn, table.name)
    keys = [event["request_id"] for event in log if event["request_id"] in load.answers]
    assert len(keys) == len(set(keys)) == len(load.answers)
    assert sum(event["type"] == "InstantCompleted" for event in log) == len(load.cycles)
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(log))
    assert all(cycle.requested_time > cycle.acknowledged_before for cycle in load.cycles)
