"""Drives the protocols of ``chronolake_storage.deletions`` by the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from chronolake._concurrency import awaiting as concurrency
from chronolake._location import Location
from chronolake_model.markers import DeletedFile
from chronolake_storage.deletions import (
    DeleteFiles,
    DeleteMarkers,
    Files,
    FindFiles,
    ListFiles,
    Protocol,
    ReportFiles,
    Source,
    Step,
)
from chronolake_storage.guard import Deleting


class AsyncFileDeleter:
    """Deletes files for one instant.

    ``pages`` lists each source; ``report`` reports files to the server; ``marked_by`` is the instant whose
    direct markers are listed and deleted.
    """

    def __init__(
        self,
        location: Location,
        deleting: Deleting,
        *,
        pages: Mapping[Source, AsyncIterator[Files]],
        report: Callable[[Files], Awaitable[object]],
        marked_by: str,
    ) -> None:
        self._location = location
        self._deleting = deleting
        self._pages = pages
        self._report = report
        self._marked_by = marked_by

    async def run(self, protocol: Protocol) -> None:
        """Perform the steps of a protocol to its end. Raises ``StorageFailed``, and what the server refuses."""
        answer = None
        while True:
            try:
                step = protocol.send(answer)
            except StopIteration:
                return
            answer = await self._perform(step)

    async def _perform(self, step: Step[Any]) -> Any:
        match step:
            case ListFiles(source):
                return await anext(self._pages[source], None)
            case FindFiles(files):
                return await concurrency.run_blocking(self._location.find, files)
            case DeleteFiles(files):
                return await concurrency.run_blocking(self._location.delete, self._deleting, files)
            case ReportFiles(files):
                return await self._report(files)
            case DeleteMarkers(files):
                markers = self._location.stored_markers(self._marked_by)
                return await concurrency.run_blocking(markers.delete_of_files, files)
            case _:
                raise AssertionError(f"there is no step {step}")


async def marked_in_storage(location: Location, requested_time: str) -> AsyncIterator[list[DeletedFile]]:
    """The files with direct markers of an instant, in one page."""
    markers = location.stored_markers(requested_time)
    marked = await concurrency.run_blocking(markers.list_for_deletion)
    yield sorted({DeletedFile(marker.partition_path, marker.file_name) for marker in marked})
