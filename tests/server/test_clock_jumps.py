"""Leases are durations: a jump of the database's clock changes their end by seconds, not by its length.

Promise 6 of docs/architecture.md. A test sets the wall clock that the servers read, and lets time pass by the
steady clock. ``test_faked_clock`` has the same with the clock of a whole PostgreSQL,
``test_failover`` with that of a promoted standby.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, planned, rest
from tests.server.checkpoints import StreamOfTable
from tests.server.rest import Json, Table, refused, succeeded
from tests.server.test_planned_cleans import clean, post, preview, write
from tests.server.test_reaper import reap_once
from tests.server.test_sweeps import completed

DAY = 86_400
LEASE_SECONDS = 60
BOUND_SECONDS = 4
"""The bound of docs/decisions/0002-time.md, and a second for the test."""
JUMPS = pytest.mark.parametrize("jump", [DAY, -DAY], ids=["ahead", "back"])


def jump_by(dsn: str, seconds: int) -> None:
    """Set the wall clock off by so much, at once."""
    database.set_wall_clock(dsn, f"{database.WALL_CLOCK} + {seconds * 1_000_000}")


def wait_until_seen(dsn: str, jumps: int = 1) -> None:
    """Wait until a server has seen this number of jumps."""
    database.wait_until(dsn, f"(SELECT count(*) FROM clock_jump) >= {jumps}")


def have_a_fault(server: ServerProcess, http: httpx.Client) -> None:
    """The clock jumps ahead by a day, one request sees it, and the clock comes back."""
    jump_by(server.dsn, DAY)
    succeeded(http.get("/v1/time"))
    jump_by(server.dsn, 0)


@pytest.fixture
def table(http: httpx.Client) -> Table:
    return rest.make_table(http)


def readers(table: Table) -> list[Json]:
    listed: list[Json] = succeeded(table.http.get(f"/v1/tables/{table.name}/readers"))["readers"]
    return listed


def due(table: Table) -> list[Json]:
    listed: list[Json] = succeeded(table.http.get(f"/v1/tables/{table.name}/unswept"))["instants"]
    return listed


def test_a_clock_fault_of_a_moment_does_not_freeze_the_lease_of_a_dead_writer(
    server: ServerProcess, http: httpx.Client, table: Table
) -> None:
    have_a_fault(server, http)
    dead = table.begun(writer="dead", lease_seconds=LEASE_SECONDS)

    database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)

    assert succeeded(table.roll_back(dead, writer="other"))["state"] == "rolled_back"


@JUMPS
def test_a_jump_does_not_end_the_lease_of_a_live_writer(server: ServerProcess, table: Table, jump: int) -> None:
    live = table.begun(writer="live", lease_seconds=LEASE_SECONDS)

    jump_by(server.dsn, jump)
    left = refused(table.roll_back(live, writer="other"), 409, "lease-live")["context"]["lease_seconds_left"]
    reaped = asyncio.run(reap_once(server.dsn))
    wait_until_seen(server.dsn)
    refused(table.roll_back(live, writer="other"), 409, "lease-live")
    reaped += asyncio.run(reap_once(server.dsn))

    assert reaped == 0
    assert LEASE_SECONDS - BOUND_SECONDS <= left <= LEASE_SECONDS + BOUND_SECONDS
    succeeded(table.heartbeat(live))
    assert table.state(live) == "inflight"


@JUMPS
def test_a_jump_does_not_prolong_the_lease_of_a_dead_writer(
    server: ServerProcess, table: Table, jump: int
) -> None:
    before = table.begun(writer="dead", lease_seconds=LEASE_SECONDS)
    jump_by(server.dsn, jump)
    between = table.begun(writer="dead", lease_seconds=LEASE_SECONDS)
    wait_until_seen(server.dsn)
    after = table.begun(writer="dead", lease_seconds=LEASE_SECONDS)

    database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)

    assert asyncio.run(reap_once(server.dsn)) == 3
    assert {table.state(instant) for instant in (before, between, after)} == {"rolled_back"}


@JUMPS
def test_the_end_of_a_lease_is_shown_by_the_wall_clock(server: ServerProcess, table: Table, jump: int) -> None:
    jump_by(server.dsn, jump)
    wait_until_seen(server.dsn)

    begun = succeeded(table.begin(lease_seconds=LEASE_SECONDS))
    read = succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{begun['requested_time']}"))
    [shown] = database.query(
        server.dsn,
        "SELECT extract(epoch FROM %s::timestamptz - moment(now_us()))::int AS seconds, lease_state, "
        "lease_expires_at = %s::timestamptz AS is_same FROM audit_pending",
        read["lease_expires_at"],
        read["lease_expires_at"],
    )

    assert read["lease_expires_at"] == begun["lease_expires_at"]
    assert LEASE_SECONDS - BOUND_SECONDS <= shown["seconds"] <= LEASE_SECONDS + BOUND_SECONDS
    assert (shown["lease_state"], shown["is_same"]) == ("live", True)


@JUMPS
def test_a_jump_neither_ends_nor_prolongs_the_lease_of_a_reader(
    server: ServerProcess, table: Table, jump: int
) -> None:
    write(table)
    succeeded(post(table, "readers", {"reader": "r", "lease_seconds": LEASE_SECONDS}))

    jump_by(server.dsn, jump)
    succeeded(post(table, "readers", {"reader": "between", "lease_seconds": LEASE_SECONDS}))
    wait_until_seen(server.dsn)
    live = readers(table)
    database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)

    assert len(live) == 2
    assert readers(table) == []


@JUMPS
def test_a_jump_neither_ends_nor_prolongs_the_lease_of_a_stream(
    server: ServerProcess, http: httpx.Client, jump: int
) -> None:
    stream = StreamOfTable(rest.make_table(http, type="merge_on_read"))
    stream.open(lease_seconds=LEASE_SECONDS)
    stream.request(-1)

    jump_by(server.dsn, jump)
    live = asyncio.run(reap_once(server.dsn))
    wait_until_seen(server.dsn)
    live += asyncio.run(reap_once(server.dsn))
    database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)

    assert (live, asyncio.run(reap_once(server.dsn))) == (0, 1)


@JUMPS
def test_a_jump_neither_ends_nor_prolongs_the_lease_of_a_publisher(
    server: ServerProcess, table: Table, jump: int
) -> None:
    write(table)
    lease = {"publisher": "one", "lease_seconds": LEASE_SECONDS}
    succeeded(post(table, "publication/lease", lease))

    jump_by(server.dsn, jump)
    refused(post(table, "publication/lease", lease | {"publisher": "two"}), 409, "lease-live")
    wait_until_seen(server.dsn)
    refused(post(table, "publication/lease", lease | {"publisher": "two"}), 409, "lease-live")
    database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)

    assert succeeded(post(table, "publication/lease", lease | {"publisher": "two"}))["publisher"] == "two"


@JUMPS
def test_a_jump_neither_ends_nor_prolongs_the_grace_period_before_a_sweep(
    server: ServerProcess, http: httpx.Client, jump: int
) -> None:
    table = rest.make_table(http, properties={"deletions.grace-seconds": "100"})
    before, _ = completed(table)
    jump_by(server.dsn, jump)
    between, _ = completed(table)
    early = due(table)
    wait_until_seen(server.dsn)
    early += due(table)

    database.pass_time(server.dsn, LEASE_SECONDS * 10 + BOUND_SECONDS)

    assert early == []
    assert {instant["requested_time"] for instant in due(table)} == {before, between}


def test_a_clean_by_hours_counts_no_hours_that_the_clock_jumped_over(
    server: ServerProcess, http: httpx.Client, table: Table
) -> None:
    write(table)
    write(table)
    policy = {"retain_commits": None, "retain_hours": 1}

    have_a_fault(server, http)
    assert clean(table, **policy) is None
    jump_by(server.dsn, DAY)
    assert clean(table, **policy) is None
    wait_until_seen(server.dsn)
    assert clean(table, **policy) is None
    assert preview(table, retain_hours=1)["files_to_delete"] == []


def test_a_clean_by_hours_deletes_what_is_older_than_that_although_the_clock_has_jumped(
    server: ServerProcess, table: Table
) -> None:
    write(table)
    write(table)
    jump_by(server.dsn, DAY)
    wait_until_seen(server.dsn)

    # Two hours pass, by both clocks.
    database.query_nothing(
        server.dsn,
        "CREATE OR REPLACE FUNCTION now_us() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE "
        f"RETURN {database.WALL_CLOCK} + {(DAY + 2 * 3_600) * 1_000_000}; "
        "UPDATE steady_clock SET last_time = last_time + interval '2 hours'",
    )

    assert len(preview(table, retain_hours=1)["files_to_delete"]) == 1


def test_a_plan_of_a_clock_that_was_ahead_for_a_moment_expires(
    server: ServerProcess, http: httpx.Client
) -> None:
    """Its requested time is a day ahead, so it held its file groups for a day."""
    table = planned.merge_on_read(http, services_plan__expires__seconds="100")
    planned.append(table, times=5)
    jump_by(server.dsn, DAY)
    wait_until_seen(server.dsn)
    [waiting] = planned.planned(table, services=["compaction"])
    jump_by(server.dsn, 0)
    wait_until_seen(server.dsn, jumps=2)
    server.stop()  # A server would take the time that passes for a jump.

    database.set_clocks(server.dsn, f"{database.WALL_CLOCK} + {200 * 1_000_000}")
    asyncio.run(reap_once(server.dsn))

    shown = database.query(server.dsn, "SELECT state FROM instant WHERE operation = 'compact'")
    assert waiting["state"] == "requested"
    assert [row["state"] for row in shown] == ["rolled_back"]


def test_a_plan_expires_although_a_clock_fault_of_a_moment_was_before_it(
    server: ServerProcess, http: httpx.Client
) -> None:
    """A time was returned that is a day ahead, so no table had a plan that expired for a day."""
    have_a_fault(server, http)
    table = planned.merge_on_read(http, services_plan__expires__seconds="100")
    planned.append(table, times=5)
    [waiting] = planned.planned(table, services=["compaction"])
    server.stop()  # A server would take the time that passes for a jump.

    database.set_clocks(server.dsn, f"{database.WALL_CLOCK} + {200 * 1_000_000}")
    asyncio.run(reap_once(server.dsn))

    shown = database.query(server.dsn, "SELECT state FROM instant WHERE operation = 'compact'")
    assert waiting["state"] == "requested"
    assert [row["state"] for row in shown] == ["rolled_back"]


@pytest.fixture
def recorded_time(dsn: str) -> int:
    """The time of the steady clock in a new database; to be named before the server, which records another."""
    [row] = database.query(dsn, "SELECT micros(last_time) AS recorded FROM steady_clock")
    return int(row["recorded"])


def test_a_compaction_by_time_is_due_although_the_clock_was_ahead_for_a_moment(
    recorded_time: int, server: ServerProcess, http: httpx.Client
) -> None:
    """Delta commits of then have times that are a day ahead, so none was due for a day."""
    # A server sees no jump before its first look at the clock, which it records.
    database.wait_until(server.dsn, f"(SELECT micros(last_time) > {recorded_time} FROM steady_clock)")
    jump_by(server.dsn, DAY)
    wait_until_seen(server.dsn)
    table = planned.merge_on_read(
        http,
        hoodie_compact_inline_trigger_strategy="TIME_ELAPSED",
        hoodie_compact_inline_max_delta_seconds="1",
    )
    planned.append(table)
    jump_by(server.dsn, 0)
    wait_until_seen(server.dsn, jumps=2)
    database.set_clocks(server.dsn, f"{database.WALL_CLOCK} + {5 * 1_000_000}")

    [due] = planned.planned(table, services=["compaction"])

    assert due["action"] == "compaction"


def test_several_servers_correct_a_jump_once(
    server: ServerProcess, new_server: Callable[..., ServerProcess], table: Table
) -> None:
    new_server(server.dsn)
    new_server(server.dsn)
    live = table.begun(writer="live", lease_seconds=LEASE_SECONDS)

    for number, jump in enumerate((DAY, -DAY, 0)):
        jump_by(server.dsn, jump)
        wait_until_seen(server.dsn, number + 1)

    jumps = database.query(server.dsn, "SELECT round(jump_us / 1e6)::int AS seconds FROM clock_jump ORDER BY 1")
    assert [row["seconds"] for row in jumps] == [-2 * DAY, DAY, DAY]
    refused(table.roll_back(live, writer="other"), 409, "lease-live")


def test_a_jump_while_no_server_runs_neither_ends_nor_prolongs_a_lease(
    server: ServerProcess, table: Table
) -> None:
    live = table.begun(writer="live", lease_seconds=LEASE_SECONDS)
    server.kill()
    jump_by(server.dsn, DAY)
    server.start()

    with rest.connect(server.url) as http:
        again = Table(http, table.name)
        refused(again.roll_back(live, writer="other"), 409, "lease-live")
        database.pass_time(server.dsn, LEASE_SECONDS + BOUND_SECONDS)
        assert succeeded(again.roll_back(live, writer="other"))["state"] == "rolled_back"
