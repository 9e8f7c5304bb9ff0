"""The deleter: executes rollbacks and cleans that wait: deletes their files from storage (docs/decisions/0022).

Every replica may have one. One of them at a time looks and takes what it is going to execute, under a lease of
its own; a deleter that dies leaves the rest of the list to whoever takes the plan next.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import Final

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.instants import CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import leader_election, waiting
from chronolake_metastore.store.advisory_locks import AdvisoryLock
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.waiting import WaitingPlan
from chronolake_metastore.workers import doomed
from chronolake_metastore.workers.doomed import NotOfTarget
from chronolake_metastore.workers.looking import again_and_again
from chronolake_metastore.workers.reaching import Reach, TableFiles
from chronolake_metastore.workers.submitting import submit
from chronolake_model import instants as wire, markers as wire_markers
from chronolake_model.markers import DeletedFile
from chronolake_model.times import format_time

AT_ONCE: Final = 4
"""Plans that one look takes on; the rest waits for the next, or for another replica."""

_log = telemetry.logger(__name__)


class Taken(msgspec.Struct, frozen=True):
    """A plan that this deleter executes, and the files that it deletes from."""

    plan: WaitingPlan
    files: TableFiles


class Outcome(msgspec.Struct):
    """What became of the files of a plan; ``failure`` is of the first that could not be deleted."""

    deleted: set[DeletedFile] = msgspec.field(default_factory=set)
    failed: int = 0
    failure: str = ""

    def add(self, page: doomed.Page, failures: dict[str, str]) -> None:
        """Take in what became of a page of files."""
        self.deleted.update(one for one in page if one.path not in failures)
        self.failed += len(failures)
        self.failure = self.failure or doomed.first_failure(failures)


class Deleter:
    """The deleter of one server process."""

    def __init__(self, database: Database, sequencer: Sequencer, metrics: Metrics, settings: Settings) -> None:
        self._database = database
        self._sequencer = sequencer
        self._metrics = metrics
        self._interval_seconds = settings.deleter_seconds
        self._lease_seconds = settings.deleter_lease_seconds
        self._reach = Reach(database, settings.storage_endpoints)
        self.writer = f"chronolake-deleter@{socket.gethostname()[:200]}:{os.getpid()}"

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        await again_and_again("deleter", self._look_until_done, self._interval_seconds)

    async def _look_until_done(self) -> None:
        while await self.look():
            pass

    async def look(self) -> int:
        """Execute what waits, if it is this replica's turn to look; gives how many plans it found."""
        async with leader_election.leadership(self._database, AdvisoryLock.DELETER) as ours:
            if ours is None:
                return 0
            found = await waiting.plans(ours, self._reach.paused(), AT_ONCE)
            taken = [one for plan in found if (one := await self._take(plan)) is not None]
        ended = await asyncio.gather(*map(self._execute, taken), return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure
        return len(found)

    async def _take(self, plan: WaitingPlan) -> Taken | None:
        """Take a plan inflight, when its table can be reached and nobody was faster."""
        files = await self._reach.open(plan.place)
        if files is None:
            return None
        request = wire.TakeInflight(writer=self.writer, lease_seconds=self._lease_seconds)
        try:
            await self._submit(TakeInflight(plan.place.table, plan.requested_time, request))
        except (errors.Conflict, errors.NotFound, errors.InstantRolledBack):
            return None
        return Taken(plan, files)

    async def _execute(self, taken: Taken) -> None:
        """Delete the files of a plan while its lease is renewed; another may take it over meanwhile."""
        plan, outcome = taken.plan, Outcome()
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(plan))
                await self._delete_and_settle(taken, outcome)
                renewing.cancel()
        except* errors.TimelineError as group:
            # Another has it by now, or the database is away: then it waits again when its lease has ended.
            outcome.failure = str(group.exceptions[0])
            said = {"table": plan.place.table, "instant": _time(plan)}
            _log.warning(f"{plan.action} left as it is", **said, reason=outcome.failure)
        if not outcome.failure:
            await self._forget(taken, outcome)

    async def _renew(self, plan: WaitingPlan) -> None:
        request = wire.Heartbeat(writer=self.writer)
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            await self._submit(RenewLease(plan.place.table, plan.requested_time, request))

    async def _delete_and_settle(self, taken: Taken, outcome: Outcome) -> None:
        began, plan = time.monotonic(), taken.plan
        try:
            async for page in doomed.of(self._database, plan, taken.files):
                outcome.add(page, await self._delete(taken, page))
        except (NotOfTarget, errors.ConfigurationError) as exc:
            outcome.failure = str(exc)
        said = {"table": plan.place.table, "instant": _time(plan), "deleted": len(outcome.deleted)}
        if outcome.failure:
            await self._give_back(plan, outcome)
            seconds = self._reach.pause(plan.place)
            _log.warning(
                f"{plan.action} given back",
                **said,
                failed=outcome.failed,
                reason=outcome.failure,
                pause_seconds=seconds,
            )
            return
        request = wire.CompleteInstant(writer=self.writer)
        await self._submit(CompleteInstant(plan.place.table, plan.requested_time, request))
        self._reach.end_pause(plan.place)
        _log.info(f"{plan.action} executed", **said, seconds=round(time.monotonic() - began, 3))

    async def _forget(self, taken: Taken, outcome: Outcome) -> None:
        """Delete the direct markers of a rollback that has completed; a sweep comes by those that stay."""
        try:
            await doomed.forget(taken.plan, taken.files, outcome.deleted)
        except errors.ConfigurationError as exc:
            _log.warning("direct markers stay", table=taken.plan.place.table, reason=str(exc))

    async def _delete(self, taken: Taken, page: doomed.Page) -> dict[str, str]:
        """Delete a page of files, and report those that are gone; gives why others are not."""
        plan = taken.plan
        deleting = doomed.deleting(plan, self.writer)
        failures = await doomed.delete(taken.files, deleting, page, self._metrics)
        gone = [one for one in page if one.path not in failures]
        if gone:
            report = wire_markers.ReportDeletions(gone, writer=self.writer)
            await self._submit(ReportDeletions(plan.place.table, plan.requested_time, report))
        self._metrics.files_deleted.inc(len(gone))
        return failures

    async def _give_back(self, plan: WaitingPlan, outcome: Outcome) -> None:
        files = "file" if outcome.failed == 1 else "files"
        count = f"{outcome.failed} {files} could not be deleted: " if outcome.failed else ""
        request = wire.ReturnToRequested(writer=self.writer, reason=f"{count}{outcome.failure}"[:4_096])
        await self._submit(ReturnToRequested(plan.place.table, plan.requested_time, request))

    async def _submit(self, command: Command) -> None:
        await submit(self._sequencer, command, "deleter", self.writer)


def _time(plan: WaitingPlan) -> str:
    return format_time(plan.requested_time, plan.place.tick)
