"""The markers of one instant: with the server, or direct in the table's storage; one interface to both.

Direct ones are Hudi's: an empty object each, ``<base path>/.hoodie/.temp/<requested time>/<marker's name>``.
They are for writers whose executors cannot reach the server. So nobody tells such a writer that its instant was
rolled back, and there is no early conflict detection.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from chronolake import _calls, _deletions, errors
from chronolake._deletions import Deleted
from chronolake._transport import Transport
from chronolake.storage import METADATA_FOLDER, Storage, open_storage
from chronolake_model import problems
from chronolake_model.markers import (
    EXECUTOR_PROPERTY,
    TYPE_PROPERTY,
    CreateMarkers,
    DeletedFile,
    Executor,
    Marker,
    MarkerOutcome,
    MarkersType,
    check_marker,
    parse_marker,
)
from chronolake_model.problems import ProblemCode
from chronolake_model.storage import options_of
from chronolake_model.tables import Table
from chronolake_model.times import parse_time

MARKERS_FOLDER: Final = f"{METADATA_FOLDER}/.temp"
"""Below the base path; in it a folder for each instant."""


class Markers(Protocol):
    """The markers of one instant."""

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """Create them, durably: each new, or there already. Raises ``InvalidMarker``, and creates none."""

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """All of them, by partition path, file name and kind; see ``Table.markers`` for ``unpublished``."""

    def check(self, marker: Marker) -> bool:
        """Whether there is this one. Raises ``ValueError`` for what cannot be a marker."""

    def delete_all(self) -> int:
        """Delete them all: how many there were. It may be called again."""


class ServerMarkers:
    """Markers that the server keeps; see ``Write.mark`` for what it refuses."""

    def __init__(self, transport: Transport, table: str, requested_time: str, writer: str | None) -> None:
        self._transport = transport
        self._instant = (table, requested_time)
        self._writer = writer

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``Markers.create``; 10,000 at most."""
        call = _calls.create_markers(*self._instant, CreateMarkers([*markers], self._writer))
        return self._transport.send(call).outcomes

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """As ``Markers.listed``, fetched page by page."""
        pages = self._transport.pages(_calls.list_markers(*self._instant, unpublished))
        return (one for page in pages for one in page.markers)

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        return self._transport.send(_calls.find_marker(*self._instant, marker)).exists

    def delete_all(self) -> int:
        """As ``Markers.delete_all``; raises ``IllegalTransition`` while the instant is pending."""
        return self._transport.send(_calls.delete_markers(*self._instant)).deleted


class DirectMarkers:
    """Markers that are objects in the table's storage. Methods raise ``StorageFailed`` too."""

    def __init__(self, storage: Callable[[], Storage], requested_time: str) -> None:
        parse_time(requested_time)
        self._open = storage
        self._requested_time = requested_time
        self._folder = f"{MARKERS_FOLDER}/{requested_time}"

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``Markers.create``.

        Those of one request that were created stay when the store fails in the middle: ask again. Of two
        requests for one marker at the same moment both may be told that they created it.
        """
        wanted = [*markers]
        for marker in wanted:
            self._check_its_instant(marker)
        paths = list(dict.fromkeys(self._path(marker) for marker in wanted))
        new = {path for path, is_new in zip(paths, self._open().create_all_empty(paths), strict=True) if is_new}
        outcomes: list[MarkerOutcome] = []
        for marker in wanted:
            path = self._path(marker)
            outcomes.append(MarkerOutcome.CREATED if path in new else MarkerOutcome.EXISTED)
            new.discard(path)
        return outcomes

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """As ``Markers.listed``; what else is in the folder is left out."""
        if unpublished:
            raise ValueError(
                "direct markers are in storage, where nobody knows what was published: list them all"
            )
        found = [self._marker(stored.path) for stored in self._open().listing(self._folder)]
        return iter(sorted(marker for marker in found if marker is not None))

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        check_marker(marker)
        return self._open().size_bytes(self._path(marker)) is not None

    def delete_all(self) -> int:
        """As ``Markers.delete_all``; it is for the caller to know that the instant has ended."""
        deleted = sum(1 for _ in self.listed())
        self._open().delete_folder(self._folder)
        return deleted

    def _path(self, marker: Marker) -> str:
        return f"{self._folder}/{marker.name}"

    def _marker(self, path: str) -> Marker | None:
        try:
            return parse_marker(path.removeprefix(f"{self._folder}/"))
        except ValueError:
            return None

    def _check_its_instant(self, marker: Marker) -> None:
        try:
            name = check_marker(marker)
        except ValueError as exc:
            raise _invalid(str(exc)) from exc
        if name.requested_time != self._requested_time:
            raise _invalid(
                f"{marker.file_name!r} is of the instant {name.requested_time}, not of {self._requested_time}"
            )


class Location:
    """Where a table lies, reached only when somebody asks. Threads may share it."""

    def __init__(self, definition: Table, storage_options: Mapping[str, str] | None) -> None:
        self._definition = definition
        self._options = storage_options

    @property
    def options(self) -> dict[str, str]:
        """How it is reached: as the table's properties say, and as the client was told, which comes first."""
        return options_of(self._definition.properties, self._options)

    @functools.cached_property
    def storage(self) -> Storage:
        """The storage below the base path."""
        return open_storage(self._definition.base_path, self.options)

    @functools.cached_property
    def present(self) -> Storage:
        """The storage, once the table's folder, or its bucket, was seen there; for whoever deletes.

        Raises ``StorageFailed``: where it cannot be seen, every file looks as if it had been deleted already.
        """
        try:
            storage = self.storage
        except (ImportError, ValueError) as exc:
            raise errors.StorageFailed(f"{self._definition.base_path}: {exc}") from exc
        storage.check()
        return storage

    @property
    def executes(self) -> bool:
        """Whether files are deleted here, and not by the server, when an instant is given up."""
        executor = self._definition.properties.get(EXECUTOR_PROPERTY, Executor.CLIENT)
        return Executor(executor) is Executor.CLIENT

    @property
    def markers_type(self) -> MarkersType:
        """Where the markers of the table's writes are, unless they say otherwise."""
        return MarkersType(self._definition.properties.get(TYPE_PROPERTY, MarkersType.SERVER))

    def direct_markers(self, requested_time: str) -> DirectMarkers:
        """The markers of an instant in storage, wherever it keeps them."""
        return DirectMarkers(lambda: self.storage, requested_time)

    def marked_directly(self, requested_time: str) -> Iterator[Marker]:
        """What an instant has marked in storage, for whoever deletes it. Raises ``StorageFailed``."""
        return DirectMarkers(lambda: self.present, requested_time).listed()

    def delete(self, files: Sequence[DeletedFile]) -> Deleted:
        """Delete files. Raises ``StorageFailed`` when the storage cannot be reached at all."""
        return _deletions.delete(self.present, files)


def _invalid(detail: str) -> errors.InvalidMarker:
    problem = problems.problem(ProblemCode.INVALID_MARKER, detail, "", {})
    return errors.InvalidMarker(detail, problem)
