"""The loop of ``chronolake services run``, and the command."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

import chronolake
from chronolake import Action
from chronolake.cli import main as command_line
from chronolake_model.instants import Instant
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, State, TableType
from chronolake_spark import services
from chronolake_spark.services import executing, running
from chronolake_spark.services.command import TerminalReporter
from chronolake_spark.services.running import Failure, RunOptions, Silent, TableRun
from tests.client.test_cli import UNREACHABLE_URL
from tests.processes import wait_until
from tests.spark.arrow_writes import row, upsert, write_rows
from tests.spark.test_services import SCHEMA, assert_no_orphans, digest, write_history

WITHOUT_PLANS = RunOptions(once=True, plans=False)
NewTable = Callable[..., chronolake.Table]


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("running", if_not_exists=True)
        yield client
        for table in list(client.tables()):
            client.drop_table(table.name)


@pytest.fixture
def new_table(client: chronolake.Client, tmp_path: Path) -> NewTable:
    def make(
        name: str,
        *,
        index: BucketIndex = BucketIndex(),  # noqa: B008  # frozen
        type: TableType = TableType.MERGE_ON_READ,
        folder: str | None = None,
        **properties: str,
    ) -> chronolake.Table:
        table = client.create_table(
            f"running.{name}",
            base_path=str(tmp_path / (folder or name)),
            schema=SCHEMA,
            record_key_fields=["id"],
            ordering_field="ts",
            index=index,
            type=type,
            properties={"hudi.publish": "false", **properties},
        )
        table.claim_storage()
        write_history(table)
        return table

    return make


class Recorder(Silent):
    """Keeps the news of a run."""

    def __init__(self) -> None:
        self.instants: list[Instant] = []
        self.failures: list[Failure] = []
        self.left_plans: list[str] = []
        self.held_plans: list[Instant] = []

    def completed(self, instant: Instant) -> None:  # type: ignore[explicit-override]
        self.instants.append(instant)

    def held(self, instant: Instant) -> None:  # type: ignore[explicit-override]
        self.held_plans.append(instant)

    def left(self, instant: Instant, reason: str) -> None:  # type: ignore[explicit-override]
        self.left_plans.append(reason)

    def failed(self, failure: Failure) -> None:  # type: ignore[explicit-override]
        self.failures.append(failure)


def unpublished_plan(table: chronolake.Table, action: Action) -> Instant:
    groups = [chronolake.FileGroupName(of.partition_path, of.file_id) for of in table.snapshot().slices]
    return table.plan(action, groups, writer="planner")


def test_a_table_that_fails_does_not_stop_another_one(client: chronolake.Client, new_table: NewTable) -> None:
    broken, healthy = new_table("broken"), new_table("healthy")
    for table in (broken, healthy):
        unpublished_plan(table, Action.COMPACTION)
    for slice_ in broken.snapshot().slices:
        assert slice_.base_file is not None
        Path(broken.definition.base_path, slice_.base_file.path).unlink()
    news = Recorder()

    result = services.run(client, WITHOUT_PLANS, reporter=news)

    assert (result.completed, result.failures) == (1, 1)
    assert result.tables == (TableRun("running.broken", 0, 1), TableRun("running.healthy", 1, 0))
    assert [instant.table for instant in news.instants] == ["running.healthy"]
    [failure] = news.failures
    assert (failure.table, failure.retry_seconds) == ("running.broken", None)
    assert "restore it" in failure.error


def test_the_rollback_of_a_writer_is_finished(client: chronolake.Client, new_table: NewTable) -> None:
    table = new_table("undone")
    write = table.begin()
    write_rows(table, write, [row(1, group=1, id=1, value="x", ts=9)])
    table.rollback(write.requested_time, "killed", writer=write.instant.writer, execute=False)

    services.run(client, RunOptions(tables=(table.name,), once=True, plans=False))

    assert table.instant(table.instant(write.requested_time).rolled_back_by or "").state is State.COMPLETED
    assert_no_orphans(table)


def test_of_two_processes_exactly_one_executes_each_plan(
    client: chronolake.Client, new_table: NewTable
) -> None:
    tables = [new_table(f"shared{number}") for number in range(3)]
    plans = [unpublished_plan(table, Action.COMPACTION) for table in tables]
    before = [digest(table) for table in tables]
    with ThreadPoolExecutor(2) as runs:
        results = list(runs.map(lambda _: services.run(client, WITHOUT_PLANS), range(2)))
    assert sum(result.completed for result in results) == len(plans)
    assert not any(result.failures for result in results)
    assert [digest(table) for table in tables] == before
    for table in tables:
        assert_no_orphans(table)


def test_a_follower_executes_plans_of_tables_that_are_made_later(
    client: chronolake.Client, new_table: NewTable
) -> None:
    stopping = threading.Event()
    news = Recorder()
    options = RunOptions(plans=False)
    with ThreadPoolExecutor(1) as runs:
        run = runs.submit(services.run, client, options, reporter=news, stopping=stopping)
        try:
            table = new_table("later")
            planned = unpublished_plan(table, Action.LOGCOMPACTION)
            wait_until(lambda: run.done() or table.instant(planned.requested_time).state is State.COMPLETED)
            planned = unpublished_plan(table, Action.COMPACTION)
            wait_until(lambda: run.done() or table.instant(planned.requested_time).state is State.COMPLETED)
            wait_until(lambda: run.done() or len(news.instants) == 2)
        finally:
            stopping.set()
        assert run.result().completed == 2


@pytest.mark.parametrize("names", [(), ("running.again",)])
def test_a_table_with_the_name_of_a_dropped_one_is_served_and_the_run_ends(
    client: chronolake.Client, new_table: NewTable, names: tuple[str, ...]
) -> None:
    first = new_table("again")
    unpublished_plan(first, Action.COMPACTION)
    stopping, news = threading.Event(), Recorder()

    def execute_after_the_drop(table: chronolake.Table, requested_time: str, **how: Any) -> Instant:
        if table.definition.table_id == first.definition.table_id:
            client.drop_table("running.again")
            unpublished_plan(new_table("again", folder="other"), Action.COMPACTION)
        return executing.execute(table, requested_time, **how)

    with ThreadPoolExecutor(1) as runs:
        options = RunOptions(tables=names, plans=False, interval_seconds=1)
        run = runs.submit(
            services.run, client, options, reporter=news, stopping=stopping, execute=execute_after_the_drop
        )
        try:
            wait_until(lambda: bool(news.instants) or run.done())
        finally:
            stopping.set()
        assert run.result(timeout=60).completed == 1


def test_a_plan_that_fails_is_tried_again_after_the_pause_that_is_reported(
    client: chronolake.Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan returns to the server, which is an event: the look after it forgot when the pause ends."""
    monkeypatch.setattr(running, "_RETRY_SECONDS", 2 * running._PAUSE_SECONDS)
    table = new_table("failing")
    planned = unpublished_plan(table, Action.COMPACTION)
    stopping, news = threading.Event(), Recorder()

    def fail_once(table: chronolake.Table, requested_time: str, **how: Any) -> Instant:
        if news.failures:
            return executing.execute(table, requested_time, **how)
        with table.execute(requested_time):
            raise OSError("the disk is full")

    options = RunOptions(plans=False, interval_seconds=600)
    with ThreadPoolExecutor(1) as runs:
        run = runs.submit(services.run, client, options, reporter=news, stopping=stopping, execute=fail_once)
        try:
            wait_until(lambda: run.done() or table.instant(planned.requested_time).state is State.COMPLETED)
        finally:
            stopping.set()
        assert run.result().completed == 1
    [failure] = news.failures
    assert failure.retry_seconds == running._RETRY_SECONDS


def test_a_run_plans_what_the_policies_of_a_table_ask_for_and_then_records_nothing(
    client: chronolake.Client, new_table: NewTable, shared_dsn: str
) -> None:
    table = new_table("planned", **{"hoodie.clean.commits.retained": "1"})
    for number in range(6):
        upsert(table, row(1, group=1, id=1, value=f"v{number}", ts=9))
    before = digest(table)
    options = RunOptions(tables=(table.name,), once=True)
    news = Recorder()

    result = services.run(client, options, reporter=news)

    assert not news.failures
    assert Action.COMMIT in [instant.action for instant in news.instants]
    assert Action.CLEAN in [instant.action for instant in news.instants]
    assert not any(of.log_files for of in table.snapshot().slices)
    assert digest(table) == before
    assert_no_orphans(table)
    assert result.completed == len(news.instants)
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        counted = "SELECT count(*) FROM chronolake.outcome"
        outcomes = connection.execute(counted).fetchone()
        assert services.run(client, options) == services.RunResult(0, 0)
        assert connection.execute(counted).fetchone() == outcomes


def test_small_files_are_clustered_once(client: chronolake.Client, new_table: NewTable) -> None:
    table = new_table("small", index=BucketIndex(IndexType.SIMPLE), type=TableType.COPY_ON_WRITE)
    for number in range(3, 7):
        upsert(table, row(100 + number, group=number, id=100 + number, value="x", ts=1))
    before = digest(table)
    options = RunOptions(tables=(table.name,), once=True)

    assert services.run(client, options).failures == 0

    assert len(table.snapshot().slices) == 1
    assert digest(table) == before
    assert services.run(client, options) == services.RunResult(0, 0)


def test_the_command_executes_what_is_planned_and_ends(
    client: chronolake.Client,
    new_table: NewTable,
    shared_server_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = new_table("commanded")
    planned = unpublished_plan(table, Action.COMPACTION)
    arguments = ["services", "run", "--table", table.name, "--once", "--url", shared_server_url, "--json"]

    assert command_line.run(arguments) == 0

    shown = capsys.readouterr()
    assert json.loads(shown.out)["tables"] == [{"table": table.name, "completed": 1, "failures": 0}]
    assert f"{table.name} compaction {planned.requested_time}" in shown.err
    assert command_line.run([*arguments, "--table", "running.unknown"]) == 4


@pytest.mark.parametrize(
    ("action", "service"),
    [
        (Action.COMPACTION, "compaction"),
        (Action.LOGCOMPACTION, "log compaction"),
        (Action.CLUSTERING, "clustering"),
    ],
)
def test_a_plan_has_the_name_of_its_service_when_it_begins_and_when_it_is_completed(
    client: chronolake.Client,
    new_table: NewTable,
    shared_server_url: str,
    capsys: pytest.CaptureFixture[str],
    action: Action,
    service: str,
) -> None:
    table = new_table("named", index=BucketIndex(IndexType.SIMPLE))
    planned = unpublished_plan(table, action)
    arguments = ["services", "run", "--table", table.name, "--once", "--url", shared_server_url]

    assert command_line.run(arguments) == 0

    lines = capsys.readouterr().err.splitlines()
    name = f"  {table.name} {service} {planned.requested_time}: "
    assert [line.removeprefix(name).split()[-1] for line in lines if line.startswith(name)] == [
        "begun",
        "planned",
    ]


def test_the_line_of_a_completed_clean_says_how_many_files_it_deleted(
    new_table: NewTable, shared_server_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = new_table("cleaned", **{"hoodie.clean.commits.retained": "1"})
    for _ in range(2):
        [compaction] = table.services.plan("compaction", force=True).instants
        executing.execute(table, compaction.requested_time, workers=None)
        upsert(table, row(1, group=1, id=1, value="x", ts=9))
    [clean] = table.services.plan("clean", force=True).instants
    assert clean.plan is not None

    command_line.run(["services", "run", "--table", table.name, "--once", "--url", shared_server_url])

    deleted = f"{table.name} clean {clean.requested_time}: {clean.plan.files_to_delete_count} files deleted, "
    assert deleted in capsys.readouterr().err


def test_a_plan_that_a_write_cancels_is_left_with_the_write_as_the_reason(
    client: chronolake.Client, new_table: NewTable
) -> None:
    table = new_table("cancelled", index=BucketIndex(IndexType.SIMPLE))
    unpublished_plan(table, Action.CLUSTERING)
    news = Recorder()

    def execute_too_late(table: chronolake.Table, requested_time: str, **how: Any) -> Instant:
        with table.execute(requested_time) as plan:
            write = upsert(table, row(1, group=1, id=1, value="x", ts=9))
            news.left_plans.append(write.requested_time)
        return plan.instant

    services.run(client, WITHOUT_PLANS, reporter=news, execute=execute_too_late)

    [write_time, reason] = news.left_plans
    assert reason.startswith(f"it was rolled back: the write {write_time} of ")


def test_a_plan_of_another_executor_is_reported_once_with_its_lease(
    client: chronolake.Client, new_table: NewTable
) -> None:
    """After kill -9 of another process, this says why nothing happens, and until when."""
    table = new_table("held")
    plan = unpublished_plan(table, Action.COMPACTION)
    killed = table.execute(plan.requested_time, lease_seconds=600)
    held = killed.refresh()
    news, stopping = Recorder(), threading.Event()
    with ThreadPoolExecutor(1) as thread:
        options = RunOptions(plans=False, interval_seconds=0.2)
        ended = thread.submit(services.run, client, options, reporter=news, stopping=stopping)
        wait_until(lambda: bool(news.held_plans))
        stopping.wait(1)
        stopping.set()
        ended.result()

    [reported] = news.held_plans
    assert (reported.requested_time, reported.writer) == (plan.requested_time, held.writer)
    assert reported.lease_expires_at is not None
    killed.rollback("the test has ended")


def test_the_line_of_a_plan_of_another_executor_says_who_has_it_and_until_when(
    client: chronolake.Client, new_table: NewTable
) -> None:
    table = new_table("named")
    write = table.execute(unpublished_plan(table, Action.COMPACTION).requested_time)
    instant = write.refresh()
    console = Console(file=io.StringIO(), width=80)
    with TerminalReporter(console, wants_json=False) as reporter:
        reporter.held(instant)
    assert instant.lease_expires_at is not None
    until = instant.lease_expires_at.strftime("%H:%M:%S UTC")
    assert isinstance(console.file, io.StringIO)
    assert f"{instant.writer} has it, under a lease to {until}, which it may renew" in console.file.getvalue()
    write.rollback("the test has ended")


def test_the_command_says_at_once_that_the_server_cannot_be_reached() -> None:
    program = "from chronolake_start import client; client()"
    arguments = ["services", "run", "--once", "--url", UNREACHABLE_URL]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "Serving all tables" in process.stderr.readline()
            note = process.stderr.readline()
        finally:
            process.kill()
    assert note.startswith(f"Note: no answer from {UNREACHABLE_URL}: ")
    assert "chronolake-metastore serve" in note
    assert note.endswith("the request is sent again for 60 s\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command(shared_server_url: str, new_table: NewTable, number: signal.Signals) -> None:
    new_table("followed")
    program = "from chronolake_start import client; client()"
    arguments = ["services", "run", "--url", shared_server_url]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "Serving all tables" in process.stderr.readline()
    process.send_signal(number)
    assert "Traceback" not in process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number


@pytest.mark.parametrize("answers", ["refuses connections", "never answers"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_while_the_server_cannot_be_reached(
    answers: str, number: signal.Signals
) -> None:
    """Its requests are tried again for a minute, and then it ends by another exit code."""
    program = "from chronolake_start import client; client()"
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        if answers == "never answers":
            bound.listen()
        arguments = ["services", "run", "--url", f"http://127.0.0.1:{bound.getsockname()[1]}"]
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert "Serving all tables" in process.stderr.readline()
        process.send_signal(number)
        assert "Stopping: " in process.communicate()[1]
    assert process.returncode == 128 + number
