"""One write: an instant from its begin to its completion or rollback, and the lease in between."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from chronolake import _deletions, calls, errors
from chronolake._lease import LeaseRenewal
from chronolake._markers import DirectMarkers, Location
from chronolake._progress import BEST_EFFORT_SECONDS, RECONCILIATIONS_MAX, Progress, together_call
from chronolake._transport import Transport
from chronolake.calls.base import Call
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.instants import Conflict, Instant, StagedWriteStats, TouchedFileGroup
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, file_at
from chronolake_model.times import Moment, digits_of
from chronolake_model.vocabulary import State

_Answer = TypeVar("_Answer")


class Write:
    """An instant in the hands of a writer. Threads may share it.

    As a context manager it renews its lease in the background, completes when the block ends, and rolls back
    when the block raises::

        with table.begin(operation=Operation.UPSERT) as write:
            write.add(stat)

    The execution of a plan that raises goes back to requested, so that the plan can be executed again, unless
    it lost a conflict with what has completed: then no execution of the plan will do, and it is rolled back.

    Outside of one nothing is renewed: call ``heartbeat`` before the lease ends.
    """

    def __init__(self, transport: Transport, instant: Instant, location: Location) -> None:
        self._transport = transport
        self._progress = Progress(instant)
        self._location = location
        self._renewal: LeaseRenewal | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return self.instant.table

    @property
    def requested_time(self) -> str:
        """The instant's requested time, which names it."""
        return self.instant.requested_time

    @property
    def instant(self) -> Instant:
        """The instant as last heard of; ``refresh`` asks again."""
        return self._progress.instant

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        return self._progress.stats

    @property
    def extra_metadata(self) -> dict[str, str]:
        """What the instant is to say of itself when it completes; fill it in."""
        return self._progress.extra_metadata

    @property
    def lost(self) -> errors.RequestRefused | None:
        """Why the renewal stopped: the instant was rolled back, or its table dropped. None while all is well.

        A long-running writer looks here to stop early; ``complete`` raises it.
        """
        return self._renewal.lost if self._renewal else None

    def mark(self, *markers: Marker) -> list[MarkerOutcome]:
        """Say which data files are about to be written, before they are: each of them new, or there already.

        All are created, 10,000 at most, or none. Raises ``InstantRolledBack`` and ``LeaseLive`` (it is no
        longer yours: stop), ``WriteConflict`` when the table detects conflicts early and another has one of the
        file groups in hand, ``IllegalTransition``, ``InvalidMarker``.
        Direct markers are refused by nobody but the storage: ``StorageFailed``. A local folder that is there is
        claimed for the table first, see ``Table.claim_storage``; ``StorageFailed`` when it is another table's.
        """
        if self._progress.has_direct_markers:
            return self._direct_markers().create(markers)
        self._location.claim_if_present()
        return self._transport.send(self._progress.mark_call(markers)).outcomes

    def left_over(self, write_stats: Iterable[WriteStat] = ()) -> list[DeletedFile]:
        """The files that were marked and not added: what failed or repeated attempts of tasks may have left.

        ``complete`` deletes them. ``write_stats`` are those that it will be given. Of a rollback these are the
        files that are still to be deleted of the instant that it undoes, and of a clean those of its plan.
        """
        if self._progress.is_planned_clean:
            done = self._transport.pages(self._progress.deletions_call())
            planned = self._transport.pages(self._progress.planned_files_call())
            return self._progress.without_reported(
                (path for page in planned for path in page.files), (one for page in done for one in page.files)
            )
        of = self._progress.marked_by
        direct = self._location.direct_markers(of).marked() if self._progress.has_direct_markers else ()
        pages = self._transport.pages(self._progress.markers_call())
        marked = itertools.chain(direct, (one for page in pages for one in page.markers))
        return self._progress.without_stats(marked, write_stats)

    def report_deletions(self, files: Iterable[DeletedFile]) -> int:
        """Say that ``files`` are not in storage any more: how many were recorded.

        Raises ``InvalidDeletion`` when one was never marked, or is published, ``InstantRolledBack``,
        ``LeaseLive``, ``IllegalTransition``.
        """
        return sum(self._command(call).files for call in self._progress.deletion_calls(files))

    def add(self, stat: WriteStat) -> None:
        """Remember a written file, to be published by ``complete``."""
        self._progress.add(stat)

    def replace(self, file_group: FileGroupName) -> None:
        """Remember a file group that is to disappear: with a replacecommit, or a clustering."""
        self._progress.replace(file_group)

    def clean_before(self, completion_time: Moment) -> None:
        """Remember what a clean did: files that left the latest slices by this completion time may be gone.

        Once it completes, reads as of earlier times are refused, but for what savepoints pin.
        """
        self._progress.cleaned_before = digits_of(completion_time)

    def with_schema(self, schema_version: int) -> None:
        """Remember the version of the schema that the files are written with.

        Unless it is said, they are of the one that the table had when the instant was begun.
        """
        self._progress.schema_version = schema_version

    def inflight(self) -> Instant:
        """Go from requested to inflight. Raises ``IllegalTransition``, ``InstantRolledBack``."""
        return self._progress.learn(self._command(self._progress.inflight_call()))

    def complete(
        self,
        write_stats: Iterable[WriteStat] = (),
        extra_metadata: Mapping[str, str] | None = None,
        *,
        replaced_file_groups: Iterable[FileGroupName] = (),
        schema_version: int | None = None,
    ) -> Instant:
        """Publish the files that were added and ``write_stats``, all at once.

        The file groups given to ``replace``, and ``replaced_file_groups``, disappear in the same moment.
        Thousands of files are reported part by part before, so that other writers of the table hardly wait.
        What was marked and is not published, see ``left_over``, is deleted from storage first, and so is what
        the plan of a rollback names; ``StorageFailed`` when that fails: nothing is published.
        ``schema_version`` is that of the schema which the files were written with, as in ``with_schema``.
        Raises ``WriteConflict`` (another instant wrote the same file groups first: roll back, write anew),
        ``UnreconciledMarkers`` (files are marked again and again, by tasks that still run),
        ``InstantRolledBack`` and ``LeaseLive`` (it is no longer yours: stop),
        ``IllegalTransition``, ``InvalidWriteStat``, ``InvalidPlan``. After ``ConnectionFailed``
        or ``ServerUnavailable`` the outcome is not known: the same call once more gets it, for it is sent
        under the same idempotency key.
        """
        if self.lost is not None:
            raise self.lost
        stats = list(write_stats)
        self._prepare()
        staged = [self._stage(call) for call in self._progress.staging_calls(stats)]
        call = self._progress.complete_call(stats, extra_metadata, replaced_file_groups, schema_version, staged)
        done = self._progress.learn(_reconciled(lambda: self._command(call), lambda: self._delete_left(stats)))
        self._forget_direct_markers()
        return done

    def conflicts(self, file_groups: Iterable[TouchedFileGroup] | None = None) -> Conflict | None:
        """The conflict that completing would lose as things stand; None when there is none. Changes nothing.

        It asks for ``file_groups``, or for what was added and replaced so far. No promise: others go on.
        """
        touched = self._progress.touched() if file_groups is None else list(file_groups)
        if not touched:
            return None
        return self._transport.send(self._progress.conflicts_call(touched)).conflict

    def rollback(self, reason: str = "") -> Instant:
        """Give the instant up: nothing that it wrote will be seen.

        The files that it has marked are deleted from storage, unless the table's property
        ``deletions.executor`` leaves that to the server. Raises ``IllegalTransition`` when it has completed: it
        stays published, keep its files; and ``StorageFailed`` when files could not be deleted: it is rolled
        back, and the rollback waits for ``Table.finish_rollbacks``.
        """
        return self._rollback(reason, retry_seconds=None, execute=self._location.executes)

    def return_to_requested(self, reason: str = "") -> Instant:
        """Give up executing the plan, and keep it for whoever executes it next.

        Raises ``IllegalTransition`` for an ordinary write, which is rolled back instead.
        """
        return self._return_to_requested(reason, retry_seconds=None)

    def heartbeat(self, lease_seconds: int | None = None) -> Instant:
        """Renew the lease from now on, for ``lease_seconds`` or for as long as before.

        Raises ``InstantRolledBack`` when somebody gave the instant up after the lease had ended.
        """
        return self._progress.learn(self._transport.send(self._progress.heartbeat_call(lease_seconds)))

    def refresh(self) -> Instant:
        """Ask how the instant stands now."""
        return self._progress.learn(self._transport.send(self._progress.refresh_call()))

    def __enter__(self) -> Self:
        self._renewal = LeaseRenewal(
            self._renew, lease_seconds=self.instant.lease_seconds, name=self.requested_time
        )
        self._renewal.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._give_up(exc)
        elif not self._progress.is_settled():
            self._finish()
        self._stop_renewal()

    def _finish(self) -> None:
        """Complete; what the server refuses is rolled back, for nobody will mend it any more.

        The lease is renewed meanwhile: publishing many files, or waiting for a server that restarts, may take
        longer than what is left of it. When the outcome is unknown, nothing is rolled back.
        """
        try:
            self.complete()
        except (errors.RequestRefused, errors.StorageFailed) as refused:
            self._give_up(refused)
            raise
        finally:
            self._stop_renewal()

    def _give_up(self, exc: BaseException) -> None:
        """Give up because of ``exc``, which is never hidden: what goes wrong here becomes its note."""
        self._stop_renewal()
        if self._progress.is_gone(exc, self.lost):
            return
        reason = f"{type(exc).__name__}: {exc}"
        try:
            if self._progress.keeps_plan_after(exc):
                self._return_to_requested(reason, retry_seconds=BEST_EFFORT_SECONDS)
                return
            # Whoever interrupts the program wants it to end, and not to delete files first.
            execute = self._location.executes and isinstance(exc, Exception)
            self._rollback(reason, retry_seconds=BEST_EFFORT_SECONDS, execute=execute)
        except errors.ChronolakeError as failure:
            self._progress.note_on(exc, failure)

    def _stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()

    def _renew(self) -> None:
        # One try: the renewal's own loop decides when to try again.
        self._progress.learn(self._transport.send(self._progress.heartbeat_call(None), retry_seconds=0))

    def _rollback(self, reason: str, *, retry_seconds: float | None, execute: bool) -> Instant:
        call = self._progress.rollback_call(reason, execute=execute)
        answer = self._command(call, retry_seconds=retry_seconds)
        self._progress.given_up_here = True
        self._progress.learn(answer)
        if execute:
            finish_rollback(self._transport, self._location, answer, self._progress.writer)
        return answer

    def _prepare(self) -> None:
        """Claim the folder; delete what a plan names; hand markers in storage over to the server."""
        self._location.claim_if_present()
        if self._progress.is_planned_clean:
            self._delete_left()
        elif self._progress.is_rollback:
            planned = self._transport.pages(self._progress.planned_files_call())
            self._delete([file_at(path) for page in planned for path in page.files])
            if self._progress.goes_by_markers:
                self._delete_left()
        elif self._progress.has_direct_markers:
            for call in self._progress.hand_over_calls(self._direct_markers().listed()):
                self._transport.send(call)

    def _delete_left(self, write_stats: Iterable[WriteStat] = ()) -> None:
        self._delete(self.left_over(write_stats))

    def _delete(self, files: Sequence[DeletedFile]) -> None:
        """Delete files from storage, and report them, part by part. Raises ``StorageFailed``."""
        failures: list[str] = []
        for part in _deletions.parts(files):
            deleted = self._location.delete(self._progress.deleting, part)
            self.report_deletions(self._progress.to_report(deleted.gone))
            failures += deleted.failures
        _deletions.refuse(failures, len(files))

    def _forget_direct_markers(self) -> None:
        """Delete the markers in storage; those that stay are looked at by nobody."""
        if self._progress.has_direct_markers and self._progress.goes_by_markers:
            with contextlib.suppress(errors.StorageFailed):
                self._direct_markers().delete_all()

    def _direct_markers(self) -> DirectMarkers:
        return self._location.direct_markers(self._progress.marked_by)

    def _return_to_requested(self, reason: str, *, retry_seconds: float | None) -> Instant:
        answer = self._command(self._progress.return_call(reason), retry_seconds=retry_seconds)
        self._progress.given_up_here = True
        return self._progress.learn(answer)

    def _stage(self, call: Call[StagedWriteStats]) -> int:
        version = self._progress.staged_under(call)
        if version is not None:
            return version
        return self._progress.has_staged(call, self._command(call).version)

    def _command(self, call: Call[_Answer], *, retry_seconds: float | None = None) -> _Answer:
        key = self._progress.key_of(call)
        try:
            answer = self._transport.send(call, key=key, retry_seconds=retry_seconds)
        except errors.RequestRefused:
            self._progress.answered(call)
            raise
        self._progress.answered(call)
        return answer


def complete_together(writes: Sequence[Write]) -> list[Instant]:
    """Publish what was added to each write, all of them or none; see ``Client.complete_together``."""
    if not writes:
        return []
    first = writes[0]
    for write in writes:
        if write.lost is not None:
            raise write.lost
    # The key is kept with the first write: the same writes once more are the same command.
    for write in writes:
        write._prepare()
    call = together_call([write._progress for write in writes])
    answer = _reconciled(lambda: first._command(call), lambda: _delete_left_of(writes))
    for write in writes:
        write._forget_direct_markers()
    return [write._progress.learn(instant) for write, instant in zip(writes, answer.instants, strict=True)]


def _delete_left_of(writes: Sequence[Write]) -> None:
    for write in writes:
        write._delete_left()


def finish_clean(transport: Transport, location: Location, clean: Instant) -> Instant:
    """Delete the files of a clean's plan, and complete it. Raises ``StorageFailed``: then it waits."""
    return _executed(Write(transport, clean, location))


def finish_rollback(transport: Transport, location: Location, undone: Instant, writer: str) -> bool:
    """Delete the files of an instant that was given up, and complete its rollback: whether it was ours to do.

    It is when the rollback is inflight in the name of ``writer``. Raises ``StorageFailed``: then it waits.
    """
    if undone.rolled_back_by is None:
        return False
    instant = transport.send(calls.instants.get(undone.table, undone.rolled_back_by))
    if instant.state is not State.INFLIGHT or instant.writer != writer:
        return False
    _executed(Write(transport, instant, location))
    return True


def _executed(plan: Write) -> Instant:
    """A plan that deletes files, once they are deleted and it has completed, by whomever."""
    try:
        with plan:
            pass
    except errors.IllegalTransition:
        # Another in this writer's name was faster.
        if plan.refresh().state is not State.COMPLETED:
            raise
    return plan.instant


def _reconciled(complete: Callable[[], _Answer], delete_left: Callable[[], object]) -> _Answer:
    """What ``complete`` answers, once what is left over is deleted; looked for when it is refused."""
    for _ in range(RECONCILIATIONS_MAX):
        try:
            return complete()
        except errors.UnreconciledMarkers:
            delete_left()
    return complete()
