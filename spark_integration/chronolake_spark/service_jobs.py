"""The execution of one plan of a table service as a Spark job.

The job has a task for each file group of a compaction or a log compaction, and for each output group of a
clustering. A task runs ``services.tasks`` on an executor. The driver takes the plan, and completes it with the
write stats of the attempts that succeeded; the files of other attempts are deleted before.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Final

import msgspec
from pyspark import TaskContext
from pyspark.sql import SparkSession

import chronolake
from chronolake import ServerAccess
from chronolake.errors import ChronolakeError
from chronolake_model import decoding
from chronolake_model.files import WriteStat
from chronolake_model.instants import Instant
from chronolake_model.markers import has_direct_markers
from chronolake_model.names import counted
from chronolake_spark.driver import progress, sessions, spark_failures
from chronolake_spark.services import executing, jobs, tasks as service_tasks
from chronolake_spark.services.executing import Check, Report
from chronolake_spark.services.jobs import ServiceJob, ServiceTask
from chronolake_spark.services.running import Execute
from chronolake_spark.write import data_source, writes

_RETRY_SECONDS: Final = 60.0
_CHECK_SECONDS: Final = 0.5


def execute(
    spark: SparkSession,
    table: chronolake.Table,
    requested_time: str,
    *,
    report: Report = lambda _: None,
    check: Check = lambda: None,
) -> Instant:
    """Execute a requested plan, and give its instant, completed.

    ``check`` raises an error to stop: then the job is cancelled. Raises what ``services.execute`` raises, and
    ``SparkJobFailed``. After a failure the plan is requested again.
    """
    with executing.taken(table, requested_time) as write:
        job, tasks = jobs.job_of(table, write.instant)
        progress.step(f"{requested_time}, {counted(len(tasks), 'task')}")
        if not has_direct_markers(job.table, job.markers):
            progress.begins_files(lambda: table.markers(requested_time))
        report(executing.tasks_done(write.instant, tasks, []))

        def checked() -> None:
            check()
            if write.lost is not None:
                raise write.lost

        with _cancelled_by(spark, checked):
            executing.complete(table, write, _run(spark, table.access, job, tasks))
        report(executing.tasks_done(write.instant, tasks, tasks))
    return write.refresh()


@contextlib.contextmanager
def engine() -> Iterator[Execute]:
    """The engine ``spark`` of ``services.run``: in the session that runs, or in one of its own."""
    with sessions.borrowed(contextlib.nullcontext) as spark, progress.shown_by_caller():

        def run(
            table: chronolake.Table,
            requested_time: str,
            *,
            workers: Executor | None,
            report: Report,
            check: Check,
        ) -> Instant:
            with progress.described(spark, f"table services {table.name}"):
                return execute(spark, table, requested_time, report=report, check=check)

        yield run


@contextlib.contextmanager
def _cancelled_by(spark: SparkSession, check: Check) -> Iterator[None]:
    """A block whose Spark jobs are cancelled if ``check`` raises an error, which the block then raises."""
    context, tag = spark.sparkContext, f"chronolake-{uuid.uuid4().hex}"
    ended = threading.Event()
    reasons: list[ChronolakeError] = []

    def watch() -> None:
        while not ended.wait(_CHECK_SECONDS):
            try:
                check()
            except ChronolakeError as reason:
                reasons.append(reason)
                # Repeated, because a job may be about to start.
                with contextlib.suppress(*spark_failures.JVM_GONE):
                    context.cancelJobsWithTag(tag)

    watcher = threading.Thread(target=watch, name="chronolake-service-check", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    except Exception as failure:
        if reasons:
            raise reasons[0] from failure
        raise
    finally:
        ended.set()
        watcher.join()
        context.removeJobTag(tag)


def _run(
    spark: SparkSession, access: ServerAccess, job: ServiceJob, tasks: Sequence[ServiceTask]
) -> list[WriteStat]:
    """The write stats of all tasks, of the attempts that succeeded."""
    if not tasks:
        return []
    largest_first = sorted(tasks, key=lambda task: task.size_bytes, reverse=True)
    texts = [task.to_json() for task in largest_first]
    run = _TaskRunner(access, job.to_json(), job.storage_options)
    try:
        encoded = spark.sparkContext.parallelize(texts, len(texts)).map(run).collect()
    except spark_failures.EXCEPTIONS as exc:
        raise writes.typed(exc) from exc
    return [stat for stats in encoded for stat in decoding.decode(stats, list[WriteStat])]


class _TaskRunner:
    """The function that executors call with the text of each task; its result are write stats as JSON."""

    def __init__(self, access: ServerAccess, job: str, storage_options: dict[str, str]) -> None:
        self._access = access
        self._job = job
        self._storage_options = storage_options

    def __call__(self, task: str) -> bytes:
        data_source.exempt_imports_from_gc()
        job = jobs.job_from_json(self._job, self._storage_options)
        context = TaskContext.get()
        assert context is not None, "a task of Spark calls it"
        try:
            with chronolake.connect(
                self._access, retry_seconds=_RETRY_SECONDS, storage_options=self._storage_options
            ) as client:
                markers = job.marker_store(client.table_of(job.table))
                attempt = context.taskAttemptId()
                stats = service_tasks.run(job, jobs.task_from_json(task), markers, attempt)
        except ChronolakeError as error:
            raise data_source.encoded_error(error) from error
        return msgspec.json.encode(stats)
