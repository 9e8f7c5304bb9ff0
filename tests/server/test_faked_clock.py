"""One clock, though that of the whole PostgreSQL process jumps an hour back and forth, twenty times under load.

Unlike test_clock_set_back, which sets the function that servers read, libfaketime moves the clock of the whole
process. Timeouts end too early or too late; processes disagree for a second.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import psycopg
import pytest

from chronolake_metastore.store.postgres import migrations
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.faked_postgres import CACHE_SECONDS, FakedPostgres
from tests.server.load import Load

pytestmark = pytest.mark.slow

WRITERS = 16
STEPS = 20
BETWEEN_STEPS = 24
DEADLINE_SECONDS = 600.0


@pytest.fixture
def faked() -> Iterator[FakedPostgres]:
    postgres = FakedPostgres.make()
    yield postgres
    postgres.stop()


def seconds_ahead(dsn: str) -> float:
    """How far the clock of PostgreSQL is ahead of ours."""
    with psycopg.connect(dsn) as connection:
        [ahead] = connection.execute(
            "SELECT extract(epoch FROM clock_timestamp() - to_timestamp(%s))::float8",
            [time.time()],
        ).fetchone() or [0.0]
    return float(ahead)


async def _run(postgres: FakedPostgres, urls: list[str], table: str) -> Load:
    load = Load(urls, table)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run_writers(WRITERS))
            tasks.create_task(load.read())
            for step in range(STEPS):
                await asyncio.to_thread(postgres.step, ("-1h", "+0", "+1h", "+0")[step % 4])
                await asyncio.sleep(CACHE_SECONDS)
                await load.wait_for_cycles(BETWEEN_STEPS)
            load.stopping = True
    finally:
        await load.close()
    return load


def test_times_increase_while_the_clock_of_postgresql_jumps_by_an_hour(
    faked: FakedPostgres, new_server: Callable[..., ServerProcess]
) -> None:
    migrations.upgrade(faked.dsn)
    urls = [new_server(faked.dsn).url for _ in range(2)]
    with rest.connect(urls[0]) as http:
        table = rest.make_table(http, partition_fields=["day"], index={"type": "bucket", "buckets": WRITERS})

    load = asyncio.run(_run(faked, urls, table.name))

    log = database.events(faked.dsn, table.name)
    completed = [event["time"] for event in log if event["type"] == "InstantCompleted"]
    recorded = {row["request_id"] for row in database.query(faked.dsn, "SELECT request_id FROM outcome")}
    assert len(completed) == len(load.cycles) >= STEPS * BETWEEN_STEPS
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(log))
    assert all(cycle.completion_time > cycle.requested_time for cycle in load.cycles)
    assert all(cycle.requested_time > cycle.acknowledged_before for cycle in load.cycles)
    assert load.followed_timeline == [
        cycle.requested_time for cycle in sorted(load.cycles, key=lambda cycle: cycle.completion_time)
    ]
    assert set(load.answers) <= recorded
    verified = subprocess.run(
        [sys.executable, "-m", "chronolake_metastore", "verify", "--dsn", faked.dsn],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _is_rolled_back_while_another_renews(dead: tuple[rest.Table, str], live: tuple[rest.Table, str]) -> bool:
    """Renew the lease of a live writer, and look whether a dead one was rolled back."""
    (dead_table, dead_instant), (live_table, live_instant) = dead, live
    rest.succeeded(live_table.heartbeat(live_instant))
    return dead_table.state(dead_instant) == "rolled_back"


def test_leases_end_in_their_time_while_the_clock_jumps_by_a_day_and_the_database_starts_with_another(
    faked: FakedPostgres, new_server: Callable[..., ServerProcess]
) -> None:
    migrations.upgrade(faked.dsn)
    servers = [new_server(faked.dsn, "--reaper-seconds", "0.5") for _ in range(2)]
    ended = []
    with rest.connect(servers[0].url) as http:
        table = rest.make_table(http)
        live = table, table.begun(writer="live", lease_seconds=20)
        for change, offset in [
            (faked.step, "+1d"),
            (faked.step, "+0"),
            (faked.step, "-1d"),
            (faked.start_again, "+1d"),
        ]:
            change(offset)
            rest.succeeded(http.get("/v1/time"))
            dead = table, table.begun(writer="dead", lease_seconds=2)
            began = time.monotonic()
            while not _is_rolled_back_while_another_renews(dead, live) and time.monotonic() < began + 60:
                time.sleep(0.2)
            ended.append(table.state(dead[1]))

        assert ended == ["rolled_back"] * 4
        assert table.state(live[1]) == "inflight"


def test_the_clock_of_postgresql_is_the_one_that_is_set(faked: FakedPostgres) -> None:
    ahead = []
    for offset in ("-1h", "+1h"):
        faked.step(offset)
        time.sleep(2 * CACHE_SECONDS)
        ahead.append(round(seconds_ahead(faked.dsn) / 3_600))

    assert ahead == [-1, 1]
