"""Sweeps: files that were deleted are looked for once more, when whoever wrote them must have stopped."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake import calls
from chronolake._markers import Location
from chronolake._needed import in_thread
from chronolake._progress import deleting_by
from chronolake._transport import AsyncTransport, Transport
from chronolake_model.instants import Instant
from chronolake_model.markers import DELETIONS_MAX, DeletedFile, Marker
from chronolake_model.sweeps import LateFile, RecordSweep, Swept, UnsweptInstant


class _Found:
    """What is known of one instant so far."""

    def __init__(self, due: UnsweptInstant, instant: Instant, location: Location) -> None:
        self._due = due
        self._deleting = deleting_by(instant)
        self._location = location
        self._marked: list[Marker] = []
        self.names = 0
        self.late: list[LateFile] = []

    def look(self, files: Sequence[DeletedFile]) -> list[DeletedFile]:
        """Delete those that are there: which are gone now, and are to be recorded."""
        self.names += len(files)
        sizes = self._location.present.sizes(one.path for one in files)
        return self.delete([file for file, size in zip(files, sizes, strict=True) if size is not None])

    def look_at_markers(self) -> list[DeletedFile]:
        """Delete what was marked in storage since, there or not: its names are known from now on."""
        if self._due.direct_markers_of is None:
            return []
        self._marked = self._location.direct_markers(self._due.direct_markers_of).marked()
        files = sorted({DeletedFile(one.partition_path, one.file_name) for one in self._marked})
        self.names += len(files)
        return self.delete(files)

    def forget_markers(self) -> None:
        """Delete the markers that were looked at, of files that are recorded and gone."""
        left = {one.path for one in self.late if one.failure is not None}
        gone = [one for one in self._marked if one.path not in left]
        if gone:
            assert self._due.direct_markers_of is not None
            self._location.direct_markers(self._due.direct_markers_of).delete(gone)

    def delete(self, there: Sequence[DeletedFile]) -> list[DeletedFile]:
        """Delete files: which are gone now."""
        if not there:
            return []
        done = self._location.delete(self._deleting, there)
        self.late += [LateFile(one.path, self._due.requested_time) for one in done.gone]
        self.late += [LateFile(path, self._due.requested_time, why) for path, why in done.failed.items()]
        return done.gone

    def record(self, gone: Sequence[DeletedFile] = ()) -> RecordSweep:
        """What the server is told."""
        return RecordSweep(self._due.unswept_since, list(gone))


def _swept(table: str, found: Sequence[_Found]) -> Swept:
    late = [one for each in found for one in each.late]
    return Swept(table, len(found), sum(each.names for each in found), late)


def sweep(transport: Transport, location: Location, table: str, grace_seconds: int | None) -> Swept:
    """What ``Table.sweep`` answers."""
    due = [
        one
        for page in transport.pages(calls.sweeps.list_unswept(table, grace_seconds))
        for one in page.instants
    ]
    return _swept(table, [_sweep_one(transport, location, table, one) for one in due])


def _sweep_one(transport: Transport, location: Location, table: str, due: UnsweptInstant) -> _Found:
    found = _Found(due, transport.send(calls.instants.get(table, due.requested_time)), location)
    for page in transport.pages(calls.deletions.list_all(table, due.requested_time, unpublished=True)):
        if gone := found.look(page.files):
            transport.send(calls.sweeps.record(table, due.requested_time, found.record(gone)))
    marked = found.look_at_markers()
    for first in range(0, len(marked), DELETIONS_MAX):
        record = found.record(marked[first : first + DELETIONS_MAX])
        transport.send(calls.sweeps.record(table, due.requested_time, record))
    found.forget_markers()
    if not found.late:
        transport.send(calls.sweeps.record(table, due.requested_time, found.record()))
    return found


async def sweep_async(
    transport: AsyncTransport, location: Location, table: str, grace_seconds: int | None
) -> Swept:
    """What ``AsyncTable.sweep`` answers; storage is reached by threads."""
    pages = transport.pages(calls.sweeps.list_unswept(table, grace_seconds))
    due = [one async for page in pages for one in page.instants]
    return _swept(table, [await _sweep_one_async(transport, location, table, one) for one in due])


async def _sweep_one_async(
    transport: AsyncTransport, location: Location, table: str, due: UnsweptInstant
) -> _Found:
    instant = await transport.send(calls.instants.get(table, due.requested_time))
    found = _Found(due, instant, location)
    async for page in transport.pages(calls.deletions.list_all(table, due.requested_time, unpublished=True)):
        if gone := await in_thread(found.look, page.files):
            await transport.send(calls.sweeps.record(table, due.requested_time, found.record(gone)))
    marked = await in_thread(found.look_at_markers)
    for first in range(0, len(marked), DELETIONS_MAX):
        record = found.record(marked[first : first + DELETIONS_MAX])
        await transport.send(calls.sweeps.record(table, due.requested_time, record))
    await in_thread(found.forget_markers)
    if not found.late:
        await transport.send(calls.sweeps.record(table, due.requested_time, found.record()))
    return found
