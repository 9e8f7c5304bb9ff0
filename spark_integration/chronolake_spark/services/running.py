"""The loop of ``chronolake services run``: tables that changed are looked at, their plans are executed.

One thread decides; others look at tables, and execute plans. They send it messages. A look finishes rollbacks,
asks the server to plan, and lists the plans that wait for an executor. A table, or a plan, that fails is tried
again later, after longer and longer pauses; the others go on. Any number of processes may run at once: the
lease of a plan has one holder, and ends if its process is killed.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec

import chronolake
from chronolake import errors as client_errors
from chronolake_model.instants import Instant
from chronolake_model.markers import EXECUTOR_PROPERTY, Executor as Deleter
from chronolake_model.vocabulary import Action
from chronolake_spark import errors
from chronolake_spark.services import executing, jobs
from chronolake_spark.services.executing import Check, Report, TasksDone

PARALLEL_DEFAULT: Final = 2
INTERVAL_SECONDS_DEFAULT: Final = 60.0
_LOOKS: Final = 4
"""Tables that are looked at at once."""
_WAIT_SECONDS: Final = 0.2
"""The longest wait for a message, so that the end of the run and due tables are noticed soon."""
_PAUSE_SECONDS: Final = 1.0
"""The least time between two looks at a table, however often it changes."""
_RETRY_SECONDS: Final = 5.0
_RETRY_SECONDS_MAX: Final = 300.0
_NO_NEWS: Final = ("InstantInflight", "LeaseRenewed", "WriteStatsStaged")


class RunOptions(msgspec.Struct, frozen=True):
    """Options of ``run``: the tables by their names, all unless given; the tasks at once; when it ends.

    With ``once`` it ends when nothing is left to do. ``interval_seconds`` is the time after which a table is
    looked at again, though nothing has changed it: policies by time ask for that. ``plans`` if it asks the
    server for new plans.
    """

    tables: tuple[str, ...] = ()
    once: bool = False
    parallel: int = PARALLEL_DEFAULT
    interval_seconds: float = INTERVAL_SECONDS_DEFAULT
    plans: bool = True


class Failure(msgspec.Struct, frozen=True):
    """A table whose look failed, or a plan whose execution failed; ``retry_seconds`` is None if it is not tried
    again."""

    table: str
    requested_time: str | None
    error: str
    retry_seconds: float | None


class TableRun(msgspec.Struct, frozen=True):
    """The instants of one table that were completed, and its failures."""

    table: str
    completed: int
    failures: int


class RunResult(msgspec.Struct, frozen=True):
    """The number of instants that were completed, and of failures; ``tables`` are those that had any."""

    completed: int
    failures: int
    tables: tuple[TableRun, ...] = ()


class Reporter(Protocol):
    """Gets the news of a run, one after the other. ``TasksDone`` comes from the threads of executions."""

    def taken(self, instant: Instant) -> None:
        """A plan is about to be executed."""

    def progress(self, done: TasksDone) -> None:
        """A task of a plan is done."""

    def completed(self, instant: Instant) -> None:
        """A plan was executed."""

    def held(self, instant: Instant) -> None:
        """Another executor has a plan, for as long as it renews its lease."""

    def left(self, instant: Instant, reason: str) -> None:
        """A plan was left to another executor, or a write won against it."""

    def failed(self, failure: Failure) -> None:
        """A table or a plan failed."""


class Silent:
    """A ``Reporter`` that reports nothing."""

    def taken(self, instant: Instant) -> None: ...
    def progress(self, done: TasksDone) -> None: ...
    def completed(self, instant: Instant) -> None: ...
    def held(self, instant: Instant) -> None: ...
    def left(self, instant: Instant, reason: str) -> None: ...
    def failed(self, failure: Failure) -> None: ...


class Execute(Protocol):
    """An engine: it executes a plan, as ``executing.execute`` does."""

    def __call__(
        self,
        table: chronolake.Table,
        requested_time: str,
        *,
        workers: Executor | None,
        report: Report,
        check: Check,
    ) -> Instant: ...


def run(
    client: chronolake.Client,
    options: RunOptions = RunOptions(),  # noqa: B008  # frozen
    *,
    reporter: Reporter | None = None,
    stopping: threading.Event | None = None,
    execute: Execute = executing.execute,
) -> RunResult:
    """Run table services, until ``stopping`` is set, or with ``once`` until nothing is left to do.

    Plans in execution return to requested when it is stopped. Raises the errors of the client if the server
    cannot be reached at the beginning, and ``TableNotFound`` for the name of a table.
    """
    # The end of the log comes first: what changes afterwards is news.
    cursor = None if options.once else client.end_of_log()
    tables = [client.table(name) for name in options.tables] or list(client.tables())
    stopping = stopping or threading.Event()
    with (
        # An execution holds one of them, so that looks go on meanwhile.
        ThreadPoolExecutor(options.parallel + _LOOKS, "chronolake-look") as looks,
        ThreadPoolExecutor(options.parallel, "chronolake-task") as workers,
    ):
        loop = _Loop(_Work(client, options, reporter or Silent(), stopping, execute, workers), looks)
        if cursor is not None:
            loop.follow(cursor)
        return loop.run(tables)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A table has changed."""

    name: str
    table_id: str


@dataclass(frozen=True, slots=True)
class _Looked:
    """The plans of a table that wait for an executor, and those that one has, or the error of the look.

    No table: it is dropped.
    """

    table_id: str
    table: chronolake.Table | None
    waiting: Sequence[Instant] = ()
    held: Sequence[Instant] = ()
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Executed:
    """The end of an execution, by completion or by an error."""

    table: chronolake.Table
    plan: Instant
    instant: Instant | None = None
    failure: Exception | None = None


_Message: TypeAlias = "_Changed | _Looked | _Executed"
_Key: TypeAlias = "tuple[str, str | None]"
"""The id of a table, and the requested time of one of its plans; None for the looks at it."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of the threads: they look at tables, and execute plans."""

    client: chronolake.Client
    options: RunOptions
    reporter: Reporter
    stopping: threading.Event
    execute: Execute
    workers: Executor

    def look(self, table_id: str, table: chronolake.Table | str) -> _Looked:
        """Finish the rollbacks of a table, plan its services, and list the plans that wait."""
        try:
            if isinstance(table, str):
                table = self.client.table(table)
            table = table.reload()
            # A table is found by its name, which another one may have by now: that one has events of its own.
            is_same = table.definition.table_id == table_id
            return self._looked(table) if is_same else _Looked(table_id, None)
        except client_errors.TableNotFound:
            return _Looked(table_id, None)
        except Exception as failure:  # The edge of this thread: other tables go on.
            known = None if isinstance(table, str) else table
            return _Looked(table_id, known, failure=failure)

    def _looked(self, table: chronolake.Table) -> _Looked:
        failure: Exception | None = None
        properties = table.definition.properties
        deletes = Deleter(properties.get(EXECUTOR_PROPERTY, Deleter.CLIENT)) is Deleter.CLIENT
        if deletes:
            try:
                table.finish_rollbacks()
            except client_errors.StorageFailed as failed:
                failure = failed  # Other file groups are compacted nevertheless.
        # A request to plan is recorded in the log, also if it plans nothing.
        if self.options.plans and table.services.preview().is_due:
            table.services.plan()
        actions = (*jobs.SERVICES, *((Action.CLEAN,) if deletes else ()))
        waiting, held = executing.waiting(table, actions), executing.held(table, actions)
        return _Looked(table.definition.table_id, table, waiting, held, failure)

    def executed(self, table: chronolake.Table, plan: Instant) -> _Executed:
        """Execute a plan."""
        try:
            return _Executed(table, plan, self._execute(table, plan))
        except Exception as failure:  # As above.
            return _Executed(table, plan, failure=failure)

    def _execute(self, table: chronolake.Table, plan: Instant) -> Instant:
        if plan.action is Action.CLEAN:
            with table.execute(plan.requested_time) as write:
                pass
            return write.refresh()
        return self.execute(
            table,
            plan.requested_time,
            workers=self.workers,
            report=self.reporter.progress,
            check=self._check,
        )

    def _check(self) -> None:
        if self.stopping.is_set():
            raise errors.ServiceStopped("the process that executes table services is stopped")


class _Loop:
    """Decides what is done next. All but ``follow`` runs in one thread."""

    def __init__(self, work: _Work, looks: Executor) -> None:
        self._work = work
        self._options = work.options
        self._threads = looks
        self._messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._tables: dict[str, chronolake.Table | str] = {}
        self._due: dict[str, float] = {}
        self._looking: set[str] = set()
        self._changed: set[str] = set()
        self._waiting: dict[_Key, tuple[chronolake.Table, Instant]] = {}
        self._executing: set[_Key] = set()
        self._blocked: dict[_Key, _Blocked] = {}
        self._reported: dict[str, set[_Key]] = {}
        """By table, the plans of other executors that were reported."""
        self._completed: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def follow(self, cursor: str) -> None:
        """Take the events after a cursor as news, in a thread of its own."""
        threading.Thread(target=self._follow, args=(cursor,), name="chronolake-events", daemon=True).start()

    def run(self, tables: Iterable[chronolake.Table]) -> RunResult:
        """Look at the tables, and go on until it is stopped or has nothing to do."""
        for table in tables:
            self._tables[table.definition.table_id] = table
            self._due[table.definition.table_id] = time.monotonic()
        while not self._work.stopping.is_set() and not self._is_done():
            self._begin()
            self._take_messages()
        self._due.clear()
        self._waiting.clear()
        while self._looking or self._executing:
            self._take_messages()
        names = sorted(self._completed | self._failures)
        runs = tuple(TableRun(name, self._completed[name], self._failures[name]) for name in names)
        return RunResult(self._completed.total(), self._failures.total(), runs)

    def _is_done(self) -> bool:
        is_idle = not (self._due or self._looking or self._waiting or self._executing)
        return self._options.once and is_idle

    def _begin(self) -> None:
        now = time.monotonic()
        for table_id in [table_id for table_id, at in self._due.items() if at <= now]:
            if len(self._looking) >= _LOOKS:
                break
            if table_id not in self._looking:
                del self._due[table_id]
                self._looking.add(table_id)
                self._start(self._work.look, table_id, self._tables[table_id])
        while self._waiting and len(self._executing) < self._options.parallel:
            key = next(iter(self._waiting))
            table, plan = self._waiting.pop(key)
            self._executing.add(key)
            self._work.reporter.taken(plan)
            self._start(self._work.executed, table, plan)

    def _start(self, work: Callable[..., _Message], *arguments: object) -> None:
        self._threads.submit(lambda: self._messages.put(work(*arguments)))

    def _take_messages(self) -> None:
        """Wait for a message, but no longer than until something may be due."""
        with contextlib.suppress(queue.Empty):
            message = self._messages.get(timeout=_WAIT_SECONDS)
            while True:
                self._take(message)
                message = self._messages.get_nowait()

    def _take(self, message: _Message) -> None:
        match message:
            case _Changed():
                self._take_changed(message)
            case _Looked():
                self._take_looked(message)
            case _Executed():
                self._take_executed(message)
            case _:
                assert_never(message)

    def _take_changed(self, changed: _Changed) -> None:
        table_id = changed.table_id
        if table_id not in self._tables:
            if self._options.tables and changed.name not in self._options.tables:
                return
            self._tables[table_id] = changed.name
        if table_id in self._looking:
            self._changed.add(table_id)
        else:
            self._look_at(table_id, _PAUSE_SECONDS)

    def _take_looked(self, looked: _Looked) -> None:
        self._looking.discard(looked.table_id)
        if looked.table is None and looked.failure is None:
            for known in (self._tables, self._due):
                known.pop(looked.table_id, None)
            return
        if looked.table is not None:
            self._tables[looked.table_id] = looked.table
            for plan in looked.waiting:
                self._add_waiting(looked.table, plan)
            self._report_held(looked.table_id, looked.held)
        key = (looked.table_id, None)
        if looked.failure is not None:
            name = looked.table.name if looked.table is not None else str(self._tables[looked.table_id])
            self._block(key, name, looked.failure)
        else:
            self._blocked.pop(key, None)
        if not self._options.once:
            self._look_at(looked.table_id, self._options.interval_seconds)
        if looked.table_id in self._changed:
            self._changed.discard(looked.table_id)
            self._look_at(looked.table_id, _PAUSE_SECONDS)

    def _add_waiting(self, table: chronolake.Table, plan: Instant) -> None:
        key = (table.definition.table_id, plan.requested_time)
        if key in self._executing:
            return
        blocked, now = self._blocked.get(key), time.monotonic()
        if blocked is None or blocked.until <= now:
            self._waiting[key] = (table, plan)
        else:
            # The look that this one has replaced may have been that at the end of the pause.
            self._look_at(key[0], blocked.until - now)

    def _report_held(self, table_id: str, held: Sequence[Instant]) -> None:
        """Report the plans of other executors, each once."""
        plans = {(table_id, plan.requested_time): plan for plan in held}
        before = self._reported.get(table_id, set())
        for key, plan in plans.items():
            if key not in before and key not in self._executing:
                self._work.reporter.held(plan)
        self._reported[table_id] = set(plans)

    def _take_executed(self, executed: _Executed) -> None:
        table_id = executed.table.definition.table_id
        key = (table_id, executed.plan.requested_time)
        self._executing.discard(key)
        if executed.instant is not None:
            self._completed[executed.table.name] += 1
            self._blocked.pop(key, None)
            self._work.reporter.completed(executed.instant)
        elif isinstance(executed.failure, executing.OF_OTHERS):
            self._blocked[key] = self._later(key)
            # The advice of the error is for writers.
            undone = executed.failure.context.get("reason")
            reason = f"it was rolled back: {undone}" if undone else str(executed.failure)
            self._work.reporter.left(executed.plan, reason)
        elif executed.failure is not None and not isinstance(executed.failure, errors.ServiceStopped):
            self._block(key, executed.table.name, executed.failure)
            return
        # Its place may be planned again, or the plan was bounded.
        self._look_at(table_id, _PAUSE_SECONDS)

    def _block(self, key: _Key, name: str, failure: Exception) -> None:
        """Try a table or a plan again later, and the longer it fails, the later."""
        self._failures[name] += 1
        self._blocked[key] = blocked = self._later(key)
        seconds = None if self._options.once else blocked.seconds
        if seconds is not None:
            self._look_at(key[0], seconds)
        self._work.reporter.failed(Failure(name, key[1], executing.message_of(failure), seconds))

    def _later(self, key: _Key) -> _Blocked:
        before = self._blocked.get(key)
        seconds = _RETRY_SECONDS if before is None else min(2 * before.seconds, _RETRY_SECONDS_MAX)
        # With ``once`` nothing is tried twice.
        until = float("inf") if self._options.once else time.monotonic() + seconds
        return _Blocked(seconds, until)

    def _look_at(self, table_id: str, after_seconds: float) -> None:
        at = time.monotonic() + after_seconds
        failed = self._blocked.get((table_id, None))
        at = at if failed is None else max(at, failed.until)
        if at < float("inf"):
            self._due[table_id] = min(at, self._due.get(table_id, at))

    def _follow(self, cursor: str) -> None:
        while not self._work.stopping.is_set():
            try:
                for event in self._work.client.follow(cursor):
                    cursor = event.cursor
                    if event.table is not None and event.type not in _NO_NEWS:
                        self._messages.put(_Changed(event.table, event.table_id))
            except Exception as failure:  # The edge of this thread, which has no other work.
                if not self._work.stopping.wait(_RETRY_SECONDS):
                    lost = Failure("the feed of events", None, executing.message_of(failure), _RETRY_SECONDS)
                    self._work.reporter.failed(lost)


@dataclass(frozen=True, slots=True)
class _Blocked:
    """A failure: when it is tried again, and the pause before that."""

    seconds: float
    until: float
