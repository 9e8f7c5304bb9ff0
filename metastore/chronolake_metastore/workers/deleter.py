"""The deleter: executes rollbacks that wait, by deleting their files from storage (docs/decisions/0022).

Every replica may have one. One of them at a time looks and takes what it is going to execute, under a lease of
its own; a deleter that dies leaves the rest of the list to whoever takes the plan next.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors, object_storage, telemetry
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.deletions import ReportDeletions
from chronolake_metastore.domain.instants import CompleteInstant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.object_storage import TableFiles
from chronolake_metastore.sequencer import Sequencer
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import leases, waiting
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.waiting import Place, WaitingPlan
from chronolake_metastore.workers import doomed
from chronolake_metastore.workers.doomed import NotOfTarget
from chronolake_metastore.workers.submitting import submit
from chronolake_model import instants as wire, markers as wire_markers
from chronolake_model.storage import options_of
from chronolake_model.times import format_time

AT_ONCE: Final = 4
"""Plans that one look takes on; the rest waits for the next, or for another replica."""
PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 600.0
CHECK_SECONDS_MAX: Final = 20.0

_log = telemetry.logger(__name__)


class Taken(msgspec.Struct, frozen=True):
    """A plan that this deleter executes, and the files that it deletes from."""

    plan: WaitingPlan
    files: TableFiles


class Outcome(msgspec.Struct):
    """What became of the files of a plan; ``failure`` is of the first that could not be deleted."""

    deleted: int = 0
    failed: int = 0
    failure: str = ""

    def add(self, files: int, failures: dict[str, str]) -> None:
        """Count a page of so many files."""
        self.deleted += files - len(failures)
        self.failed += len(failures)
        if failures and not self.failure:
            path, why = next(iter(failures.items()))
            self.failure = f"{path}: {why}"


class Pauses:
    """Tables that are left alone for a while, each time for twice as long: they cannot be reached from here."""

    def __init__(self) -> None:
        self._until: dict[UUID, tuple[float, float]] = {}

    def paused(self) -> list[UUID]:
        """The tables that are left alone at this moment."""
        now = time.monotonic()
        return [table_id for table_id, (until, _) in self._until.items() if now < until]

    def prolong(self, table_id: UUID) -> float:
        """Leave a table alone for longer than the last time; gives for how many seconds."""
        _, last = self._until.get(table_id, (0.0, 0.0))
        seconds = min(max(last * 2, PAUSE_SECONDS), PAUSE_SECONDS_MAX)
        self._until[table_id] = (time.monotonic() + seconds, seconds)
        return seconds

    def end(self, table_id: UUID) -> None:
        """It can be reached."""
        self._until.pop(table_id, None)


class Deleter:
    """The deleter of one server process."""

    def __init__(self, database: Database, sequencer: Sequencer, metrics: Metrics, settings: Settings) -> None:
        self._database = database
        self._sequencer = sequencer
        self._metrics = metrics
        self._interval_seconds = settings.deleter_seconds
        self._lease_seconds = settings.deleter_lease_seconds
        self._pauses = Pauses()
        self.writer = f"chronolake-deleter@{socket.gethostname()[:200]}:{os.getpid()}"

    async def run(self) -> None:
        """Look again and again, until cancelled. A database that is away is tried again."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                while await self.look():
                    pass
            except errors.Unavailable as exc:
                _log.warning("deleter could not look", reason=exc.context.get("reason", exc.detail))
            except Exception:
                # The edge of a worker: what goes wrong here must not end the server, and the next look may
                # succeed.
                _log.exception("deleter failed")

    async def look(self) -> int:
        """Execute what waits, if it is this replica's turn to look; gives how many plans it found."""
        async with leases.turn(self._database, leases.DELETER) as ours:
            if ours is None:
                return 0
            found = await waiting.rollbacks(ours, self._pauses.paused(), AT_ONCE)
            taken = [one for plan in found if (one := await self._take(plan)) is not None]
        ended = await asyncio.gather(*map(self._execute, taken), return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure
        return len(found)

    async def _take(self, plan: WaitingPlan) -> Taken | None:
        """Take a plan inflight, when its table can be reached and nobody was faster."""
        try:
            files = await self._reach(plan.place)
        except errors.ConfigurationError as exc:
            seconds = self._pauses.prolong(plan.place.table_id)
            _log.warning(
                "table cannot be reached", table=plan.place.table, reason=str(exc), pause_seconds=seconds
            )
            return None
        request = wire.TakeInflight(writer=self.writer, lease_seconds=self._lease_seconds)
        try:
            await self._submit(TakeInflight(plan.place.table, plan.requested_time, request))
        except (errors.Conflict, errors.NotFound, errors.InstantRolledBack):
            return None
        return Taken(plan, files)

    async def _reach(self, place: Place) -> TableFiles:
        """The files of a table, once it is known that they can be reached; raises ``ConfigurationError``."""
        files = object_storage.open_table(place.base_path, options_of(place.properties))
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                await files.check()
        except TimeoutError as exc:
            raise errors.ConfigurationError(f"{place.base_path} does not answer") from exc
        return files

    async def _execute(self, taken: Taken) -> None:
        """Delete the files of a plan while its lease is renewed; another may take it over meanwhile."""
        plan = taken.plan
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(plan))
                await self._delete_and_settle(taken)
                renewing.cancel()
        except* errors.TimelineError as group:
            # Another has it by now, or the database is away: then it waits again when its lease has ended.
            _log.warning(
                "rollback left as it is",
                table=plan.place.table,
                instant=_time(plan),
                reason=str(group.exceptions[0]),
            )

    async def _renew(self, plan: WaitingPlan) -> None:
        request = wire.Heartbeat(writer=self.writer)
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            await self._submit(RenewLease(plan.place.table, plan.requested_time, request))

    async def _delete_and_settle(self, taken: Taken) -> None:
        began = time.monotonic()
        plan, outcome = taken.plan, Outcome()
        try:
            async for page in doomed.of(self._database, plan):
                outcome.add(len(page), await self._delete(taken, page))
        except NotOfTarget as exc:
            outcome.failure = str(exc)
        self._metrics.deletions_failed.inc(outcome.failed)
        said = {"table": plan.place.table, "instant": _time(plan), "deleted": outcome.deleted}
        if outcome.failure:
            await self._give_back(plan, outcome)
            seconds = self._pauses.prolong(plan.place.table_id)
            _log.warning(
                "rollback given back",
                **said,
                failed=outcome.failed,
                reason=outcome.failure,
                pause_seconds=seconds,
            )
            return
        request = wire.CompleteInstant(writer=self.writer)
        await self._submit(CompleteInstant(plan.place.table, plan.requested_time, request))
        self._pauses.end(plan.place.table_id)
        _log.info("rollback executed", **said, seconds=round(time.monotonic() - began, 3))

    async def _delete(self, taken: Taken, page: doomed.Page) -> dict[str, str]:
        """Delete a page of files, and report those that are gone; gives why others are not."""
        failures = await taken.files.delete_all([one.path for one in page])
        gone = [one for one in page if one.path not in failures]
        if gone and doomed.is_reported(taken.plan.plan):
            report = wire_markers.ReportDeletions(gone, writer=self.writer)
            await self._submit(ReportDeletions(taken.plan.place.table, taken.plan.requested_time, report))
        self._metrics.files_deleted.inc(len(gone))
        return failures

    async def _give_back(self, plan: WaitingPlan, outcome: Outcome) -> None:
        count = f"{outcome.failed} files could not be deleted: " if outcome.failed else ""
        request = wire.ReturnToRequested(writer=self.writer, reason=f"{count}{outcome.failure}"[:4_096])
        await self._submit(ReturnToRequested(plan.place.table, plan.requested_time, request))

    async def _submit(self, command: Command) -> None:
        await submit(self._sequencer, command, "deleter", self.writer)


def _time(plan: WaitingPlan) -> str:
    return format_time(plan.requested_time, plan.place.tick)
