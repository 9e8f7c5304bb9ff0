"""The deleter: executes waiting rollbacks and cleans: deletes their files from storage (docs/decisions/0020).

Every replica may have one. The leader takes the plans that it executes, under a lease of its own. If a deleter
dies, the next executor of the plan deletes the files that are left.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import Final

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.instants import CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.store import pending_plans
from chronolake_metastore.store.pending_plans import PendingPlan
from chronolake_metastore.store.postgres import advisory_locks
from chronolake_metastore.workers import files_to_delete
from chronolake_metastore.workers.files_to_delete import FileDeleter, NotOfTarget, Page
from chronolake_metastore.workers.table_storage import TableFiles, TableStorage
from chronolake_metastore.workers.worker import Resources, Worker, run_periodically, submit
from chronolake_model.times import format_time
from chronolake_storage import deletions
from chronolake_storage.deletions import DeletionResult, Source

NAME: Final = "deleter"
AT_ONCE: Final = 4
"""Maximum number of plans executed per run; others wait for the next run, or for another replica."""

_log = telemetry.logger(__name__)


class LeasedPlan(msgspec.Struct, frozen=True):
    """A plan that this deleter executes, and the storage of its table."""

    plan: PendingPlan
    files: TableFiles


class Execution(msgspec.Struct):
    """How far the execution of a plan has come; ``failure`` says why it failed."""

    result: DeletionResult = msgspec.field(default_factory=DeletionResult)
    failure: str = ""


class Deleter:
    """The deleter of one server process."""

    def __init__(self, resources: Resources) -> None:
        settings = resources.settings
        self._database = resources.database
        self._service = resources.service
        self._metrics = resources.metrics
        self._interval_seconds = settings.deleter_seconds
        self._lease_seconds = settings.deleter_lease_seconds
        self._storage = TableStorage(resources.database, settings.storage_endpoints)
        self.writer = f"chronolake-deleter@{socket.gethostname()[:200]}:{os.getpid()}"

    async def run(self) -> None:
        """Look periodically, until cancelled."""
        await run_periodically(NAME, self._execute_all, self._interval_seconds, self._metrics)

    async def _execute_all(self) -> None:
        while await self.execute_plans():
            pass

    async def execute_plans(self) -> int:
        """Execute waiting plans, if this replica is the leader; gives how many plans waited."""
        async with advisory_locks.leadership(self._database, NAME) as ours:
            if ours is None:
                return 0
            plans = await pending_plans.page(ours, self._storage.tables_in_backoff(), AT_ONCE)
            taken = [taken for plan in plans if (taken := await self._take(plan)) is not None]
        ended = await asyncio.gather(*map(self._execute, taken), return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure
        return len(plans)

    async def _take(self, plan: PendingPlan) -> LeasedPlan | None:
        """Take a plan inflight, if its storage can be accessed and no other executor has taken it."""
        files = await self._storage.open(plan.place)
        if files is None:
            return None
        take = TakeInflight(plan.place.table, plan.requested_time, self.writer, self._lease_seconds)
        try:
            await self._submit(take)
        except (errors.Conflict, errors.NotFound, errors.InstantRolledBack):
            return None
        return LeasedPlan(plan, files)

    async def _execute(self, taken: LeasedPlan) -> None:
        """Delete the files of a plan while its lease is renewed; another replica may take it over meanwhile."""
        plan, execution = taken.plan, Execution()
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(plan))
                await self._delete_and_settle(taken, execution)
                renewing.cancel()
        except* errors.TimelineError as group:
            # Another replica has it, or the database is unavailable: it is executed again after its lease.
            execution.failure = str(group.exceptions[0])
            _log.warning(
                f"{plan.action} left as it is",
                table=plan.place.table,
                instant=_time(plan),
                reason=execution.failure,
            )
        if not execution.failure and Source.DIRECT_MARKERS in files_to_delete.sources_of(plan):
            await self._delete_markers(taken, execution.result)

    async def _renew(self, plan: PendingPlan) -> None:
        renew = RenewLease(plan.place.table, plan.requested_time, writer=self.writer)
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            await self._submit(renew)

    async def _delete_and_settle(self, taken: LeasedPlan, execution: Execution) -> None:
        began, plan, result = time.monotonic(), taken.plan, execution.result
        try:
            await self._delete(taken, result)
            execution.failure = result.first_failure
        except (NotOfTarget, errors.ConfigurationError) as exc:
            execution.failure = str(exc)
        log_context = {"table": plan.place.table, "instant": _time(plan), "deleted": len(result.deleted)}
        if execution.failure:
            await self._return_to_requested(plan, execution)
            seconds = self._storage.back_off(plan.place)
            _log.warning(
                f"{plan.action} given back",
                **log_context,
                failed=len(result.failures),
                reason=execution.failure,
                pause_seconds=seconds,
            )
            return
        await self._submit(CompleteInstant(plan.place.table, plan.requested_time, writer=self.writer))
        self._storage.end_backoff(plan.place.table_id)
        _log.info(f"{plan.action} executed", **log_context, seconds=round(time.monotonic() - began, 3))

    async def _delete(self, taken: LeasedPlan, result: DeletionResult) -> None:
        """Delete and report the files of a plan, page by page."""
        plan = taken.plan

        async def report(files: Page) -> None:
            deleted = ReportDeletions(plan.place.table, plan.requested_time, list(files), self.writer)
            await self._submit(deleted)
            self._metrics.files_deleted.inc(len(files))

        deleter = FileDeleter(
            plan.place.table,
            taken.files,
            files_to_delete.deleting(plan, self.writer),
            pages=files_to_delete.pages_of(self._database, plan, taken.files),
            report=report,
            marked_by=files_to_delete.target_of(plan),
            metrics=self._metrics,
        )
        await deleter.run(deletions.delete_files(files_to_delete.sources_of(plan), result))

    async def _delete_markers(self, taken: LeasedPlan, result: DeletionResult) -> None:
        """Delete the direct markers of a rollback that has completed; a sweep deletes those that stay."""
        plan = taken.plan
        target = files_to_delete.target_of(plan)
        try:
            await files_to_delete.delete_markers(taken.files, plan.place.table, target, result.deleted.keys())
        except errors.ConfigurationError as exc:
            _log.warning("direct markers stay", table=plan.place.table, reason=str(exc))

    async def _return_to_requested(self, plan: PendingPlan, execution: Execution) -> None:
        failed = len(execution.result.failures)
        count = f"{failed} {'file' if failed == 1 else 'files'} could not be deleted: " if failed else ""
        reason = f"{count}{execution.failure}"[:4_096]
        await self._submit(ReturnToRequested(plan.place.table, plan.requested_time, self.writer, reason))

    async def _submit(self, command: Command) -> None:
        await submit(self._service, command, NAME, self.writer)


def _time(plan: PendingPlan) -> str:
    return format_time(plan.requested_time, plan.place.tick)


WORKER: Final = Worker(
    name=NAME,
    does="executes pending rollbacks and cleans: deletes their files",
    run=lambda resources: Deleter(resources).run(),
    setting="deleter_seconds",
    has_leader=True,
)
