"""A stream whose writer is silent: instants of no complete checkpoint are rolled back, others wait."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from chronolake_metastore.workers import reaper
from tests.fix_server import ServerProcess
from tests.server import database as sql, rest
from tests.server.checkpoints import StreamOfTable
from tests.server.rest import Table, log_stat, refused, succeeded
from tests.server.test_reaper import a_replica, reap_once

LEASE_SECONDS = 60
DAY_SECONDS = 86_400


def set_clock_ahead(dsn: str, seconds: int) -> None:
    sql.set_clocks(dsn, sql.WALL_CLOCK, f"{sql.STEADY_CLOCK} + {seconds * 1_000_000}")


def reap(server: ServerProcess, seconds: int) -> int:
    set_clock_ahead(server.dsn, seconds)
    return asyncio.run(reap_once(server.dsn))


@pytest.fixture
def table(http: httpx.Client) -> Table:
    return rest.make_table(http, type="merge_on_read")


@pytest.fixture
def stream(table: Table) -> StreamOfTable:
    stream = StreamOfTable(table)
    stream.open(lease_seconds=LEASE_SECONDS)
    return stream


def test_an_instant_without_its_last_batches_is_rolled_back_with_all_behind_it(
    server: ServerProcess, stream: StreamOfTable
) -> None:
    reported = stream.write(-1, 1)
    unfinished = stream.instant(1)
    succeeded(stream.report(1, log_stat(unfinished, 1)))
    behind = stream.write(2, 1)

    assert reap(server, LEASE_SECONDS + 1) == 1

    assert [stream.table.state(time) for time in (reported, unfinished, behind)] == [
        "inflight",
        "rolled_back",
        "rolled_back",
    ]
    refused(stream.post("heartbeat", {"epoch": 1}), 409, "stream-fenced")
    assert reap(server, LEASE_SECONDS + 2) == 0
    stream.open(restored_checkpoint=1)
    assert stream.completed(1) == [reported]


def test_what_is_reported_waits_for_its_stream(server: ServerProcess, stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    assert reap(server, DAY_SECONDS) == 0
    assert stream.shown()["waits_until"] is not None
    succeeded(stream.post("heartbeat", {"epoch": 1}))
    assert stream.completed(1) == [instant]


def test_what_waits_too_long_is_rolled_back(server: ServerProcess, stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    assert reap(server, 8 * DAY_SECONDS) == 1
    assert stream.table.state(instant) == "rolled_back"

    # A job that believes that its rows are written learns that they are gone.
    refusal = refused(stream.post("open", {"writer": "w", "restored_checkpoint": 1}), 409, "illegal-transition")
    assert refusal["context"]["lost_checkpoint"] == -1
    assert "open the stream without restored_checkpoint" in refusal["detail"]
    stream.open()
    stream.open(restored_checkpoint=1)


def test_a_table_says_how_long_reported_files_wait(server: ServerProcess, http: httpx.Client) -> None:
    table = rest.make_table(http, type="merge_on_read", properties={"streams.wait-seconds": "0"})
    stream = StreamOfTable(table)
    stream.open(lease_seconds=LEASE_SECONDS)
    instant = stream.write(-1, 1)
    assert reap(server, LEASE_SECONDS + 1) == 1
    assert table.state(instant) == "rolled_back"


def test_a_live_stream_keeps_its_instants_however_long_they_take(
    server: ServerProcess, stream: StreamOfTable
) -> None:
    instant = stream.instant(-1)
    for hours in (1, 2, 3):
        set_clock_ahead(server.dsn, hours * 3_600)
        succeeded(stream.post("heartbeat", {"epoch": 1, "lease_seconds": 4_000}))
        assert asyncio.run(reap_once(server.dsn)) == 0
    assert stream.table.state(instant) == "inflight"


def test_streams_that_wait_delay_no_other_and_leave_nothing_in_the_log(
    server: ServerProcess, table: Table, stream: StreamOfTable
) -> None:
    waiting = stream.write(-1, 1)
    multiply_streams(server.dsn, reaper.BATCH + 10)
    unfinished, idle = StreamOfTable(table, "unfinished"), StreamOfTable(table, "idle")
    for silent in (unfinished, idle):
        silent.open(lease_seconds=LEASE_SECONDS)
    instants = [unfinished.instant(-1), idle.instant(-1)]
    succeeded(unfinished.report(-1, log_stat(instants[0], 2)))

    assert reap(server, LEASE_SECONDS + 10) == 2

    assert [table.state(time) for time in (waiting, *instants)] == ["inflight", "rolled_back", "rolled_back"]
    before = sql.counts(server.dsn)
    assert [reap(server, seconds) for seconds in (LEASE_SECONDS + 15, DAY_SECONDS, 6 * DAY_SECONDS)] == [
        0,
        0,
        0,
    ]
    assert sql.counts(server.dsn) == before


def multiply_streams(dsn: str, number: int) -> None:
    """Add a number of streams that wait as the only one does, and whose leases ended before its."""
    sql.query_nothing(
        dsn,
        f"""
        INSERT INTO stream
        SELECT s.table_id, 'waiting-' || n, s.epoch, s.writer, s.opened_at, s.is_open, s.tasks, s.lease_seconds,
            s.lease_expires_at - n * interval '1 ms', s.acknowledged, s.attempts, s.ended, s.version
        FROM stream s
        CROSS JOIN generate_series(1, {number}) AS n;

        INSERT INTO stream_checkpoint (
            table_id, stream, checkpoint, requested_time, epoch, is_blocking, tasks, is_reported
        )
        SELECT c.table_id, 'waiting-' || n, c.checkpoint, c.requested_time - n * interval '1 ms', c.epoch,
            c.is_blocking, c.tasks, c.is_reported
        FROM stream_checkpoint c
        CROSS JOIN generate_series(1, {number}) AS n
        """,
    )


def test_a_reaper_that_comes_too_late_leaves_nothing_in_the_log(
    server: ServerProcess, table: Table, stream: StreamOfTable
) -> None:
    instants = [stream.instant(-1), table.begun(action="deltacommit", lease_seconds=LEASE_SECONDS)]
    before = sql.counts(server.dsn)

    async def reap_late() -> int:
        set_clock_ahead(server.dsn, LEASE_SECONDS + 1)
        with sql.clock_held(server.dsn, table.name):
            reaping = asyncio.create_task(reap_once(server.dsn))
            await asyncio.to_thread(sql.wait_until, server.dsn, f"({sql.WAITING_FOR_A_LOCK}) > 0")
            # As if the leases were renewed since it looked.
            set_clock_ahead(server.dsn, 0)
        return await reaping

    assert asyncio.run(reap_late()) == 0
    assert [table.state(time) for time in instants] == ["inflight", "inflight"]
    assert sql.counts(server.dsn) == before


def test_the_metrics_show_what_waits(server: ServerProcess, stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    stream.write(1, 1, 2)

    async def look() -> tuple[float, float]:
        async with a_replica(server.dsn) as (database, service, metrics):
            await reaper.reap(database, service, metrics)
            registry = metrics.registry
            instants = registry.get_sample_value("chronolake_stream_instants")
            size_bytes = registry.get_sample_value("chronolake_stream_bytes")
            assert instants is not None
            assert size_bytes is not None
            return instants, size_bytes

    assert asyncio.run(look()) == (2, 3_000)


def test_sums_beyond_64_bits_stop_neither_reports_nor_the_reaper(
    server: ServerProcess, table: Table, stream: StreamOfTable
) -> None:
    size = 2**62
    for checkpoint in (-1, 1, 2):
        instant = stream.instant(checkpoint)
        sizes = {"size_bytes": size, "records": size}
        stream.reported(checkpoint, *(log_stat(instant, bucket) | sizes for bucket in (1, 2)))
    silent = table.begun(action="deltacommit", lease_seconds=LEASE_SECONDS)
    [shown] = sql.query(server.dsn, "SELECT buffered_bytes FROM chronolake.audit_streams")
    assert shown["buffered_bytes"] == 6 * size

    assert reap(server, LEASE_SECONDS + 1) == 1
    assert table.state(silent) == "rolled_back"
    stream.open(restored_checkpoint=2)
    assert len(stream.completed(2)) == 2
    [partition] = succeeded(table.http.get(f"/v1/tables/{table.name}/partitions"))["partitions"]
    assert partition["size_bytes"] == 4 * size
