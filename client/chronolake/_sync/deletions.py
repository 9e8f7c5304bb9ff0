# Generated from chronolake/_async/deletions.py by tools/async_to_sync.py: do not edit.
"""The client's executor of the protocols in ``chronolake_storage.deletions``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from chronolake import calls, errors
from chronolake._concurrency import blocking as concurrency
from chronolake._location import TableLocation
from chronolake._sync.transport import Transport
from chronolake_model.markers import DeletedFile
from chronolake_storage.deletions import Files, Source
from chronolake_storage.guard import Deleting
from chronolake_storage.protocols import Protocol


class FileDeleter:
    """Deletes files for one instant.

    ``pages`` lists the files of each source; ``report`` reports files to the server; ``marked_by`` is the
    requested time of the instant whose direct markers are deleted.
    """

    def __init__(
        self,
        location: TableLocation,
        deleting: Deleting,
        *,
        pages: Mapping[Source, Iterator[Files]],
        report: Callable[[Files], object],
        marked_by: str,
    ) -> None:
        self._location = location
        self._deleting = deleting
        self._pages = pages
        self._report = report
        self._marked_by = marked_by

    def run(self, protocol: Protocol) -> None:
        """Perform all steps of a protocol. Raises ``StorageFailed``, and ``RequestRefused`` of the server."""
        concurrency.run_protocol(protocol, self)

    def list_files(self, source: Source) -> Files | None:
        """As ``Executor.list_files``."""
        return next(self._pages[source], None)

    def find_files(self, files: Files) -> Files:
        """As ``Executor.find_files``."""
        return concurrency.run_blocking(self._location.find, files)

    def delete_files(self, files: Files) -> Mapping[str, str]:
        """As ``Executor.delete_files``."""
        return concurrency.run_blocking(self._location.delete, self._deleting, files)

    def report_files(self, files: Files) -> None:
        """As ``Executor.report_files``."""
        self._report(files)

    def delete_markers(self, files: Iterable[DeletedFile]) -> None:
        """As ``Executor.delete_markers``."""
        markers = self._location.stored_markers(self._marked_by)
        concurrency.run_blocking(markers.delete_of_files, files)


def marked_in_storage(location: TableLocation, requested_time: str) -> Iterator[list[DeletedFile]]:
    """The files with direct markers of an instant, in one page."""
    markers = location.stored_markers(requested_time)
    marked = concurrency.run_blocking(markers.list_for_deletion)
    yield sorted({DeletedFile(marker.partition_path, marker.file_name) for marker in marked})


def refuse_on_copy(transport: Transport) -> None:
    """Raise ``MetastoreMoved`` if the server only reads: what it lists to be deleted is not what there is.

    For an executor that has nothing to delete, and so sends no command that is refused.
    """
    try:
        transport.send(calls.catalog.ready(), retry_seconds=0)
    except errors.MetastoreMoved:
        raise
    except errors.ChronolakeError:
        # It has answered the list, so it is no fault of this executor; a proxy may not pass this path on.
        return
