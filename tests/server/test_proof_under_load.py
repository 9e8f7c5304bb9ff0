"""Verifying and rebuilding beside real servers that go on writing: no false finding, no loss, no deadlock."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx
import msgspec
import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Task
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import namespaces
from chronolake_metastore.domain.context import Context
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import sessions
from chronolake_metastore.store.postgres.engine import Database
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.server import database, rest
from tests.server.load import Load

WRITERS = 16
RUNS = 3
CYCLES_BETWEEN = 32
DEADLINE_SECONDS = 240.0


async def under_load(
    servers: tuple[ServerProcess, ServerProcess], table: str, do: Callable[[], Awaitable[None]]
) -> Load:
    """Repeat an action while many write; returns the requests and the answers of the writers."""
    load = Load([server.url for server in servers], table)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run_writers(WRITERS))
            for _ in range(RUNS):
                await load.wait_for_cycles(CYCLES_BETWEEN)
                await do()
            await load.wait_for_cycles(CYCLES_BETWEEN)
            load.stopping = True
    finally:
        await load.close()
    return load


@pytest.fixture
def table(shared_servers: tuple[ServerProcess, ServerProcess]) -> str:
    """A table for the load, beside one that no client writes to any more."""
    with rest.connect(shared_servers[0].url) as http:
        quiet = rest.make_table(http)
        requested_time = quiet.begun()
        rest.succeeded(quiet.complete(requested_time, rest.write_stat(requested_time)))
        return rest.make_table(
            http, partition_fields=["day"], index={"type": "bucket", "buckets": WRITERS}
        ).name


def test_verifying_while_others_write_finds_nothing(
    shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess], table: str
) -> None:
    ended: list[subprocess.CompletedProcess[str]] = []

    async def verify() -> None:
        ended.append(await asyncio.to_thread(run, "verify", "--dsn", shared_dsn))

    asyncio.run(under_load(shared_servers, table, verify))

    assert [ended_process.returncode for ended_process in ended] == [0] * RUNS, ended


def test_rebuilding_under_load_loses_nothing_and_repairs_the_projections(
    shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess], table: str
) -> None:
    ended: list[subprocess.CompletedProcess[str]] = []

    async def damage_and_rebuild() -> None:
        # Of the quiet table only: decisions of servers on damaged projections are tested elsewhere.
        await asyncio.to_thread(
            database.query_nothing,
            shared_dsn,
            "UPDATE chronolake.instant SET writer = 'mallory' WHERE table_id = "
            "(SELECT table_id FROM chronolake.lake_table ORDER BY created_at LIMIT 1)",
        )
        ended.append(await asyncio.to_thread(run, "rebuild", "--dsn", shared_dsn))

    load = asyncio.run(under_load(shared_servers, table, damage_and_rebuild))

    assert [ended_process.returncode for ended_process in ended] == [0] * RUNS, ended
    assert all("corrected rows: instant 1;" in ended_process.stdout for ended_process in ended), ended
    verified = run("verify", "--dsn", shared_dsn)
    assert verified.returncode == 0, verified
    logged = [event["request_id"] for event in database.events(shared_dsn, table)[1:]]
    assert sorted(logged) == sorted(load.answers)
    [deadlocks] = database.query(
        shared_dsn, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks["deadlocks"] == 0


def test_rebuilds_at_once_follow_each_other(
    shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess], table: str
) -> None:
    ended: list[subprocess.CompletedProcess[str]] = []

    async def rebuild_twice() -> None:
        ended.extend(
            await asyncio.gather(*(asyncio.to_thread(run, "rebuild", "--dsn", shared_dsn) for _ in range(2)))
        )

    asyncio.run(under_load(shared_servers, table, rebuild_twice))

    assert [ended_process.returncode for ended_process in ended] == [0] * 2 * RUNS, ended
    assert run("verify", "--dsn", shared_dsn).returncode == 0


# ---------------------------------------------------------------------------------- waiting for a rebuild


def create_namespace(name: str) -> Task:
    """A command that waits like any other."""
    command = namespaces.CreateNamespace(name)
    return group.task_of(group.request_of(Context("test", f"key-{name}"), command))


def names_in_the_log(dsn: str) -> list[str]:
    """The namespaces that events say were made."""
    return [row["name"] for row in database.query(dsn, "SELECT payload->>'name' AS name FROM event")]


@pytest.fixture
def impatient(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A server that waits for a lock for a fifth of a second, so that a test need not wait for ten."""
    monkeypatch.setattr(sessions, "LOCK_TIMEOUT_MS", 200)
    return Settings(dsn=dsn)


async def submit_while_locked(settings: Settings, release_after: float) -> Answer | errors.TimelineError:
    """Send a command while the clocks are locked as by a rebuild, for a number of seconds at most."""
    answer: Answer | errors.TimelineError
    target = Database(settings)
    async with await psycopg.AsyncConnection.connect(settings.dsn) as locking:
        await locking.execute("LOCK TABLE chronolake.clock IN EXCLUSIVE MODE")
        async with Sequencer(target, settings, Metrics(), Notifier()).running() as sequencer:
            submitted = asyncio.create_task(sequencer.submit(create_namespace("waited")))
            with suppress(TimeoutError, errors.TimelineError):
                await asyncio.wait_for(asyncio.shield(submitted), release_after)
            await locking.rollback()
            try:
                answer = await submitted
            except errors.TimelineError as exc:
                answer = exc
    await target.close()
    return answer


def test_a_command_that_waits_longer_than_the_lock_timeout_is_carried_out_in_the_end(
    impatient: Settings,
) -> None:
    answer = asyncio.run(submit_while_locked(impatient, release_after=1.0))

    assert isinstance(answer, Answer)
    assert names_in_the_log(impatient.dsn) == ["waited"]


def test_a_command_that_waits_too_long_is_refused_and_leaves_nothing_and_may_be_sent_again(
    impatient: Settings,
) -> None:
    hasty = msgspec.structs.replace(impatient, retry_seconds=0.3)

    refused = asyncio.run(submit_while_locked(hasty, release_after=30.0))

    assert isinstance(refused, errors.DatabaseUnavailable)
    assert names_in_the_log(impatient.dsn) == []
    assert isinstance(asyncio.run(submit_while_locked(impatient, release_after=0.1)), Answer)
    assert names_in_the_log(impatient.dsn) == ["waited"]


def test_readers_do_not_wait_for_a_rebuild(dsn: str, http: httpx.Client) -> None:
    table = rest.make_table(http)
    with psycopg.connect(dsn) as locking:
        locking.execute("LOCK TABLE chronolake.clock IN EXCLUSIVE MODE")

        assert http.get(f"/v1/tables/{table.name}/snapshot").status_code == 200
        assert http.get("/v1/time").status_code == 200
        assert http.get("/ready").status_code == 200
