"""The execution of one plan by this process: take it, run its tasks in threads, complete it.

If the execution fails or its process is killed, the plan returns to requested, and its files are deleted by the
next execution. A plan that lost a conflict is rolled back by the client.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed, wait
from typing import Final

import msgspec

import chronolake
from chronolake import errors as client_errors
from chronolake_model import decoding
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import ConflictingInstant, Instant
from chronolake_model.publication import PUBLISHER_PROPERTY, Publisher
from chronolake_model.vocabulary import Action, State
from chronolake_spark import errors
from chronolake_spark.services import jobs, tasks as service_tasks
from chronolake_spark.services.jobs import ServiceJob, ServiceTask


class TasksDone(msgspec.Struct, frozen=True):
    """The progress of an execution: tasks, and the bytes of the files that they have read."""

    instant: Instant
    tasks: int
    tasks_done: int
    size_bytes: int
    size_bytes_done: int


OF_OTHERS: Final = (
    client_errors.IllegalTransition,
    client_errors.InstantRolledBack,
    client_errors.LeaseLive,
    client_errors.WriteConflict,
)
"""Another executor was faster, or a write won."""
Report = Callable[[TasksDone], None]
Check = Callable[[], None]


def compact(table: chronolake.Table, requested_time: str, *, workers: Executor | None = None) -> Instant:
    """Execute the plan of a compaction; see ``execute``."""
    return _execute_only(Action.COMPACTION, table, requested_time, workers)


def log_compact(table: chronolake.Table, requested_time: str, *, workers: Executor | None = None) -> Instant:
    """Execute the plan of a log compaction; see ``execute``."""
    return _execute_only(Action.LOGCOMPACTION, table, requested_time, workers)


def cluster(table: chronolake.Table, requested_time: str, *, workers: Executor | None = None) -> Instant:
    """Execute the plan of a clustering; see ``execute``."""
    return _execute_only(Action.CLUSTERING, table, requested_time, workers)


def execute(
    table: chronolake.Table,
    requested_time: str,
    *,
    workers: Executor | None = None,
    report: Report = lambda _: None,
    check: Check = lambda: None,
    lease_seconds: int | None = None,
) -> Instant:
    """Execute a requested plan of a table service, and give its instant, completed.

    ``workers`` run its tasks; without them one thread does. Each task holds in memory a row group, and the log
    files of a file group or the rows of a sort. ``check`` raises an error to stop; it is called between row
    groups. Raises ``IllegalTransition`` and ``LeaseLive`` if another executor has the plan, ``WriteConflict``
    and ``InstantRolledBack`` if a write won against it, the errors of ``tasks.run``, and ``TableMismatch``.
    """
    with contextlib.ExitStack() as stack:
        if workers is None:
            workers = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="chronolake-service"))
        with taken(table, requested_time, lease_seconds=lease_seconds) as write:
            job, tasks = jobs.job_of(table, write.instant)

            def checked() -> None:
                check()
                if write.lost is not None:
                    raise write.lost

            def done(finished: Sequence[ServiceTask]) -> None:
                report(tasks_done(write.instant, tasks, finished))

            complete(table, write, _run_tasks(job, tasks, table, workers, checked, done))
        return write.refresh()


def waiting(table: chronolake.Table, actions: Sequence[Action]) -> list[Instant]:
    """The plans that wait for an executor."""
    requested = table.instants(state=State.REQUESTED, action=actions)
    # A resize that is requested has the lease of its writer, who executes it.
    return [instant for instant in requested if instant.lease_expires_at is None]


def held(table: chronolake.Table, actions: Sequence[Action]) -> list[Instant]:
    """The plans that an executor has under a lease."""
    inflight = table.instants(state=State.INFLIGHT, action=actions)
    return [instant for instant in inflight if instant.lease_expires_at is not None]


def message_of(failure: Exception) -> str:
    """The failure in one line; that of a bug or of a library has the name of its class."""
    text = str(failure)
    return text if isinstance(failure, client_errors.ChronolakeError) else f"{type(failure).__name__}: {text}"


@contextlib.contextmanager
def taken(
    table: chronolake.Table, requested_time: str, *, lease_seconds: int | None = None
) -> Iterator[chronolake.Write]:
    """A plan under a lease, which is renewed in the background; the block completes it."""
    _publish_plan(table)
    table.claim_storage()
    with table.execute(requested_time, lease_seconds=lease_seconds) as write:
        yield write


def complete(table: chronolake.Table, write: chronolake.Write, stats: Sequence[WriteStat]) -> None:
    """Complete a plan with the files of all its tasks.

    A clustering replaces the file groups of its plan. A compaction leaves out the file groups in which a write
    has completed a base file meanwhile: their files are deleted. Raises ``WriteConflict`` if none is left.
    """
    if write.instant.action is Action.CLUSTERING:
        write.complete(stats, replaced_file_groups=jobs.planned_groups(table, write.instant))
        return
    while True:
        try:
            write.complete(stats)
        except client_errors.WriteConflict as conflict:
            lost = decoding.convert(conflict.context, ConflictingInstant).file_groups
            left = [stat for stat in stats if FileGroupName(stat.partition_path, stat.file_id) not in lost]
            if not left or len(left) == len(stats):
                raise
            stats = left
        else:
            return


def _execute_only(
    action: Action, table: chronolake.Table, requested_time: str, workers: Executor | None
) -> Instant:
    planned = table.instant(requested_time)
    if planned.action is not action:
        raise errors.TableMismatch(
            f"the instant {requested_time} of {table.name} is a {planned.action}, not a {action}"
        )
    return execute(table, requested_time, workers=workers)


def _publish_plan(table: chronolake.Table) -> None:
    """Publish the plan for Hudi's readers, if clients publish: a compaction is not taken before."""
    if table.definition.properties.get(PUBLISHER_PROPERTY) == Publisher.CLIENT:
        with contextlib.suppress(client_errors.ChronolakeError):
            table.publish()


def _run_tasks(
    job: ServiceJob,
    tasks: Sequence[ServiceTask],
    table: chronolake.Table,
    workers: Executor,
    check: Check,
    report: Callable[[Sequence[ServiceTask]], None],
) -> list[WriteStat]:
    """The write stats of all tasks. After the first failure the others are stopped, and it is raised."""
    has_failed = threading.Event()

    def checked() -> None:
        if has_failed.is_set():
            raise errors.ServiceStopped("another task of the plan has failed")
        check()

    markers = job.marker_store(table)
    running: dict[Future[list[WriteStat]], ServiceTask] = {
        workers.submit(service_tasks.run, job, task, markers, check=checked): task for task in tasks
    }
    stats: list[WriteStat] = []
    done: list[ServiceTask] = []
    try:
        for future in as_completed(running):
            stats += future.result()
            done.append(running[future])
            report(done)
    except BaseException:
        has_failed.set()
        for future in running:
            future.cancel()
        wait(running)
        raise
    return stats


def tasks_done(instant: Instant, tasks: Sequence[ServiceTask], done: Sequence[ServiceTask]) -> TasksDone:
    """The progress of an execution of ``tasks``."""
    return TasksDone(
        instant,
        len(tasks),
        len(done),
        sum(task.size_bytes for task in tasks),
        sum(task.size_bytes for task in done),
    )
