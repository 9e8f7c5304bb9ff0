"""``chronolake services run``: plan and execute compactions, log compactions, clusterings and cleans."""

from __future__ import annotations

import contextlib
import enum
import importlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import chronolake
from chronolake.cli import context, options, output, terminal
from chronolake.errors import ChronolakeError, ConnectionFailed
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, Operation

if TYPE_CHECKING:
    from chronolake_spark.services.executing import TasksDone
    from chronolake_spark.services.running import Execute, Failure, RunResult

_RETRY_SECONDS = 60.0
_SIGNAL_EXIT = 128
_WATCH_SECONDS = 0.2
_ANSWER_SECONDS = 1.5
"""How long a server may take to answer a run that ends."""
_SERVICES = {
    Operation.COMPACT: "compaction",
    Operation.LOG_COMPACT: "log compaction",
    Operation.CLUSTER: "clustering",
}
"""By the operation: the action of a completed compaction is a commit."""


class Engine(enum.StrEnum):
    """The engine that merges and sorts records."""

    ARROW = "arrow"
    SPARK = "spark"


def run(
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="A table to serve, namespace.table; may be repeated. The default is all tables.",
            callback=lambda names: [options.table_name(name) for name in names or []],
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is left to do, and do not follow the tables.")
    ] = False,
    engine: Annotated[
        Engine,
        typer.Option(
            help="arrow merges and sorts in this process, without Spark and Java; spark in tasks of Spark."
        ),
    ] = Engine.ARROW,
    parallel: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            metavar="COUNT",
            help="File groups at once, or Spark jobs. Each file group holds a row group and its log files in "
            "memory.",
        ),
    ] = 2,
    interval: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="The time after which a table is looked at again without an event, for policies by time.",
        ),
    ] = 60.0,
    storage: options.StorageOption = None,
) -> None:
    """Keep tables healthy: compact and cluster them, delete old files, and finish rollbacks.

    It follows the tables until Ctrl-C or SIGTERM. The server plans by the properties of each table. Any number
    of these commands may run, on any machines: each plan has one executor, and goes to another one if that is
    killed. A table that fails is tried again later, and does not stop the others.
    """
    from chronolake_spark.services import running  # noqa: PLC0415  # PyArrow

    run_options = running.RunOptions(tuple(table or ()), once, parallel, interval)
    console = terminal.console(sys.stderr)
    wants_json = context.wants_json() and not once
    with (
        context.client(retry_seconds=_RETRY_SECONDS, storage_options=options.storage(storage)) as client,
        _Stopping(console, client.access) as stopping,
        TerminalReporter(console, wants_json=wants_json) as reporter,
        _executing(engine) as execute,
    ):
        served = " ".join(table or ["all tables"])
        ending = "until nothing is left to do" if once else "until Ctrl-C"
        console.print(f"Serving {served} by the engine {engine}, {ending}", markup=False)
        result = running.run(client, run_options, reporter=reporter, stopping=stopping.asked, execute=execute)
    if once:
        output.show(result, lambda shown: _print(shown, result))
    if stopping.number is not None:
        raise typer.Exit(_SIGNAL_EXIT + stopping.number)
    if once and result.failures:
        raise typer.Exit(output.FAILED)


def _executing(engine: Engine) -> contextlib.AbstractContextManager[Execute]:
    match engine:
        case Engine.ARROW:
            from chronolake_spark.services import executing  # noqa: PLC0415  # PyArrow

            return contextlib.nullcontext(executing.execute)
        case Engine.SPARK:
            # By its name: this package knows no Spark.
            jobs = importlib.import_module("chronolake_spark.service_jobs")
            of_spark: contextlib.AbstractContextManager[Execute] = jobs.engine()
            return of_spark


def _print(console: Console, result: RunResult) -> None:
    failures = f", {output.count(result.failures, 'failure')}" if result.failures else ""
    console.print(f"{output.count(result.completed, 'plan')} executed{failures}")


class TerminalReporter:
    """Prints the news of a run, with a bar for each plan in execution on a terminal."""

    def __init__(self, console: Console, *, wants_json: bool) -> None:
        self._wants_json = wants_json
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=console, transient=True)
        self._of_instants: dict[tuple[str, str], TaskID] = {}

    def __enter__(self) -> TerminalReporter:
        self._bars.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bars.__exit__(*error)

    def taken(self, instant: Instant) -> None:
        """A plan is about to be executed."""
        bar = self._bars.add_task(_name(instant), total=None)
        self._of_instants[instant.table, instant.requested_time] = bar
        if not self._bars.console.is_terminal:
            self._line(f"  {_name(instant)}: begun")

    def progress(self, done: TasksDone) -> None:
        """A task of a plan is done."""
        bar = self._of_instants.get((done.instant.table, done.instant.requested_time))
        if bar is not None:
            self._bars.update(bar, total=done.size_bytes, completed=done.size_bytes_done)

    def completed(self, instant: Instant) -> None:
        """A plan was executed."""
        self._ended(instant)
        seconds = output.seconds_between(instant.requested_time, instant.completion_time)
        self._line(f"  {_name(instant)}: {_files(instant)}completed {seconds} after it was planned")
        if self._wants_json:
            output.show_line(instant)

    def held(self, instant: Instant) -> None:
        """Another executor has a plan, for as long as it renews its lease."""
        assert instant.lease_expires_at is not None
        until = instant.lease_expires_at.strftime("%H:%M:%S UTC")
        self._line(f"  {_name(instant)}: {instant.writer} has it, under a lease to {until}, which it may renew")

    def left(self, instant: Instant, reason: str) -> None:
        """A plan was left to another executor, or a write won against it."""
        self._ended(instant)
        self._line(f"  {_name(instant)}: not executed here: {reason}")

    def failed(self, failure: Failure) -> None:
        """A table or a plan failed."""
        of_plan = "" if failure.requested_time is None else f" {failure.requested_time}"
        if failure.requested_time is not None:
            self._remove_bar((failure.table, failure.requested_time))
        then = "" if failure.retry_seconds is None else f"; tried again in {failure.retry_seconds:,.0f} s"
        self._line(f"Error: {failure.table}{of_plan}: {failure.error}{then}")

    def _ended(self, instant: Instant) -> None:
        self._remove_bar((instant.table, instant.requested_time))

    def _remove_bar(self, key: tuple[str, str]) -> None:
        bar = self._of_instants.pop(key, None)
        if bar is not None:
            self._bars.remove_task(bar)

    def _line(self, text: str) -> None:
        self._bars.console.print(text, markup=False, soft_wrap=True)


def _files(instant: Instant) -> str:
    if instant.action is Action.CLEAN and instant.plan is not None:
        return f"{output.count(instant.plan.files_to_delete_count, 'file')} deleted, "
    return f"{output.count(instant.summary.files, 'file')} written, " if instant.summary is not None else ""


def _name(instant: Instant) -> str:
    return f"{instant.table} {_SERVICES.get(instant.operation, instant.action)} {instant.requested_time}"


class _Stopping:
    """SIGINT and SIGTERM end the run: plans in execution return to requested. A second signal ends the process.

    So does a server that does not answer: plans cannot return to it, and requests are retried for a minute.
    """

    def __init__(self, console: Console, access: chronolake.ServerAccess) -> None:
        self.asked = threading.Event()
        self.number: int | None = None
        self._console = console
        self._access = access
        self._stack = contextlib.ExitStack()
        self._ended = threading.Event()
        self._told = threading.Event()

    def __enter__(self) -> _Stopping:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._stack.callback(signal.signal, number, signal.signal(number, self._stop))
        return self

    def __exit__(self, *_error: Any) -> None:
        self._ended.set()
        if self.number is not None:
            self._told.wait(_ANSWER_SECONDS)
        self._stack.close()

    def _stop(self, number: int, _frame: object) -> None:
        if self.number is not None:
            self._end_process(number)
        self.number = number
        self.asked.set()
        # The handler may have interrupted a print, and standard error cannot be entered twice.
        threading.Thread(target=self._watch, args=(number,), name="chronolake-stop", daemon=True).start()

    def _watch(self, number: int) -> None:
        """Say what happens, and end the process if the server does not answer while the run ends."""
        self._console.print(
            "Stopping: plans in execution return to the server; once more ends at once", markup=False
        )
        self._told.set()
        with chronolake.connect(self._access, timeout_seconds=_ANSWER_SECONDS, retry_seconds=0) as client:
            while not self._ended.wait(_WATCH_SECONDS):
                try:
                    client.time()
                except ConnectionFailed:
                    if not self._ended.is_set():
                        self._end_process(number)
                except ChronolakeError:
                    pass  # It is an answer.

    def _end_process(self, number: int) -> NoReturn:
        """End without the threads: they may wait for a server, which nothing interrupts."""
        self._console.show_cursor()  # A bar on the terminal hides it.
        sys.stdout.flush()
        os._exit(_SIGNAL_EXIT + number)
