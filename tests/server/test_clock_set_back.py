"""One clock: a wall clock that is set back, or jumps ahead, never shows in the order of times.

Promise 1 of docs/architecture.md. ``now_us()`` is the only clock that servers read. The test sets it while
writers work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest

from chronolake_model.times import MICROS_PER_SECOND, Micros, Tick, format_time, parse_time
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.load import Load

HOUR = 3_600 * MICROS_PER_SECOND
WRITERS = 8
BETWEEN_STEPS = 16
DEADLINE_SECONDS = 120.0
STEPS = {
    "as it is": database.WALL_CLOCK,
    "an hour back": f"{database.WALL_CLOCK} - {HOUR}",
    "two hours ahead": f"{database.WALL_CLOCK} + {2 * HOUR}",
    "standing still": "1800000000000000",
    "come back": database.WALL_CLOCK,
}
"""The successive readings of the wall clock."""


@dataclass
class Stepped:
    """The records of writers and of a clock reader, of the table with one tick, after all steps."""

    load: Load
    log: list[database.Row]
    intervals: list[tuple[str, str]]
    """The intervals of GET /v1/time, in their order."""
    earliest_and_requested: list[tuple[str, str]]
    """Pairs: the earliest time of an answer, and the requested time of an instant begun after that answer."""
    completed_and_latest: list[tuple[str, str]]
    """Pairs: a completion time, and the latest time of an answer after the completion was acknowledged."""


async def _read_time(http: httpx.AsyncClient, table: str, stepped: Stepped) -> None:
    while not stepped.load.stopping:
        before = (await http.get("/v1/time")).raise_for_status().json()
        begun = await http.post(f"/v1/tables/{table}/instants", json={"writer": "clock reader"})
        requested_time = begun.raise_for_status().json()["requested_time"]
        completed = await http.post(f"/v1/tables/{table}/instants/{requested_time}/complete", json={})
        completion_time = completed.raise_for_status().json()["completion_time"]
        after = (await http.get("/v1/time")).raise_for_status().json()
        stepped.intervals += [(interval["earliest"], interval["latest"]) for interval in (before, after)]
        stepped.earliest_and_requested.append((before["earliest"], requested_time.ljust(20, "0")))
        stepped.completed_and_latest.append((completion_time.ljust(20, "0"), after["latest"]))


async def _run(dsn: str, urls: list[str], table: str) -> Stepped:
    load = Load(urls, table)
    stepped = Stepped(load, [], [], [], [])
    try:
        async with (
            httpx.AsyncClient(base_url=urls[-1], timeout=rest.TIMEOUT_SECONDS) as http,
            asyncio.timeout(DEADLINE_SECONDS),
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(load.run_writers(WRITERS))
            tasks.create_task(_read_time(http, table, stepped))
            for wall_clock in STEPS.values():
                await asyncio.to_thread(database.set_wall_clock, dsn, wall_clock)
                await load.wait_for_cycles(BETWEEN_STEPS)
            load.stopping = True
    finally:
        await load.close()
    return stepped


@pytest.fixture(scope="module", params=list(Tick), ids=str)
def stepped(
    shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess], request: pytest.FixtureRequest
) -> Iterator[Stepped]:
    """A load on a table of each tick, in which the wall clock makes all the steps."""
    with rest.connect(shared_servers[0].url) as http:
        table = rest.make_table(
            http,
            partition_fields=["day"],
            index={"type": "bucket", "buckets": WRITERS},
            tick=request.param,
        )
    urls = [server.url for server in shared_servers]
    result = asyncio.run(_run(shared_dsn, urls, table.name))
    result.log = database.events(shared_dsn, table.name)
    yield result


def test_times_increase_strictly_for_any_wall_clock(stepped: Stepped) -> None:
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(stepped.log))


def test_completion_follows_request_for_any_wall_clock(stepped: Stepped) -> None:
    assert all(cycle.completion_time > cycle.requested_time for cycle in stepped.load.cycles)


def test_real_order_is_the_order_of_times_for_any_wall_clock(stepped: Stepped) -> None:
    assert all(cycle.requested_time > cycle.acknowledged_before for cycle in stepped.load.cycles)


def test_nothing_fails_or_is_retried_because_of_the_wall_clock(stepped: Stepped) -> None:
    assert stepped.load.retries == 0


def test_the_answered_time_never_goes_back(stepped: Stepped) -> None:
    assert all(
        earlier[0] <= later[0] and earlier[1] <= later[1] for earlier, later in pairwise(stepped.intervals)
    )


def test_the_earliest_answered_time_is_before_the_latest(stepped: Stepped) -> None:
    assert all(earliest < latest for earliest, latest in stepped.intervals)


def test_an_instant_begun_after_an_answer_is_later_than_its_earliest_time(stepped: Stepped) -> None:
    assert all(earliest < requested_time for earliest, requested_time in stepped.earliest_and_requested)


def test_a_completion_before_an_answer_is_not_later_than_its_latest_time(stepped: Stepped) -> None:
    assert all(completion_time <= latest for completion_time, latest in stepped.completed_and_latest)


def test_times_have_the_digits_of_the_tables_tick(stepped: Stepped) -> None:
    digits = {
        len(time) for cycle in stepped.load.cycles for time in (cycle.requested_time, cycle.completion_time)
    }

    assert digits in ({17}, {20})
    assert all(event["time"] % (1_000 if digits == {17} else 1) == 0 for event in stepped.log)


@pytest.mark.parametrize("tick", list(Tick))
def test_a_clock_that_stands_still_gives_ticks_one_by_one(
    shared_dsn: str, http_of_one: httpx.Client, tick: Tick
) -> None:
    table = rest.make_table(http_of_one, tick=tick)
    database.set_wall_clock(shared_dsn, "1000000")

    first, second, third = (parse_time(table.begun()) for _ in range(3))

    assert (second - first, third - second) == (tick.micros, tick.micros)


@pytest.mark.parametrize("tick", list(Tick))
def test_once_the_wall_has_caught_up_times_are_the_walls_again(
    shared_dsn: str, http_of_one: httpx.Client, tick: Tick
) -> None:
    table = rest.make_table(http_of_one, tick=tick)
    ahead = Micros(parse_time(table.begun()) + HOUR)
    database.set_wall_clock(shared_dsn, str(ahead))
    assert table.begun() == format_time(ahead, tick)
    database.set_wall_clock(shared_dsn, str(ahead - HOUR))
    assert table.begun() == format_time(Micros(ahead // tick.micros * tick.micros + tick.micros), tick)
    database.set_wall_clock(shared_dsn, str(ahead + HOUR))

    assert table.begun() == format_time(Micros(ahead + HOUR), tick)


def test_a_table_made_after_the_clock_was_set_back_is_later_than_an_answered_time(
    shared_dsn: str, http_of_one: httpx.Client
) -> None:
    earliest = rest.succeeded(http_of_one.get("/v1/time"))["earliest"]
    database.set_wall_clock(shared_dsn, f"{database.WALL_CLOCK} - {HOUR}")

    assert rest.make_table(http_of_one).begun().ljust(20, "0") > earliest


@pytest.fixture
def http_of_one(shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess]) -> Iterator[httpx.Client]:
    """A client of one of the module's servers; at the end the wall clock is right again."""
    with rest.connect(shared_servers[0].url) as http:
        yield http
    database.set_wall_clock(shared_dsn, database.WALL_CLOCK)
