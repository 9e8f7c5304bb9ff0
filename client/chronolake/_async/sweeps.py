"""Sweeps: late files, which a task wrote again after their deletion was reported, are deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator

from chronolake import calls
from chronolake._async.deletions import AsyncFileDeleter, marked_in_storage, refuse_on_copy
from chronolake._async.transport import AsyncTransport
from chronolake._location import TableLocation
from chronolake._progress import deleting_by
from chronolake_model import operations
from chronolake_model.markers import DeletedFile
from chronolake_model.sweeps import LateFile, RecordSweep, Swept, UnsweptInstant
from chronolake_storage import deletions
from chronolake_storage.deletions import DeletionResult, Files, Source


async def sweep(
    transport: AsyncTransport, location: TableLocation, table: str, grace_seconds: int | None
) -> Swept:
    """The answer of ``AsyncTable.sweep``."""
    pages = await transport.all_pages(calls.files.list_unswept(table, grace_seconds))
    names, late_files = 0, list[LateFile]()
    instants = [instant for page in pages for instant in page.instants]
    if not instants:
        await refuse_on_copy(transport)
    for instant in instants:
        result = await _sweep_instant(transport, location, table, instant)
        names += result.listed
        late_files += [LateFile(file.path, instant.requested_time) for file in result.deleted]
        late_files += [
            LateFile(path, instant.requested_time, reason) for path, reason in result.failures.items()
        ]
    return Swept(table, len(instants), names, late_files)


async def _sweep_instant(
    transport: AsyncTransport, location: TableLocation, table: str, unswept: UnsweptInstant
) -> DeletionResult:
    requested_time, marked_by = unswept.requested_time, unswept.direct_markers_of
    instant = await transport.send(calls.call(operations.timeline.GET_INSTANT, table, requested_time))

    async def record(files: Files) -> None:
        body = RecordSweep(unswept.unswept_since, list(files))
        await transport.send(calls.call(operations.files.RECORD_SWEEP, table, requested_time, body=body))

    async def deleted_before() -> AsyncIterator[list[DeletedFile]]:
        async for page in transport.pages(calls.files.list_deletions(table, requested_time, unpublished=True)):
            yield page.files

    deleter = AsyncFileDeleter(
        location,
        deleting_by(instant),
        pages={
            Source.DELETED: deleted_before(),
            Source.DIRECT_MARKERS: marked_in_storage(location, marked_by or requested_time),
        },
        report=record,
        marked_by=marked_by or requested_time,
    )
    result = DeletionResult()
    await deleter.run(deletions.sweep(result, has_direct_markers=marked_by is not None))
    return result
