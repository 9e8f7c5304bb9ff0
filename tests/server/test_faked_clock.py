"""One clock, though that of the whole PostgreSQL process jumps an hour back and forth, twenty times under load.

Unlike test_clock_set_back, which sets the function that servers read, libfaketime moves all that PostgreSQL
knows of the time but its monotonic clock. Timeouts end too early or too late; processes disagree for a second.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.store.postgres import migrations
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.load import Load

pytestmark = pytest.mark.slow

WRITERS = 16
STEPS = 20
BETWEEN_STEPS = 24
CACHE_SECONDS = 1.0
"""How long a process goes by the clock that it has seen last; libfaketime knows whole seconds only."""
DEADLINE_SECONDS = 600.0


class FakedPostgres:
    """A PostgreSQL of its own, whose clock is set by ``step``."""

    def __init__(self, folder: Path) -> None:
        self._clock = folder / "clock"
        self.step("+0")
        folder.chmod(0o755)
        library = resources.files("libfaketime") / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
        faked = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": str(int(CACHE_SECONDS)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._faked = faked
        self._folder = folder
        self._start()

    def _start(self) -> None:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self._faked.items():
                environment.setenv(name, value)
            self._server = EmbeddedPostgres(self._folder)
            self._server.start()
        self.dsn = self._server.dsn

    def fail_over(self, offset: str) -> None:
        """Stop it, and go on with a clock that is so far off, as on another machine."""
        self.stop()
        self.step(offset)
        self._start()

    def step(self, offset: str) -> None:
        """Set the clock so far off the machine's, such as ``-1h``."""
        written = self._clock.with_suffix(".new")
        written.write_text(offset + "\n")
        written.chmod(0o644)
        written.rename(self._clock)

    def stop(self) -> None:
        """Stop it."""
        self._server.release()


@pytest.fixture
def faked() -> Iterator[FakedPostgres]:
    # As in fix_postgres: pytest's own folder is closed to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="chronolake-faketime-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    postgres = FakedPostgres(folder)
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


def test_leases_end_in_their_time_while_the_clock_jumps_by_a_day_and_the_database_fails_over(
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
            (faked.fail_over, "+1d"),
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
