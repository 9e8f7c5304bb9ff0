"""The deletion guard: client and server delete files of tables only through ``Guard``.

A file is deleted only if all of this holds: the base path is claimed by this table, and overlaps that of no
other table; the log has the event that the claim records; the path lies below the base path, and not in a
folder that another table has claimed; its name is that of a data file or a marker of the instant; and no live
slice, savepoint or reader of any table needs it. A clean deletes nothing while the table is hidden from Hudi's
readers and visible in storage. Other files are kept, and reported with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import parse_file_name
from chronolake_model.markers import Marker, file_at, is_file_of, parse_marker
from chronolake_storage import claims, visibility
from chronolake_storage.claims import Log, Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.files import MARKERS_FOLDER, METADATA_FOLDER, Deletion, Files, check_path
from chronolake_storage.overlaps import TablePlace
from chronolake_storage.permits import Answers, Permit

_PUBLISHED: Final = re.compile(
    rf"{re.escape(METADATA_FOLDER)}/(hoodie\.properties|timeline/[0-9]{{17}}(_[0-9]{{17}}\.[a-z]+|(\.[a-z]+)?\.(requested|inflight))"
    r"|timeline/history/([0-9]{17}_[0-9]{17}_[012]\.parquet|manifest_[0-9]{1,9}))",
    re.ASCII,
)
"""The files of a publication that a step removes, or that leave the timeline, and old ones of its history."""
_PENDING_OF_HUDI: Final = re.compile(
    rf"{re.escape(METADATA_FOLDER)}/(timeline/)?[0-9]{{17}}(\.[a-z]+)?\.(requested|inflight)", re.ASCII
)
INDEX_FOLDER: Final = f"{METADATA_FOLDER}/.chronolake-index"
"""The folder of indexes that writers keep with a table, with a folder for each table id."""
ICEBERG_FOLDER: Final = f"{METADATA_FOLDER}/.chronolake-iceberg"
"""The folder of the metadata for Iceberg's readers, with a folder for each table id."""
ICEBERG_FILE: Final = re.compile(
    r"(snap-)?[0-9]+-[0-9a-f]{32}\.avro|[0-9]+-[0-9a-f]{32}\.metadata\.json", re.ASCII
)
"""The names of the files in it; others are neither read nor removed."""
ARCHIVED_RUNS: Final = "runs"
"""The folder of runs in an archive of the log."""
_ARCHIVED: Final = re.compile(
    rf"{ARCHIVED_RUNS}/[0-9]{{20}}-[0-9]{{2}}-[0-9a-f]{{32}}/([a-z_]+(-[0-9]+)?\.parquet|run\.json)", re.ASCII
)
AT_ONCE: Final = 5_000
"""The files that are checked and deleted together. The claim is read once for them."""


class Deleting(msgspec.Struct, frozen=True):
    """The instant and the writer in whose name files are deleted.

    ``by`` is the instant that deletes: a rollback, a clean, a write with failed attempts, or an ended instant
    with late files. It is None for orphans, which are checked by their own names. ``files_of`` is the instant
    in the names of the files; None for a clean, which deletes files of earlier instants. ``writer`` is the
    writer that deletes: only the writer of a pending instant may delete its files. With ``unknown_instants``,
    orphans may be of instants that the table's timeline does not have.
    """

    by: str | None
    files_of: str | None
    writer: str | None = None
    unknown_instants: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether files are deleted that Hudi's readers may have seen."""
        return self.by is not None and self.files_of is None


class Removing(msgspec.Struct, frozen=True):
    """The deletion of files in ``.hoodie`` that are no data: their paths match ``pattern``.

    The metastore names them itself, or they are of the table's own indexes, so it needs none of them.
    """

    pattern: re.Pattern[str]
    what: str

    @property
    def is_clean(self) -> bool:
        """As ``Deleting.is_clean``."""
        return False


class Metastore(Protocol):
    """The metastore's side of the guard. It is called in the thread that deletes."""

    def owner(self) -> Owner | None:
        """The table as it is in the metastore now; None if it was dropped."""

    def tables(self) -> Iterable[TablePlace]:
        """All live tables of the metastore, and the dropped ones that published files.

        It is called before first claims and before deletions on a local disk.
        """

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        """The files that may not be deleted, with the reasons.

        ``recorded`` is the event that the claim records. Raises if the log lacks it.
        """

    def is_hidden(self) -> bool:
        """Whether the table is hidden from Hudi's readers; called before a clean deletes, if they find it."""


class Guard:
    """Deletes files of one table. Threads may share it.

    With a ``log``, its head is compared with the claim, and recorded there, before anything is deleted or
    published. With ``own_files_only``, the caller deletes only files that it wrote, so folders of tables are
    not compared.
    """

    def __init__(
        self,
        files: Files,
        owner: Owner,
        metastore: Metastore,
        *,
        log: Log | None = None,
        own_files_only: bool = False,
    ) -> None:
        self._files = files
        self._log = log
        self._recorded_version = 0
        self._own_files_only = own_files_only
        self._owner = owner
        self._metastore = metastore

    @property
    def table_id(self) -> str:
        """The id of the table."""
        return self._owner.table_id

    def delete(self, deleting: Deleting, paths: Iterable[str]) -> Iterator[Deletion]:
        """Delete files, and yield the outcomes in order. Paths are relative to the base path.

        Files are deleted part by part while the iterator is consumed. Raises ``ClaimRefused`` before the first
        deletion of a part, ``StorageError`` when the storage cannot be accessed at all, and the errors of the
        metastore.
        """
        remaining = iter(paths)
        while part := list(islice(remaining, AT_ONCE)):
            yield from self._delete_part(deleting, part)

    def delete_markers(self, instant: str, markers: Iterable[Marker]) -> Iterator[Deletion]:
        """Delete direct markers of an instant, and then their empty folders."""
        folder = f"{MARKERS_FOLDER}/{instant}"
        self.check_claim()
        yield from self.delete(Deleting(None, instant), (f"{folder}/{marker.name}" for marker in markers))
        self._files.remove_empty_folders_unguarded(folder)

    def check_claim(self) -> LogHead | None:
        """Raise ``ClaimRefused`` unless the base path is this table's; claim it if it is unclaimed.

        Returns the event of the log that the claim records.
        """
        head = check_claim(self._files, self._owner, self._metastore, self._log)
        self._recorded_version = 0 if head is None else head.version
        return head

    def record_version(self, version: int) -> None:
        """Make sure that the claim records the log up to ``version``, whose files are published next."""
        if self._log is not None and version > self._recorded_version:
            self.check_claim()

    def remove_published(self, paths: Sequence[str], *, in_order: bool = False) -> None:
        """Remove files of the publication: no data files. Raises ``StorageError``.

        If ``in_order``, each disappears only after those before it, also from an object store.
        """
        self._remove(Removing(_PUBLISHED, "a publication"), paths, one_by_one=in_order)

    def remove_undone(self, paths: Sequence[str]) -> None:
        """Remove files of Hudi's timeline that name an instant as pending, in order. Raises ``StorageError``.

        They are of instants that Hudi did not complete before the table was adopted, and that were undone.
        """
        self._remove(Removing(_PENDING_OF_HUDI, "a pending instant"), paths)

    def remove_index_files(self, paths: Sequence[str]) -> None:
        """Remove files of the table's own indexes: no data files. Raises ``StorageError``."""
        folder = re.escape(f"{INDEX_FOLDER}/{self.table_id}")
        pattern = re.compile(
            rf"{folder}/record/(files/[0-9a-f-]{{36}}\.parquet|manifests/[0-9_]+\.json)", re.ASCII
        )
        self._remove(Removing(pattern, "an index of the table"), paths)

    def remove_iceberg_files(self, paths: Sequence[str]) -> None:
        """Remove metadata of the table for Iceberg's readers: no data files. Raises ``StorageError``."""
        folder = re.escape(f"{ICEBERG_FOLDER}/{self.table_id}")
        pattern = re.compile(rf"{folder}/({ICEBERG_FILE.pattern})", re.ASCII)
        self._remove(Removing(pattern, "the metadata for Iceberg"), paths)

    def _remove(self, removing: Removing, paths: Sequence[str], *, one_by_one: bool = False) -> None:
        answers = self._ask(removing, paths)
        for path in paths:
            if (reason := answers.refusal(path)) is not None:
                raise StorageError(f"{self._files.base_path}: {path[:200]!r}: {reason}")
        permits = [Permit(path, answers) for path in paths]
        for part in [[permit] for permit in permits] if one_by_one else [permits]:
            for deletion in self._files.delete_permitted(part):
                if deletion.failure is not None:
                    raise StorageError(f"{self._files.base_path}/{deletion.path}: {deletion.failure}")

    def _delete_part(self, deleting: Deleting, paths: Sequence[str]) -> Iterator[Deletion]:
        answers = self._ask(deleting, paths)
        refused = answers.refused
        permits = (Permit(path, answers) for path in paths if path not in refused)
        deleted = self._files.delete_permitted(permits)
        for path in paths:
            yield Deletion(path, refused[path]) if path in refused else next(deleted)

    def _ask(self, kind: Deleting | Removing, paths: Sequence[str]) -> Answers:
        """Ask all questions about some files. Raises ``StorageError`` if none of the table may be deleted."""
        recorded = self.check_claim()
        by_name = {path: reason for path in paths if (reason := refusal(kind, path)) is not None}
        named = [path for path in paths if path not in by_name]
        by_claims = check_other_claims(self._files, named)
        left = [path for path in named if path not in by_claims]
        if left and not self._own_files_only:
            check_overlaps(self._files, self._owner, self._metastore)
        if left and kind.is_clean:
            check_hidden(self._files, self._owner, self._metastore)
        by_need = find_needed(self._metastore, kind, left, recorded)
        return Answers(by_path_and_name=by_name, by_claims=by_claims, by_need=by_need)


def remove_archived(files: Files, run: str, listed: Collection[str]) -> None:
    """Remove the files of a run of an archive of the log. Raises ``StorageError``.

    The archive lies outside of all tables, so no claim says whose it is: only files with names that an archiver
    gives are removed, and none of a run that is ``listed``.
    """
    folder = f"{ARCHIVED_RUNS}/{run}"
    paths = [file.path for file in files.files_in(folder)]
    answers = Answers(
        by_path_and_name={path: "is no file of an archive" for path in paths if not _ARCHIVED.fullmatch(path)},
        by_claims={},
        by_need=dict.fromkeys(paths, "the archive lists its run") if run in listed else {},
    )
    refused = answers.refused
    for deletion in files.delete_permitted(Permit(path, answers) for path in paths if path not in refused):
        if deletion.failure is not None:
            raise StorageError(f"{files.base_path}/{deletion.path}: {deletion.failure}")
    files.remove_empty_folders_unguarded(folder)


def refusal(kind: Deleting | Removing, path: str) -> str | None:
    """The reason why a path may not be deleted, by the path alone; None if it may."""
    return check_contained(path) or check_name(kind, path)


def check_claim(files: Files, owner: Owner, metastore: Metastore, log: Log | None) -> LogHead | None:
    """Raise ``ClaimRefused`` unless this table has the claim of the base path; see ``claims.ensure_claim``."""
    return claims.ensure_claim(files, owner, metastore.owner, metastore.tables, log)


def check_overlaps(files: Files, owner: Owner, metastore: Metastore) -> None:
    """Raise ``ClaimRefused`` when the folder of another table may lie in the base path, or around it.

    A link or a mount may be newer than the claim, and two metastores may have claimed nested folders.
    """
    claims.refuse_overlap(files, owner, metastore.tables)
    claims.refuse_claim_above(files, owner)


def check_hidden(files: Files, owner: Owner, metastore: Metastore) -> None:
    """Raise ``StorageError`` when the table is hidden from Hudi's readers, and they find it nevertheless.

    A publisher that stalled may have written ``hoodie.properties`` after another one removed it, or somebody
    copied it back. The readers would miss the rows of the deleted files.
    """
    shown_by = visibility.shown_by(files, owner.table_id)
    if shown_by is not None and metastore.is_hidden():
        raise StorageError(
            f"{owner.table} is hidden from Hudi's readers, but {files.base_path}/{shown_by} shows it again: "
            f"nothing is deleted. Run `chronolake hudi publish {owner.table}`, which hides it, and clean "
            "again. Move a hoodie.properties.backup away by hand"
        )


def check_contained(path: str) -> str | None:
    """The reason why a path does not lie below the base path; None if it does."""
    try:
        check_path(path)
    except ValueError as exc:
        return str(exc)
    return None


def check_other_claims(files: Files, paths: Sequence[str]) -> dict[str, str]:
    """The paths in folders below the base path that another table has claimed, with the reasons.

    One metastore keeps base paths apart. But tables of two metastores may lie in each other, and even have the
    same instants.
    """
    folders = {path: _folders_of(path) for path in paths}
    claimed = claims.claimed_folders(files, sorted({folder for below in folders.values() for folder in below}))
    return {
        path: f"the folder {other} is claimed by another table"
        for path, below in folders.items()
        if (other := next((folder for folder in below if folder in claimed), None)) is not None
    }


def _folders_of(path: str) -> list[str]:
    """The folders of a path below the base path, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def check_name(kind: Deleting | Removing, path: str) -> str | None:
    """The reason why a path is not named as a file of this kind, and of the right instant; None if it is."""
    if isinstance(kind, Removing):
        return None if kind.pattern.fullmatch(path) else f"it is no file of {kind.what}"
    return _check_instant(kind, path)


def _check_instant(deleting: Deleting, path: str) -> str | None:
    instant = deleting.files_of
    if is_marker(path):
        is_of = instant is not None and marker_of(instant, path) is not None
        return None if is_of else f"it is not a marker of the instant {instant}"
    file = file_at(path)
    own = requested_time_of(file.file_name)
    if instant is None:
        is_earlier = own is not None and deleting.by is not None and own < deleting.by and is_file_of(file, own)
        return None if is_earlier else f"it is not a data file of an instant before {deleting.by}"
    return None if is_file_of(file, instant) else f"it is not a data file of the instant {instant}"


def find_needed(
    metastore: Metastore, kind: Deleting | Removing, paths: Sequence[str], recorded: LogHead | None
) -> Mapping[str, str]:
    """The paths that are needed, with the reasons; see ``Metastore.needed_files``. Only data files are."""
    data_files = [path for path in paths if not is_marker(path)]
    if isinstance(kind, Removing) or not data_files:
        return {}
    return metastore.needed_files(kind, data_files, recorded)


def is_marker(path: str) -> bool:
    """Whether a path lies in the folder of direct markers."""
    return path.startswith(f"{MARKERS_FOLDER}/")


def requested_time_of(file_name: str) -> str | None:
    """The requested time in the name of a data file; None for other names."""
    try:
        return parse_file_name(file_name).requested_time
    except ValueError:
        return None


def marker_of(instant: str, path: str) -> Marker | None:
    """The direct marker of an instant at a path; None if the path is not such a marker."""
    folder = f"{MARKERS_FOLDER}/{instant}/"
    if not path.startswith(folder):
        return None
    try:
        marker = parse_marker(path.removeprefix(folder))
    except ValueError:
        return None
    return marker if parse_file_name(marker.file_name).requested_time == instant else None
