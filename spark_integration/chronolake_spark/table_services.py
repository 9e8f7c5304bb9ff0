"""Table services of a Spark session: the server plans a round, and each plan is executed as a Spark job.

Plans of one round run side by side: a clustering has a task for each output group, which is a plan of its own.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

import chronolake
from chronolake.writing import choices
from chronolake.writing.choices import ServicesSwitch
from chronolake_model import service_properties as names
from chronolake_model.file_sizes import BYTES_MAX
from chronolake_model.instants import Instant
from chronolake_model.markers import EXECUTOR_PROPERTY, Executor
from chronolake_model.names import listed
from chronolake_model.services import HeldService
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Action, HeldReason, State, TableService
from chronolake_spark import errors, service_jobs
from chronolake_spark.driver import progress
from chronolake_spark.index import record_locating
from chronolake_spark.services import executing
from chronolake_spark.write import rollbacks

Layout: TypeAlias = Literal["linear", "zorder", "hilbert"]
"""How several columns order the records."""
_PARALLEL: Final = 16
"""Plans that are executed at once. Each renews its lease in a thread of the driver."""
_INLINE: Final[Mapping[str, Sequence[TableService]]] = {
    names.COMPACTION_INLINE: (TableService.COMPACTION, TableService.LOG_COMPACTION, TableService.CLEAN),
    names.CLUSTERING_INLINE: (TableService.CLUSTERING, TableService.CLEAN),
}
"""The services that a write runs if a property of the table is true."""
_LOG = logging.getLogger("chronolake.spark")


class LeftPlan(msgspec.Struct, frozen=True):
    """A plan that was not executed here: another executor has it, or a write has won against it."""

    instant: Instant
    reason: str


class ServicesExecuted(msgspec.Struct, frozen=True):
    """The instants that were completed, what was not planned and why, and the plans that were left.

    If nothing had to be done, there are no ``instants``.
    """

    table: str
    instants: list[Instant]
    held: list[HeldService]
    left: list[LeftPlan] = []


class ServicedTable:
    """The table services of a table."""

    def __init__(self, spark: SparkSession, client: chronolake.Client, table: chronolake.Table) -> None:
        self._spark = spark
        self._client = client
        self._table = table

    def compact(self) -> ServicesExecuted:
        """Merge the log files of all file groups into base files, whether their compaction is due or not.

        Its policy bounds a round: call it again if ``held`` has the reason ``bounded``. File groups in pending
        plans that no executor has are compacted too. Each file group is a task of Spark. No writer waits.
        """
        return self._run("compact", [TableService.COMPACTION])

    def log_compact(self) -> ServicesExecuted:
        """Merge the log files of each file group that has two or more into one log file.

        It writes less than ``compact``, and is otherwise as that.
        """
        return self._run("log-compact", [TableService.LOG_COMPACTION], {names.LOG_BLOCKS_THRESHOLD: "2"})

    def cluster(self, sort_columns: Sequence[str] = (), *, layout: Layout | None = None) -> ServicesExecuted:
        """Rewrite small files of each partition into larger ones, by the policy of the table.

        With ``sort_columns`` files of any size are rewritten unless they have this order, so that filters on
        these columns read fewer row groups: ``linear`` sorts by one column after the other, ``zorder`` and
        ``hilbert`` let each of them count. A plan that a write cancels is in ``left``. A round has a bound, as
        in ``compact``. Tables with a bucket index are not clustered. Raises ``SchemaMismatch``, ``ValueError``.
        """
        columns = listed(sort_columns)
        return self._run("cluster", [TableService.CLUSTERING], _details(self._table.reload(), columns, layout))

    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
    ) -> ServicesExecuted:
        """Delete files that are not live any more, by the policy of the table or the one that is given.

        One number may be given: see ``chronolake.Table.clean``. The driver deletes the files, or the server, if
        the table's property ``deletions.executor`` says so.
        """
        if retain_commits is retain_hours is retain_versions is None:
            return self._run("clean", [TableService.CLEAN])
        with progress.described(self._spark, f"clean {self._table.name}"):
            cleans = self._table.clean(
                retain_commits=retain_commits, retain_hours=retain_hours, retain_versions=retain_versions
            )
        kept = HeldService(TableService.CLEAN, HeldReason.NOTHING_TO_DO, "the policy keeps all files")
        left = [LeftPlan(clean, _SERVER_DELETES) for clean in cleans if clean.state is not State.COMPLETED]
        completed = [clean for clean in cleans if clean.state is State.COMPLETED]
        return ServicesExecuted(self._table.name, completed, [] if cleans else [kept], left)

    def _run(
        self, verb: str, services: Sequence[TableService], details: Mapping[str, str] | None = None
    ) -> ServicesExecuted:
        with progress.described(self._spark, f"{verb} {self._table.name}"):
            return _run_round(self._spark, self._table, services, force=True, details=details)

    def _serve_after_write(self, switch: ServicesSwitch | None) -> None:
        """Run the services that are due after a write, which is complete: a failure is a warning."""
        services = _services_after_write(self._table.definition.properties, switch)
        if not services:
            return
        name = self._table.name
        try:
            with progress.described(self._spark, f"table services {name}"):
                _run_round(self._spark, self._table, services)
        except Exception as failure:  # The write is complete: no error may say that it failed.
            _LOG.warning(
                "%s: the write is complete, but a table service after it failed: %s. The next write tries it "
                "again. Until then `chronolake services status %s` shows its plan, and SparkTable.%s() and "
                "`chronolake services run` execute it",
                name,
                executing.message_of(failure),
                name,
                "compact" if TableService.COMPACTION in services else "cluster",
            )


_SERVER_DELETES: Final = f"the server deletes its files, by the property {EXECUTOR_PROPERTY}"


def _run_round(
    spark: SparkSession,
    table: chronolake.Table,
    services: Sequence[TableService],
    *,
    force: bool = False,
    details: Mapping[str, str] | None = None,
) -> ServicesExecuted:
    """Plan services, and execute their plans, also those of earlier rounds that no executor has.

    After a failure the other plans are executed nevertheless. Then the first failure is raised.
    """
    definition = table.reload().definition
    rollbacks.finish(table)
    planned = table.services.plan(services, force=force, details=details)
    actions = [service.action for service in services]
    instants, left = _execute(spark, table, executing.waiting(table, actions))
    if instants:
        record_locating.follow(spark, table)
    return ServicesExecuted(definition.name, instants, planned.held, left)


def _execute(
    spark: SparkSession, table: chronolake.Table, plans: Sequence[Instant]
) -> tuple[list[Instant], list[LeftPlan]]:
    deletes = table.definition.properties.get(EXECUTOR_PROPERTY, Executor.CLIENT) == Executor.CLIENT
    left = [LeftPlan(plan, _SERVER_DELETES) for plan in plans if plan.action is Action.CLEAN and not deletes]
    own = [plan for plan in plans if plan.action is not Action.CLEAN or deletes]
    instants: list[Instant] = []
    failures: list[BaseException] = []
    interrupted = threading.Event()

    def check() -> None:
        if interrupted.is_set():
            raise errors.ServiceStopped("the caller was interrupted")

    with ThreadPoolExecutor(_PARALLEL, "chronolake-services") as threads:
        running = [
            threads.submit(_in_thread(spark, functools.partial(_executed, spark, table, plan, check)))
            for plan in own
        ]
        try:
            for plan, future in zip(own, running, strict=True):
                failure = future.exception()
                if failure is None:
                    instants.append(future.result())
                elif isinstance(failure, executing.OF_OTHERS):
                    left.append(LeftPlan(plan, str(failure)))
                else:
                    failures.append(failure)
        except BaseException:
            interrupted.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    if failures:
        raise failures[0]
    return instants, left


def _executed(spark: SparkSession, table: chronolake.Table, plan: Instant, check: executing.Check) -> Instant:
    if plan.action is Action.CLEAN:
        with table.execute(plan.requested_time) as write:
            pass
        return write.refresh()
    return service_jobs.execute(spark, table, plan.requested_time, check=check)


def _in_thread(spark: SparkSession, function: Callable[[], Instant]) -> Callable[[], Instant]:
    """The function for another thread, whose Spark jobs have the description and the tags of this one."""
    run: Callable[..., Any] = contextvars.copy_context().run
    inherited: Callable[[], Instant] = inheritable_thread_target(spark)(functools.partial(run, function))
    return inherited


def _services_after_write(
    properties: Mapping[str, str], switch: ServicesSwitch | None
) -> Sequence[TableService]:
    """The services that a write may run: all by its option, or those that properties of the table name."""
    match switch:
        case "on":
            return list(TableService)
        case "off":
            return []
        case None:
            on = [name for name in _INLINE if names.value_of(properties, name) == "true"]
            wanted = {service for name in on for service in _INLINE[name]}
            return [service for service in TableService if service in wanted]


def _details(table: chronolake.Table, sort_columns: Sequence[str], layout: Layout | None) -> dict[str, str]:
    if layout is not None:
        choices.word("layout", layout, get_args(Layout))
    if not sort_columns:
        if layout is not None:
            raise ValueError(f"the layout {layout} needs sort_columns")
        return {}
    _refuse_unknown(table.definition, sort_columns)
    return {
        names.CLUSTERING_SORT_COLUMNS: ",".join(sort_columns),
        names.CLUSTERING_LAYOUT: layout or names.LAYOUTS[0],
        names.CLUSTERING_SMALL_FILE_LIMIT: str(BYTES_MAX),
    }


def _refuse_unknown(table: Table, sort_columns: Sequence[str]) -> None:
    columns = [field.name for field in table.schema]
    if unknown := [name for name in sort_columns if name not in columns]:
        raise errors.SchemaMismatch(
            f"{table.name} has no column {unknown[0]!r} to sort by; it has {', '.join(columns)}",
            {"columns": unknown},
        )
