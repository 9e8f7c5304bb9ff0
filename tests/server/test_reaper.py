"""Promise 6: a dead writer holds nothing. Its lease ends, and a server rolls its instant back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import psycopg
import pytest
import structlog

from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import advisory_locks
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers import reaper
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import database as sql, planned, rest

LEASE_SECONDS = 60


@asynccontextmanager
async def a_replica(dsn: str) -> AsyncIterator[tuple[Database, Service, Metrics]]:
    """The state of a server's reaper, in this process."""
    settings = Settings(dsn=dsn)
    database, metrics = Database(settings), Metrics()
    async with Sequencer(database, settings, metrics, Notifier()).running() as sequencer:
        yield database, Service(database, sequencer), metrics
    await database.close()


async def reap_once(dsn: str) -> int:
    async with a_replica(dsn) as replica:
        return await reaper.reap(*replica)


def test_a_plan_that_nobody_executes_expires_and_frees_its_groups(server: ServerProcess) -> None:
    """#9019, #8567: a plan without an executor holds nothing for longer than its table says."""
    with rest.connect(server.url) as http:
        table = planned.merge_on_read(http, services_plan__expires__seconds="100")
        planned.append(table, times=5)
        [waiting] = planned.planned(table, services=["compaction"])
        requested = waiting["requested_time"]
        server.stop()
        early = asyncio.run(reap_once(server.dsn))
        sql.set_clocks(server.dsn, f"{sql.WALL_CLOCK} + 101000000")

        late = asyncio.run(reap_once(server.dsn))

    with rest.connect(server.start().url) as http:
        table = rest.Table(http, table.name)
        shown = rest.succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{requested}"))
        assert (early, late, shown["state"]) == (0, 1, "rolled_back")
        assert "services.plan-expires-seconds" in shown["rollback_reason"]
        reason = {"requested_time": requested, "reason": shown["rollback_reason"]}
        assert table.services()["expired"] == [{"service": "compaction"} | reason]
        [again] = planned.planned(table, services=["compaction"])
        assert table.services()["expired"] == []
        assert again["plan"]["file_groups"] == waiting["plan"]["file_groups"]


def test_a_plan_that_executors_return_again_and_again_expires(server: ServerProcess) -> None:
    """Each return restarted its time, so a plan that always failed held its file groups for good."""
    with rest.connect(server.url) as http:
        table = planned.merge_on_read(http, services_plan__expires__seconds="100")
        planned.append(table, times=5)
        [failing] = planned.planned(table, services=["compaction"])
        requested = failing["requested_time"]
    server.stop()
    sql.set_clocks(server.dsn, f"{sql.WALL_CLOCK} + 90000000")
    with rest.connect(server.start().url) as http:
        table = rest.Table(http, table.name)
        rest.succeeded(table.inflight(requested))
        rest.succeeded(planned.give_back(table, requested, reason="it failed"))
    server.stop()
    sql.set_clocks(server.dsn, f"{sql.WALL_CLOCK} + 101000000")

    assert asyncio.run(reap_once(server.dsn)) == 1

    with rest.connect(server.start().url) as http:
        table = rest.Table(http, table.name)
        shown = rest.succeeded(http.get(f"/v1/tables/{table.name}/instants/{requested}"))
        assert shown["state"] == "rolled_back"
        assert shown["rollback_reason"].endswith("; the last execution: it failed")
        [expired] = table.services()["expired"]
        assert (expired["requested_time"], expired["reason"]) == (requested, shown["rollback_reason"])


def test_a_plan_that_is_executed_does_not_expire(server: ServerProcess) -> None:
    with rest.connect(server.url) as http:
        table = planned.merge_on_read(http, services_plan__expires__seconds="1")
        planned.append(table, times=5)
        [waiting] = planned.planned(table, services=["compaction"])
        rest.succeeded(table.inflight(waiting["requested_time"]))
        server.stop()
        sql.set_wall_clock(server.dsn, f"{sql.WALL_CLOCK} + 10000000")

        assert asyncio.run(reap_once(server.dsn)) == 0

    with rest.connect(server.start().url) as http:
        table = rest.Table(http, table.name)
        assert table.state(waiting["requested_time"]) == "inflight"


def let_leases_end(dsn: str) -> None:
    sql.pass_time(dsn, LEASE_SECONDS + 1)


@pytest.fixture
def table(http: httpx.Client) -> rest.Table:
    return rest.make_table(http)


def test_the_rollback_of_a_dead_writer_with_markers_waits_for_its_deletions(
    server: ServerProcess, table: rest.Table
) -> None:
    instant = table.begun(lease_seconds=LEASE_SECONDS)
    table.marked(instant, rest.marker(instant))
    let_leases_end(server.dsn)

    assert asyncio.run(reap_once(server.dsn)) == 1

    shown = rest.succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}"))
    path = f"/v1/tables/{table.name}/instants/{shown['rolled_back_by']}"
    waiting = rest.succeeded(table.http.get(path))
    assert (shown["state"], waiting["state"], waiting["lease_expires_at"]) == ("rolled_back", "requested", None)
    assert waiting["plan"]["by_markers"]
    assert asyncio.run(reap_once(server.dsn)) == 0


def test_an_instant_whose_lease_ended_is_rolled_back_with_the_reason(
    server: ServerProcess, table: rest.Table
) -> None:
    instant = table.begun(lease_seconds=LEASE_SECONDS)
    let_leases_end(server.dsn)
    with structlog.testing.capture_logs() as logs:
        assert asyncio.run(reap_once(server.dsn)) == 1
    assert [line["instant"] for line in logs if line["event"] == "lease expired"] == [instant]
    assert table.state(instant) == "rolled_back"
    problem = rest.refused(table.complete(instant), 410, "instant-rolled-back")
    assert "lease" in problem["detail"]
    assert asyncio.run(reap_once(server.dsn)) == 0


def test_an_instant_whose_lease_runs_is_left_alone(server: ServerProcess, table: rest.Table) -> None:
    instant = table.begun(lease_seconds=LEASE_SECONDS)
    assert asyncio.run(reap_once(server.dsn)) == 0
    assert table.state(instant) == "inflight"


def test_a_lease_that_is_renewed_in_time_is_left_alone(server: ServerProcess, table: rest.Table) -> None:
    instant = table.begun(lease_seconds=LEASE_SECONDS)
    let_leases_end(server.dsn)
    rest.succeeded(table.heartbeat(instant))
    assert asyncio.run(reap_once(server.dsn)) == 0
    assert table.state(instant) == "inflight"


def test_of_two_replicas_one_looks_at_a_time(server: ServerProcess, table: rest.Table) -> None:
    table.begun(lease_seconds=LEASE_SECONDS)
    let_leases_end(server.dsn)

    async def while_another_looks() -> int:
        async with (
            a_replica(server.dsn) as (database, *_),
            advisory_locks.leadership(database, reaper.NAME) as theirs,
        ):
            assert theirs
            return await reap_once(server.dsn)

    assert asyncio.run(while_another_looks()) == 0
    assert asyncio.run(reap_once(server.dsn)) == 1


def test_the_instants_of_a_dropped_table_are_not_reaped(server: ServerProcess, http: httpx.Client) -> None:
    table = rest.make_table(http)
    table.begun(lease_seconds=LEASE_SECONDS)
    assert http.delete(f"/v1/tables/{table.name}").status_code == 204
    let_leases_end(server.dsn)
    assert asyncio.run(reap_once(server.dsn)) == 0


def test_of_complete_and_expiry_exactly_one_wins(server: ServerProcess, table: rest.Table) -> None:
    instants = [table.begun(lease_seconds=LEASE_SECONDS) for _ in range(16)]
    let_leases_end(server.dsn)

    async def race() -> list[int]:
        async with a_replica(server.dsn) as replica, httpx.AsyncClient(base_url=server.url) as client:
            completes = [
                client.post(
                    f"/v1/tables/{table.name}/instants/{instant}/complete",
                    json={"write_stats": [rest.write_stat(instant, bucket)]},
                )
                for bucket, instant in enumerate(instants[:4])
            ]
            reaping = asyncio.create_task(reaper.reap(*replica))
            answers = await asyncio.gather(*completes)
            await reaping
            return [answer.status_code for answer in answers]

    for instant, status in zip(instants, asyncio.run(race()), strict=False):
        assert (status, table.state(instant)) in [(200, "completed"), (410, "rolled_back")]
    assert {table.state(instant) for instant in instants[4:]} == {"rolled_back"}


def test_a_reaper_that_fails_once_takes_nothing_with_it(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn, "--reaper-seconds", "0.1")
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        instant = table.begun(lease_seconds=1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER FUNCTION chronolake.moment(bigint) RENAME TO hidden")
            wait_until(lambda: "reaper failed" in server.log())
            connection.execute("ALTER FUNCTION chronolake.hidden(bigint) RENAME TO moment")
        wait_until(lambda: table.state(instant) == "rolled_back")
        rest.succeeded(table.begin())


def test_a_server_reaps_by_itself(new_server: Callable[..., ServerProcess], dsn: str) -> None:
    server = new_server(dsn, "--reaper-seconds", "0.1")
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        instant = table.begun(lease_seconds=1)
        wait_until(lambda: table.state(instant) == "rolled_back")
    with psycopg.connect(dsn) as connection:
        actors = connection.execute(
            "SELECT actor FROM chronolake.event WHERE type = 'InstantRolledBack'"
        ).fetchall()
    assert actors == [(reaper.WRITER,)]


def test_a_stop_signal_ends_the_reaper_in_the_middle_of_its_round(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn, "--reaper-seconds", "0.1")
    with psycopg.connect(dsn) as connection:
        connection.execute("LOCK TABLE chronolake.instant")
        sql.wait_for_waiting(dsn, 1)
        server.stop()
    assert "stopped" in server.log()


@pytest.mark.parametrize("inflight", [True, False])
def test_a_resize_without_its_executor_is_rolled_back_and_its_plan_not_kept(
    server: ServerProcess, table: rest.Table, *, inflight: bool
) -> None:
    plan = {"buckets": 8}
    resize = table.begun(action="clustering", plan=plan, inflight=inflight, lease_seconds=LEASE_SECONDS)
    clustered = table.begun()
    rest.succeeded(table.complete(clustered, rest.write_stat(clustered)))
    group = {"partition_path": "", "file_id": rest.write_stat(clustered)["file_id"]}
    clustering = table.begun(action="clustering", plan={"file_groups": [group]}, lease_seconds=LEASE_SECONDS)
    let_leases_end(server.dsn)

    assert asyncio.run(reap_once(server.dsn)) == 2

    assert (table.state(resize), table.state(clustering)) == ("rolled_back", "requested")
