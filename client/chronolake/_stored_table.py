"""A table's side of its storage: markers, what is to be deleted and who does it, orphans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from chronolake import _arrow, _orphans, _sweeps, calls
from chronolake._markers import Location, Markers, ServerMarkers
from chronolake._needed import Server
from chronolake._reading import Reading, begin_call
from chronolake._timeline import Timeline
from chronolake._transport import Transport, default_writer
from chronolake._write import Write, finish_clean, finish_rollback
from chronolake_model import tables as model
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean
from chronolake_model.deletable import AskDeletable, AskOrphans, Deletable
from chronolake_model.instants import LEASE_SECONDS_DEFAULT, Instant, RollbackInstant
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, MarkersType
from chronolake_model.orphans import Orphans
from chronolake_model.readers import ReaderLease
from chronolake_model.sweeps import Swept
from chronolake_model.times import Moment

if TYPE_CHECKING:
    import pyarrow as pa


class StoredTable:
    """What ``Table`` has of a table in storage."""

    def __init__(
        self,
        transport: Transport,
        definition: model.Table,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._definition = definition
        self._location = Location(definition, storage_options, Server(transport.send, definition))

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    @property
    def storage_options(self) -> dict[str, str]:
        """How the table's storage is reached: what its properties say, and what ``connect`` was told.

        There may be secrets in it.
        """
        return self._location.options

    def write(self, requested_time: str) -> Write:
        """The write of an instant that was begun before, perhaps in another process.

        Its lease is renewed only while it is used as a context manager. Raises ``InstantNotFound``.
        """
        return self._as_write(self.instant(requested_time))

    def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return self._transport.send(calls.instants.get(self.name, requested_time))

    def rollback(
        self,
        requested_time: str,
        reason: str = "",
        *,
        writer: str | None = None,
        files_to_delete: Iterable[str] = (),
        execute: bool | None = None,
    ) -> Instant:
        """Give up an instant of somebody who is gone; ``writer`` is user@host:pid unless given.

        Another than the instant's own writer may do so only when its lease has ended. The rollback is an
        instant of its own, which ``rolled_back_by`` of the answer names. It deletes what the instant has marked
        from storage, or ``files_to_delete`` in place of it: data files of the instant by their names, or
        ``InvalidPlan`` is raised. Without ``execute`` it waits for another who does,
        see ``finish_rollbacks``; the table's property ``deletions.executor`` says which, unless given. Raises
        ``LeaseLive``, ``InstantNotFound``, ``IllegalTransition``; and ``StorageFailed`` when files could not be
        deleted: the instant is rolled back, and its rollback waits.
        """
        execute = self._location.executes if execute is None else execute
        asked = RollbackInstant(writer or default_writer(), reason, list(files_to_delete), execute=execute)
        undone = self._transport.send(calls.instants.rollback(self.name, requested_time, asked))
        if execute:
            finish_rollback(self._transport, self._location, undone, asked.writer)
        return undone

    def finish_rollbacks(self, *, writer: str | None = None) -> list[Instant]:
        """Execute the rollbacks that wait for somebody to do it, or whose executor went silent: those instants.

        Left to others are those that somebody executes. Raises ``StorageFailed``, as ``rollback``.
        """
        asked = RollbackInstant(writer or default_writer())
        done: list[Instant] = []
        for waiting in list(self.timeline.rollbacks().pending()):
            assert waiting.target is not None
            undone = self._transport.send(calls.instants.rollback(self.name, waiting.target, asked))
            if finish_rollback(self._transport, self._location, undone, asked.writer):
                done.append(self.instant(waiting.requested_time))
        return done

    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
        writer: str | None = None,
        execute: bool | None = None,
    ) -> list[Instant]:
        """Delete the files of the past that nobody needs any more: the cleans that did it.

        One policy: what the table held since the last ``retain_commits`` completed writes (10 unless given),
        what was live in the last ``retain_hours``, or the last ``retain_versions`` slices of each file group.
        From its plan on the table is served from a later time on only, see ``definition.cleaned_before``. A
        plan has 10,000 files at most, and one that broke off is gone on with first. Without ``execute`` it
        waits for another who does; the table's property ``deletions.executor`` says which, unless given.
        Raises ``LeaseLive`` when somebody else executes one, and ``StorageFailed`` when files could not be
        deleted: then it waits.
        """
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        execute = self._location.executes if execute is None else execute
        call = calls.cleans.plan(self.name, asked_clean(policy, writer, execute))
        done: list[Instant] = []
        while (clean := self._transport.send(call).clean) is not None:
            if not execute:
                return [clean]
            done.append(finish_clean(self._transport, self._location, clean))
        return done

    def preview_clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
    ) -> CleanPreview:
        """What ``clean`` would delete as things stand, 10,000 files at most. Nothing changes."""
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        return self._transport.send(calls.cleans.preview(self.name, policy))

    def reading(
        self,
        as_of: Moment | None = None,
        *,
        reader: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
    ) -> Reading:
        """Read under a lease, so that no clean takes away what the table held as of a completion time.

        The last completion unless given, or ``earliest``. Use it as a context manager, and the lease is
        renewed::

            with table.reading() as reading:
                table.snapshot(reading.as_of)

        ``reader`` is user@host:pid unless given. Raises ``HistoryCleaned`` when that time is not served.
        """
        return Reading(
            self._transport, self._transport.send(begin_call(self.name, as_of, reader, lease_seconds))
        )

    def readers(self) -> Iterator[ReaderLease]:
        """The leases of readers that have not ended."""
        pages = self._transport.pages(calls.readers.list_all(self.name))
        return (one for page in pages for one in page.readers)

    def create_markers(
        self, requested_time: str, markers: Iterable[Marker], *, writer: str | None = None
    ) -> list[MarkerOutcome]:
        """Create markers of a pending instant, 10,000 at most; see ``Write.mark``.

        For executors that know the instant by its requested time; ``writer`` says in whose name.
        """
        self._location.claim_if_present()
        return self.markers_of(requested_time, writer=writer).create(markers)

    def markers(self, requested_time: str, *, unpublished: bool = False) -> Iterator[Marker]:
        """The markers of an instant, by path, fetched page by page as they are consumed.

        ``unpublished`` leaves out those whose data files the instant has published. Raises ``InstantNotFound``,
        and ``ValueError`` when it is to leave out direct markers: only the server knows what is published.
        """
        return self.markers_of(requested_time).listed(unpublished)

    def has_marker(self, requested_time: str, marker: Marker) -> bool:
        """Whether an instant has this marker. Raises ``InstantNotFound``, ``ValueError``."""
        return self.markers_of(requested_time).check(marker)

    def delete_markers(self, requested_time: str) -> int:
        """Delete the markers of an instant that has completed or was rolled back: how many there were.

        Raises ``IllegalTransition`` while it is pending, or the rollback that deletes what they name; unless
        they are direct.
        """
        return self.markers_of(requested_time).delete_all()

    def markers_of(
        self, requested_time: str, *, markers: MarkersType | None = None, writer: str | None = None
    ) -> Markers:
        """The markers of an instant, to create, list, check and delete: where ``markers`` or the table says.

        Nothing is sent yet. ``writer`` says in whose name they are created.
        """
        if (markers or self._location.markers_type) is MarkersType.DIRECT:
            return self._location.direct_markers(requested_time)
        return ServerMarkers(self._transport, self.name, requested_time, writer)

    def sweep(self, *, grace_seconds: int | None = None) -> Swept:
        """Look once more for files that were deleted, and delete those that are there: what became of each.

        A task that did not hear that its attempt, or its instant, was given up may have finished one late. So
        the names are looked at once more, ``grace_seconds`` after the last deletion of an instant was reported:
        as the property ``deletions.grace-seconds`` says unless given, else 900, and never less than a lease.
        Less is safe where no writer is left. It may be called again; what was found is looked at once more
        after another while. Raises ``StorageFailed`` when the store cannot be asked.
        """
        return _sweeps.sweep(self._transport, self._location, self.name, grace_seconds)

    def deletions(self, requested_time: str) -> Iterator[DeletedFile]:
        """The files of an instant that were reported deleted, by path; of a rollback those of its target.

        A writer that did not hear of its end may finish one of them later. Raises ``InstantNotFound``.
        """
        pages = self._transport.pages(calls.deletions.list_all(self.name, requested_time))
        return (one for page in pages for one in page.files)

    def deletable(
        self, requested_time: str, files: Iterable[DeletedFile], *, writer: str | None = None
    ) -> Deletable:
        """Ask which of up to 10,000 files may not be deleted in the name of an instant, and why: ``refused``.

        All others may. A rollback deletes files of its target, a clean those of its plan, and a write those of
        its own attempts that it does not publish. ``writer`` is who would delete them: without one, nothing of
        a pending instant may be deleted. The answer holds for the moment of the question. Raises
        ``InstantNotFound``, ``BasePathShared``, ``MetastoreMoved``.
        """
        asked = AskDeletable(list(files), writer)
        return self._transport.send(calls.deletions.deletable(self.name, requested_time, asked))

    def deletable_orphans(self, files: Iterable[DeletedFile], *, unknown_instants: bool = False) -> Deletable:
        """Ask which of up to 10,000 files may not be deleted as orphans, and why: ``refused``. All others may.

        With ``unknown_instants`` files of past instants may that the table never had. Raises as ``deletable``.
        """
        asked = AskOrphans(list(files), unknown_instants)
        return self._transport.send(calls.deletions.deletable_orphans(self.name, asked))

    @property
    def timeline(self) -> Timeline:
        """The timeline in Hudi's words: ``timeline.completed().last()``, ``timeline.pending()``, …"""
        return Timeline(self._transport, self.name)

    def published_batches(self) -> pa.RecordBatchReader:
        """Every file that was ever published and is not cleaned, superseded or not, in no order.

        In record batches, see ``snapshot_batches``: ``path``, ``size_bytes``, ``requested_time`` and
        ``completion_time``.
        """
        return _arrow.batches(self._transport, calls.files.published(self.name))

    def orphans(self) -> Orphans:
        """The files in storage that nothing published accounts for, each with the reason; needs pyarrow.

        Storage is listed once, all of it. Files that are written meanwhile are none, or pending. Raises
        ``StorageFailed``.
        """
        return _orphans.find(self, self._location.storage)

    def delete_orphans(self, report: Orphans, *, unknown_instants: bool = False) -> Orphans:
        """Delete those files of ``orphans()`` that can never be published: the report with what became of each.

        They are of instants that were rolled back, or completed without naming them; with ``unknown_instants``
        those too that name an instant which the table never had. Never what is pending, or no data file.
        """
        if report.table != self.name:
            raise ValueError(f"the report is of {report.table}, not of {self.name}")
        return _orphans.delete(report, self._location, unknown_instants=unknown_instants)

    def claim_storage(self) -> None:
        """Claim the base path for this table, unless it is claimed for it already.

        Whoever writes data files without direct markers must call it once before the first file. ``Write.mark``
        and ``Write.complete`` do it for a local folder that is there. Raises ``StorageFailed`` when another
        table, or another metastore, has the claim, or the folder overlaps another table's.
        """
        self._location.claim()

    def _as_write(self, instant: Instant) -> Write:
        return Write(self._transport, instant, self._location)


def asked_clean(policy: CleanPolicy, writer: str | None, execute: bool) -> PlanClean:
    """The request for a clean by a policy."""
    return PlanClean(**msgspec.structs.asdict(policy), writer=writer or default_writer(), execute=execute)
