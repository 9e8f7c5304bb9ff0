"""A client's access to a table's storage: opened on first use, claimed, with deletions through the guard.

All calls block. The asyncio client runs them in threads.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence

from chronolake import errors, storage as storages
from chronolake.storage import Storage
from chronolake_model import problems
from chronolake_model.markers import (
    EXECUTOR_PROPERTY,
    TYPE_PROPERTY,
    DeletedFile,
    Executor,
    Marker,
    MarkerOutcome,
    MarkersType,
    check_marker,
)
from chronolake_model.problems import ProblemCode
from chronolake_model.publication import PUBLISH_PROPERTY, PUBLISHER_PROPERTY, Publisher
from chronolake_model.storage import options_of
from chronolake_model.tables import Table
from chronolake_model.times import parse_time
from chronolake_storage import guard as guards, opening, visibility
from chronolake_storage.claims import Owner, ensure_claim
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.files import MARKERS_FOLDER
from chronolake_storage.guard import Deleting, Guard, Metastore


class TableLocation:
    """The storage of a table. Threads may share it.

    ``metastore`` is called in the thread that deletes.
    """

    def __init__(
        self, definition: Table, storage_options: Mapping[str, str] | None, metastore: Metastore
    ) -> None:
        self._definition = definition
        self._options = storage_options
        self._metastore = metastore

    @property
    def options(self) -> dict[str, str]:
        """The storage options: those of the client override those of the table's properties."""
        return options_of(self._definition.properties, self._options)

    @property
    def is_client_publisher(self) -> bool:
        """Whether clients publish the table for Hudi's readers, as its properties say."""
        return self._definition.properties.get(PUBLISHER_PROPERTY) == Publisher.CLIENT

    @property
    def is_publication_off(self) -> bool:
        """Whether the table is not published, as its properties say: then it is hidden from Hudi's readers."""
        return self._definition.properties.get(PUBLISH_PROPERTY) == "false"

    @functools.cached_property
    def storage(self) -> Storage:
        """The storage below the base path."""
        return storages.open_storage(self._definition.base_path, self.options)

    @functools.cached_property
    def checked_storage(self) -> Storage:
        """The storage, for deletions: its folder or bucket was checked to exist.

        Raises ``StorageFailed``: without the folder, every file would seem to be deleted already.
        """
        try:
            storage = self.storage
        except (ImportError, ValueError) as exc:
            raise errors.StorageFailed(f"{self._definition.base_path}: {exc}") from exc
        storage.check()
        return storage

    @functools.cached_property
    def guard(self) -> Guard:
        """The guard of the table's files. Raises ``StorageFailed``."""
        return Guard(self.checked_storage.files, owner_of(self._definition), self._metastore)

    @functools.cached_property
    def claimed(self) -> bool:
        """Claim the base path on first access; then True. Raises ``StorageFailed``."""
        self.claim()
        return True

    def claim(self) -> None:
        """Claim the base path for this table, unless it is claimed already. Raises ``StorageFailed``."""
        self.storage.make_folder()
        with storages.storage_failures():
            ensure_claim(
                self.storage.files,
                owner_of(self._definition),
                self._metastore.owner,
                self._metastore.tables,
            )

    def claim_if_present(self) -> None:
        """Claim the base path once, if it is a local folder that exists; else do nothing.

        This is for writers whose tasks access the storage themselves, perhaps from another machine. A folder
        that this process may not write is skipped. Raises ``StorageFailed`` when the folder is claimed for
        another table.
        """
        folder = _local_folder(self._definition.base_path)
        if folder is None or not os.path.isdir(folder):
            return
        try:
            self.claimed  # noqa: B018 - the first access to the storage
        except errors.StorageFailed as exc:
            if isinstance(exc.__cause__, ClaimRefused):
                raise

    @property
    def is_client_executor(self) -> bool:
        """Whether clients, and not the server, delete the files of the table."""
        executor = self._definition.properties.get(EXECUTOR_PROPERTY, Executor.CLIENT)
        return Executor(executor) is Executor.CLIENT

    @property
    def markers_type(self) -> MarkersType:
        """Where the markers of the table's writes are kept by default."""
        return MarkersType(self._definition.properties.get(TYPE_PROPERTY, MarkersType.SERVER))

    def stored_markers(self, requested_time: str) -> StoredMarkers:
        """The direct markers of an instant."""
        return StoredMarkers(self, requested_time)

    def shown_by(self) -> str | None:
        """The file by which Hudi's readers find the table; None if there is none. Raises ``StorageFailed``."""
        with storages.storage_failures():
            return visibility.shown_by(self.storage.files, self._definition.table_id)

    def find(self, files: Sequence[DeletedFile]) -> list[DeletedFile]:
        """The files that are in storage. Raises ``StorageFailed``."""
        sizes = self.checked_storage.sizes(file.path for file in files)
        return [file for file, size in zip(files, sizes, strict=True) if size is not None]

    def remove_undone(self, paths: Sequence[str]) -> None:
        """See ``Guard.remove_undone``. Raises ``StorageFailed``."""
        with storages.storage_failures():
            self.guard.remove_undone(paths)

    def remove_index_files(self, paths: Sequence[str]) -> None:
        """See ``Guard.remove_index_files``. Raises ``StorageFailed``."""
        with storages.storage_failures():
            self.guard.remove_index_files(paths)

    def delete(self, deleting: Deleting, files: Sequence[DeletedFile]) -> dict[str, str]:
        """Delete files, see ``Guard.delete``; returns the failures by path.

        Raises ``StorageFailed`` when the storage cannot be accessed at all.
        """
        return self.delete_paths(deleting, [file.path for file in files])

    def delete_paths(self, deleting: Deleting, paths: Iterable[str]) -> dict[str, str]:
        """As ``delete``, for files given by their paths."""
        with storages.storage_failures():
            deletions = list(self.guard.delete(deleting, paths))
        return {deletion.path: deletion.failure for deletion in deletions if deletion.failure is not None}


class StoredMarkers:
    """The direct markers of one instant, in the table's storage. Methods raise ``StorageFailed``.

    Each is an empty object as in Hudi: ``<base path>/.hoodie/.temp/<requested time>/<marker's name>``. They are
    for writers whose executors cannot reach the server. So creating one does not tell the writer that its
    instant was rolled back, and there is no early conflict detection.
    """

    def __init__(self, location: TableLocation, requested_time: str) -> None:
        parse_time(requested_time)
        self._location = location
        self._requested_time = requested_time
        self._folder = f"{MARKERS_FOLDER}/{requested_time}"

    def create(self, markers: Iterable[Marker]) -> list[MarkerOutcome]:
        """Create markers durably; the first call claims the table's base path.

        Raises ``InvalidMarker``: then none is created. If the storage fails midway, the markers created so far
        remain: repeat the call.
        """
        requested = [*markers]
        for marker in requested:
            self._check_requested_time(marker)
        self._location.claimed  # noqa: B018 - the first access to the storage
        paths = list(dict.fromkeys(self._path(marker) for marker in requested))
        created = self._location.storage.create_all_empty(paths)
        new = {path for path, is_new in zip(paths, created, strict=True) if is_new}
        outcomes: list[MarkerOutcome] = []
        for marker in requested:
            path = self._path(marker)
            outcomes.append(MarkerOutcome.CREATED if path in new else MarkerOutcome.EXISTED)
            new.discard(path)
        return outcomes

    def list_all(self) -> list[Marker]:
        """All markers, by partition path, file name and kind; other files in the folder are left out."""
        return self._list(self._location.storage)[0]

    def list_for_deletion(self) -> list[Marker]:
        """As ``list_all``; raises ``StorageFailed`` when the table's folder does not exist."""
        return self._list(self._location.checked_storage)[0]

    def exists(self, marker: Marker) -> bool:
        """Whether this marker exists. Raises ``ValueError`` if it is not a valid marker."""
        check_marker(marker)
        return self._location.storage.size_bytes(self._path(marker)) is not None

    def delete_all(self) -> int:
        """Delete all markers, and return their number. The caller must make sure that the instant has ended.

        Raises ``StorageFailed`` when the folder also has other files: they are not deleted.
        """
        markers, others = self._list(self._location.checked_storage)
        if not markers and not others:
            return 0
        failures = self.delete(markers)
        failures += [f"{path}: it is not a marker of the instant {self._requested_time}" for path in others]
        if failures:
            raise errors.StorageFailed(
                f"{len(failures)} of {len(markers) + len(others)} files in {self._folder} were not deleted. "
                f"The first: {failures[0]}. Check them, and delete them by hand if they are not needed"
            )
        return len(markers)

    def delete(self, markers: Iterable[Marker]) -> list[str]:
        """Delete some of the markers; returns a line for each failure."""
        with storages.storage_failures():
            deletions = list(self._location.guard.delete_markers(self._requested_time, markers))
        return [
            f"{deletion.path}: {deletion.failure}" for deletion in deletions if deletion.failure is not None
        ]

    def delete_of_files(self, files: Iterable[DeletedFile]) -> None:
        """Delete the markers of ``files``, as far as the storage permits."""
        deleted = set(files)
        self.delete(
            marker
            for marker in self.list_for_deletion()
            if DeletedFile(marker.partition_path, marker.file_name) in deleted
        )

    def _list(self, storage: Storage) -> tuple[list[Marker], list[str]]:
        """The markers in the folder, in order, and the paths of other files."""
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

    def _check_requested_time(self, marker: Marker) -> None:
        try:
            name = check_marker(marker)
        except ValueError as exc:
            raise _invalid(str(exc)) from exc
        if name.requested_time != self._requested_time:
            raise _invalid(
                f"{marker.file_name!r} is a file of the instant {name.requested_time}, not of "
                f"{self._requested_time}"
            )


def owner_of(definition: Table) -> Owner:
    """The owner that the claim of a table's base path must name."""
    return Owner(definition.metastore_id, definition.table_id, definition.name, definition.took_over)


def _local_folder(base_path: str) -> str | None:
    try:
        return opening.local_path(base_path)
    except ValueError:
        # A table of an earlier release, whose base path cannot be compared: its files are never deleted.
        return None


def _invalid(detail: str) -> errors.InvalidMarker:
    problem = problems.problem(ProblemCode.INVALID_MARKER, detail, "", {})
    return errors.InvalidMarker(detail, problem)
