"""A table with a million completed instants beside one with a thousand: the cost of a long timeline."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator

import httpx
import msgspec
import psycopg
from psycopg import sql

from benchmarks import reporting, running
from benchmarks.reporting import Row
from chronolake_model.file_names import bucket_file_id
from chronolake_model.instants import REQUESTED_TIMES_MAX, CompletionTimes, InstantPage
from chronolake_model.times import Tick, format_time, from_datetime

INSTANTS = int(os.environ.get("INSTANTS", "1000000"))
SHORT = 1_000
WRITERS = 16
ROUNDS = 6
READS = 15
PAGE = 1_000
BUCKETS = 192


def measure(dsn: str, client: httpx.Client, seconds: float) -> Iterator[Row]:
    """Begin and complete at the end of a long past and of a short one; reading the long one."""
    began = time.monotonic()
    for name, instants in (("long0", INSTANTS), ("short0", SHORT)):
        running.make_table(client, f"bench.{name}", tick="1us")
        _seed(dsn, name, instants)
    with psycopg.connect(dsn, autocommit=True) as connection:
        # As if long done: that it is done in the middle of a measurement would be luck.
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    yield Row(f"(f) writing a past of {INSTANTS:,} instants", f"{time.monotonic() - began:,.0f} s")
    yield _cycles(seconds)
    requested, completed = _some_times(dsn)
    yield _reading(
        f"(f) a page of {PAGE:,} instants by a range of completion times",
        lambda: _page(client, *sorted(random.sample(completed, 2))),
    )
    yield _reading(
        f"(f) the completion times of {REQUESTED_TIMES_MAX:,} instants",
        lambda: _completion_times(client, random.sample(requested, REQUESTED_TIMES_MAX)),
    )


def _seed(dsn: str, name: str, instants: int) -> None:
    statements = (running.HERE / "seed_timeline.sql").read_text("utf-8").split(";\n")
    parameters = {"name": name, "count": instants, "file_ids": [bucket_file_id(b) for b in range(BUCKETS)]}
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            if statement.strip():
                connection.execute(sql.SQL(statement), parameters)


def _cycles(seconds: float) -> Row:
    """Cycles on both tables in turn: other load of the machine affects both."""
    rates: dict[str, list[float]] = {"long": [], "short": []}
    for _ in range(ROUNDS):
        for name, measured in rates.items():
            measured.append(running.load(f"bench.{name}", 1, WRITERS, seconds / ROUNDS).cycles_per_second)
    long, short = (statistics.median(measured) for measured in rates.values())
    name = f"(f) a cycle after {INSTANTS:,} instants ({long:,.0f}/s) against {SHORT:,} ({short:,.0f}/s)"
    return reporting.at_most(name, short / long, 1.2, "x")


def _some_times(dsn: str) -> tuple[list[str], list[str]]:
    """Requested and completion times all over the long past."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            """
            SELECT requested_time, completion_time
            FROM chronolake.instant
            JOIN chronolake.lake_table USING (table_id)
            WHERE name = 'long0' AND completion_time IS NOT NULL
            ORDER BY md5(instant.version::text)
            LIMIT 20000
            """
        ).fetchall()
    digits = [[format_time(from_datetime(moment), Tick.MICROSECOND) for moment in row] for row in rows]
    return [requested for requested, _ in digits], [completed for _, completed in digits]


def _reading(name: str, read: Callable[[], None]) -> Row:
    taken = []
    for _ in range(READS):
        began = time.perf_counter()
        read()
        taken.append((time.perf_counter() - began) * 1_000)
    return reporting.at_most(f"{name} (longest {max(taken):.0f} ms)", statistics.median(taken), 100, "ms")


def _page(client: httpx.Client, after: str, until: str) -> None:
    wanted: dict[str, str | int] = {
        "order_by": "completion_time",
        "completed_from": after,
        "completed_to": until,
        "limit": PAGE,
    }
    answer = client.get("/v1/tables/bench.long0/instants", params=wanted).raise_for_status()
    assert msgspec.json.decode(answer.content, type=InstantPage).instants


def _completion_times(client: httpx.Client, requested: list[str]) -> None:
    answer = client.post("/v1/tables/bench.long0/completion-times", json={"requested_times": requested})
    times = msgspec.json.decode(answer.raise_for_status().content, type=CompletionTimes)
    assert all(times.completion_times)
