"""The markers of one instant: with the server, or direct in the table's storage; one interface to both.

Direct ones are Hudi's: an empty object each, ``<base path>/.hoodie/.temp/<requested time>/<marker's name>``.
They are for writers whose executors cannot reach the server. So nobody tells such a writer that its instant was
rolled back, and there is no early conflict detection.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from chronolake import _deletions, calls, errors, storage as storages
from chronolake._deletions import Deleted
from chronolake._transport import Transport
from chronolake.storage import Storage
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
)
from chronolake_model.problems import ProblemCode
from chronolake_model.storage import options_of
from chronolake_model.tables import Table
from chronolake_model.times import parse_time
from chronolake_storage import guard as guards, opening
from chronolake_storage.claims import Owner, hold
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.guard import MARKERS_FOLDER, Deleting, Guard, Metastore


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
        call = calls.markers.create(*self._instant, CreateMarkers([*markers], self._writer))
        return self._transport.send(call).outcomes

    def listed(self, unpublished: bool = False) -> Iterator[Marker]:
        """As ``Markers.listed``, fetched page by page."""
        pages = self._transport.pages(calls.markers.list_all(*self._instant, unpublished))
        return (one for page in pages for one in page.markers)

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        return self._transport.send(calls.markers.find(*self._instant, marker)).exists

    def delete_all(self) -> int:
        """As ``Markers.delete_all``; raises ``IllegalTransition`` while the instant is pending."""
        return self._transport.send(calls.markers.delete(*self._instant)).deleted


class DirectMarkers:
    """Markers that are objects in the table's storage. Methods raise ``StorageFailed`` too."""

    def __init__(self, location: Location, requested_time: str) -> None:
        parse_time(requested_time)
        self._location = location
        self._requested_time = requested_time
        self._folder = f"{MARKERS_FOLDER}/{requested_time}"

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """As ``Markers.create``.

        Those of one request that were created stay when the store fails in the middle: ask again. The first
        call claims the table's base path.
        """
        wanted = [*markers]
        for marker in wanted:
            self._check_its_instant(marker)
        self._location.claimed  # noqa: B018 - the first touch of the storage
        paths = list(dict.fromkeys(self._path(marker) for marker in wanted))
        created = self._location.storage.create_all_empty(paths)
        new = {path for path, is_new in zip(paths, created, strict=True) if is_new}
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
        return iter(self._found(self._location.storage)[0])

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""
        check_marker(marker)
        return self._location.storage.size_bytes(self._path(marker)) is not None

    def delete_all(self) -> int:
        """As ``Markers.delete_all``; it is for the caller to know that the instant has ended.

        Only markers of the instant are deleted. Raises ``StorageFailed`` when something else stays in the
        folder.
        """
        markers, others = self._found(self._location.present)
        if not markers and not others:
            return 0
        failures = self.delete(markers)
        failures += [f"{path}: it is no marker of the instant {self._requested_time}" for path in others]
        if failures:
            raise errors.StorageFailed(
                f"{len(failures)} files stay in {self._folder}, of {len(markers) + len(others)}. "
                f"The first: {failures[0]}. Look at them, and remove them by hand if nobody needs them"
            )
        return len(markers)

    def delete(self, markers: Iterable[Marker]) -> list[str]:
        """Delete some of them: why those that stay could not be deleted."""
        with storages.storage_failures():
            done = list(self._location.guard.delete_markers(self._requested_time, markers))
        return [f"{one.path}: {one.failure}" for one in done if one.failure is not None]

    def marked(self) -> list[Marker]:
        """As ``listed``, for deleting. Raises ``StorageFailed`` where the table's folder cannot be seen."""
        return self._found(self._location.present)[0]

    def _found(self, storage: Storage) -> tuple[list[Marker], list[str]]:
        """The markers in the folder, in order, and the paths of what is none."""
        markers: list[Marker] = []
        others: list[str] = []
        for stored in storage.listing(self._folder):
            marker = guards.marker_of(self._requested_time, stored.path)
            if marker is None:
                others.append(stored.path)
            else:
                markers.append(marker)
        return sorted(markers), others

    def _path(self, marker: Marker) -> str:
        return f"{self._folder}/{marker.name}"

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
    """Where a table lies, reached only when somebody asks. Threads may share it.

    ``metastore`` is asked in the thread that deletes.
    """

    def __init__(
        self, definition: Table, storage_options: Mapping[str, str] | None, metastore: Metastore
    ) -> None:
        self._definition = definition
        self._options = storage_options
        self._metastore = metastore

    @property
    def options(self) -> dict[str, str]:
        """How it is reached: as the table's properties say, and as the client was told, which comes first."""
        return options_of(self._definition.properties, self._options)

    @functools.cached_property
    def storage(self) -> Storage:
        """The storage below the base path."""
        return storages.open_storage(self._definition.base_path, self.options)

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

    @functools.cached_property
    def guard(self) -> Guard:
        """What deletes here. Raises ``StorageFailed``."""
        return Guard(self.present.files, owner_of(self._definition), self._metastore)

    @functools.cached_property
    def claimed(self) -> bool:
        """True, once the base path was found claimed for this table. Raises ``StorageFailed``."""
        self.claim()
        return True

    def claim(self) -> None:
        """Claim the base path for this table, unless it is so already. Raises ``StorageFailed``."""
        self.storage.make_folder()
        with storages.storage_failures():
            hold(
                self.storage.files,
                owner_of(self._definition),
                self._metastore.owner,
                self._metastore.tables,
            )

    def claim_if_present(self) -> None:
        """Claim the base path once, if it is a local folder that is there; else nothing is done.

        For writers that reach the storage by themselves, perhaps from another machine. Raises ``StorageFailed``
        when the folder is another table's; one that cannot be written from here is left to its writers.
        """
        folder = _local_folder(self._definition.base_path)
        if folder is None or not os.path.isdir(folder):
            return
        try:
            self.claimed  # noqa: B018 - the first touch of the storage
        except errors.StorageFailed as exc:
            if isinstance(exc.__cause__, ClaimRefused):
                raise

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
        return DirectMarkers(self, requested_time)

    def delete(self, deleting: Deleting, files: Sequence[DeletedFile]) -> Deleted:
        """Delete files. Raises ``StorageFailed`` when the storage cannot be reached at all."""
        return _deletions.delete(self.guard, deleting, files)


def owner_of(definition: Table) -> Owner:
    """Whose claim a table's base path must have."""
    return Owner(definition.metastore_id, definition.table_id, definition.name, definition.took_over)


def _local_folder(base_path: str) -> str | None:
    try:
        return opening.local_path(base_path)
    except ValueError:
        # A table of an earlier release: nothing is deleted at a base path that cannot be compared.
        return None


def _invalid(detail: str) -> errors.InvalidMarker:
    problem = problems.problem(ProblemCode.INVALID_MARKER, detail, "", {})
    return errors.InvalidMarker(detail, problem)
