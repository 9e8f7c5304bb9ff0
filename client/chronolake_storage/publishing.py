"""Executes the steps of a publication: what ``.hoodie`` of a table holds for Hudi's readers.

Server and client share it. A step names whole files, and the same log gives the same bytes, so a step that was
executed in part is executed again: a file that is there already is done. The files of the timeline appear in
the order of the log, and ``hoodie.properties`` last: without it readers find no table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from chronolake_model.publication import PublicationFiles, PublicationStep, PublishedFile, PublishedHistory
from chronolake_storage import visibility
from chronolake_storage.errors import ClaimRefused, StorageError
from chronolake_storage.files import METADATA_FOLDER, Files, StoredFile
from chronolake_storage.guard import Guard
from chronolake_storage.visibility import PROPERTIES_BYTES_MAX, is_foreign, table_id_in

PROPERTIES_PATH: Final = visibility.PROPERTIES_PATH
BACKUP_PATH: Final = visibility.BACKUP_PATH
TIMELINE_FOLDER: Final = f"{METADATA_FOLDER}/timeline"
HISTORY_FOLDER: Final = f"{TIMELINE_FOLDER}/history"
"""Where the instants are that have left the timeline; Hudi's default for ``hoodie.timeline.history.path``."""
PARTITION_METADATA: Final = ".hoodie_partition_metadata"
HUDI_METADATA_TABLE: Final = f"{METADATA_FOLDER}/metadata/.hoodie/hoodie.properties"
"""A file that only Hudi's writers make."""
CREATED_UNSEEN_MAX: Final = 1_000
"""With more files than this, existing files are listed first: a write that finds its file takes long."""
_READERS: Final = 16
"""Threads that compare files of one caller at a time."""
_DATA_FILE: Final = re.compile(
    r"[A-Za-z0-9-]+_[A-Za-z0-9-]+_(?P<base>[0-9]+)\.(parquet|orc|hfile)"
    r"|\.[^._]+_(?P<log>[0-9]+)\.log\.[0-9]+(_.+)?"
)
"""The name of a base or log file of any version of Hudi."""
_HISTORY: Final = re.compile(
    rf"{re.escape(HISTORY_FOLDER)}/(_version_|manifest_[0-9]{{1,9}}|[0-9]{{17}}_[0-9]{{17}}_[012]\.parquet)",
    re.ASCII,
)
_PUBLISHED_TIME: Final = re.compile(
    rf"{re.escape(TIMELINE_FOLDER)}/([0-9]{{17}})(\.compaction\.requested|_[0-9]{{17}}\.[a-z]+)", re.ASCII
)


def begin(files: Files, guard: Guard, files_since: str | None) -> None:
    """Claim the base path for publishing, at the beginning of each run of a publisher.

    Raises ``StorageError`` when another table has the claim, or another Hudi table is there; at the first
    publication, with ``files_since``, also for older data files (``refuse_older_files``).
    """
    guard.check_claim()
    refuse_foreign_table(files, guard.table_id)
    if files_since is not None:
        refuse_older_files(files, files_since)


def refuse_foreign_table(files: Files, table_id: str) -> None:
    """Raise ``ClaimRefused`` if the folder has a Hudi table that this table of Chronolake did not publish.

    A file that names no table is damaged: it is put right.
    """
    stored = files.read(PROPERTIES_PATH, PROPERTIES_BYTES_MAX)
    if stored is not None and is_foreign(stored.body, table_id):
        raise ClaimRefused(
            f"{files.base_path}/{PROPERTIES_PATH} is of another Hudi table, and is not overwritten: remove "
            "that table's .hoodie and its data files, or set hudi.publish to false"
        )


def hide(files: Files, guard: Guard, *, was_published: bool) -> None:
    """Remove ``hoodie.properties``: without it Hudi's readers find no table, and fail. It may be repeated.

    Raises ``StorageError`` when another table has the claim. That of another Hudi table stays. If this table
    ``was_published``, Hudi's readers may still see files of it, so that raises ``ClaimRefused``, and a backup
    of Hudi's raises ``StorageError``.
    """
    guard.check_claim()
    stored = files.read(PROPERTIES_PATH, PROPERTIES_BYTES_MAX)
    is_of_another = stored is not None and is_foreign(stored.body, guard.table_id)
    if stored is not None and not is_of_another:
        guard.remove_published([PROPERTIES_PATH])
    if not was_published:
        return
    [backup_bytes] = files.sizes([BACKUP_PATH])
    if backup_bytes is not None:
        raise StorageError(
            f"Hudi's Java readers take {files.base_path}/{BACKUP_PATH}, which a writer of Hudi has left, for "
            "hoodie.properties: move that file away; until then cleans keep the files that these readers see"
        )
    if is_of_another:
        raise ClaimRefused(
            f"{files.base_path}/{PROPERTIES_PATH} is of another Hudi table, so it is not removed, and this "
            "table is not hidden from Hudi's readers: move that file away; until then cleans keep the files "
            "that these readers may see"
        )


def refuse_older_files(files: Files, files_since: str) -> None:
    """Raise ``StorageError`` if a data file has a requested time before ``files_since``.

    Hudi's readers take files for data that are older than the first instant of the timeline. Such files are of
    a table that had the folder before.
    """
    older = [file.path for file in files.listing() if _is_older(file.file_name, files_since)]
    if older:
        raise StorageError(
            f"{files.base_path} has {len(older)} data files from before {files_since}, when the table was "
            f"created, such as {min(older)}: Hudi's readers would show the rows of this former table; remove "
            "its files, and publication begins"
        )


def _is_older(file_name: str, time: str) -> bool:
    match = _DATA_FILE.fullmatch(file_name)
    # Times have 14, 17 or 20 digits.
    return match is not None and (match["base"] or match["log"])[: len(time)] < time


def execute(files: Files, guard: Guard, steps: Sequence[PublicationStep], *, is_hidden: bool) -> None:
    """Execute steps. Raises ``StorageError``; then the steps are executed again from the first one.

    While the table ``is_hidden`` from readers, the order matters only for ``hoodie.properties``: it goes first
    when it is removed, and comes last when it is written.
    """
    guard.record_version(max((step.version for step in steps), default=0))
    if is_hidden:
        _execute_hidden(files, guard, steps)
        return
    written: list[PublishedFile] = []
    for step in steps:
        written += step.writes
        if step.removes or PROPERTIES_PATH in [file.path for file in step.writes]:
            _write(files, written, in_order=True)
            _remove(guard, step.removes)
            written = []
    _write(files, written, in_order=True)


def _execute_hidden(files: Files, guard: Guard, steps: Sequence[PublicationStep]) -> None:
    if any(PROPERTIES_PATH in step.removes for step in steps):
        refuse_foreign_table(files, guard.table_id)
        _remove(guard, [PROPERTIES_PATH])
    removed = [path for step in steps for path in step.removes if path != PROPERTIES_PATH]
    # A file that a later step removes is not written first: the page may be executed again.
    content = {file.path: file for step in steps for file in step.writes if file.path not in removed}
    last = content.pop(PROPERTIES_PATH, None)
    _write(files, [*content.values()], in_order=False)
    _remove(guard, removed)
    if last is not None:
        _write(files, [last], in_order=True)


def _remove(guard: Guard, paths: Sequence[str]) -> None:
    if paths:
        guard.remove_published(paths)


def _write(files: Files, written: Sequence[PublishedFile], *, in_order: bool) -> None:
    """Write files; those that are there with the same content are done. ``hoodie.properties`` comes last."""
    _create_partitions(files, [file for file in written if file.path.endswith(PARTITION_METADATA)])
    new = [file for file in written if not file.path.endswith((PARTITION_METADATA, PROPERTIES_PATH))]
    created = files.create_all([(file.path, file.content) for file in new], in_order=in_order) if new else []
    others = [file for file, is_new in zip(new, created, strict=True) if not is_new]
    for file in [*others, *(file for file in written if file.path == PROPERTIES_PATH)]:
        if not _is_there(files, file):
            _put(files, file)


def _create_partitions(files: Files, written: Sequence[PublishedFile]) -> None:
    """Create the metadata of partitions, in any order: readers see a partition by the timeline, which is later.

    Another writer may have made one before: readers need only the depth.
    """
    content = {file.path: file.content for file in written}
    if len(content) > CREATED_UNSEEN_MAX:
        # So that the next try after a failure has only the rest to do.
        sizes = zip(content, files.sizes(content), strict=True)
        content = {path: content[path] for path, size_bytes in sizes if size_bytes is None}
    if content:
        files.create_all([*content.items()], in_order=False)


def _put(files: Files, file: PublishedFile) -> None:
    """Write a file in place of another one, unless that is of another Hudi table."""
    if file.path == PROPERTIES_PATH:
        refuse_foreign_table(files, table_id_in(file.content))
    files.put(file.path, file.content)


def _is_there(files: Files, file: PublishedFile) -> bool:
    [size_bytes] = files.sizes([file.path])
    if size_bytes != len(file.content):
        return False
    stored = files.read(file.path, len(file.content))
    return stored is not None and stored.body == file.content


class Owned(msgspec.Struct):
    """The files that a publication has put into ``.hoodie``.

    ``timeline`` has its files, each with the version of its step; ``removed`` are those that a step removed, up
    to ``version``.
    ``properties`` is the content of ``hoodie.properties``; None while the table is hidden. For ``adopted_at``
    and ``history`` see ``PublicationFiles``.
    """

    timeline: dict[str, int] = {}
    removed: set[str] = set()
    version: int = 0
    properties: bytes | None = None
    adopted_at: str | None = None
    history: PublishedHistory | None = None

    def add(self, page: PublicationFiles) -> None:
        """Add the files of the next events."""
        for path in page.removed:
            self.timeline.pop(path, None)
        self.timeline.update(page.written)
        self.removed = self.removed.union(page.removed).difference(page.written)
        self.version, self.properties, self.adopted_at = page.version, page.properties, page.adopted_at
        self.history = page.history


class Comparison(msgspec.Struct, frozen=True):
    """The contents of ``.hoodie``, by its listing.

    ``foreign`` are files that no publisher wrote; ``missing`` files of the timeline that are not there, or
    empty; ``removed`` files that a step has removed, and that a publisher which came late wrote again.
    ``stored`` has the files of the timeline that are there.
    """

    foreign: list[str]
    missing: list[str]
    removed: list[str]
    stored: dict[str, StoredFile]

    @property
    def changed_at(self) -> float:
        """When the last of the timeline's files was written."""
        return max((file.changed_at for file in self.stored.values()), default=0.0)


def find(files: Files, owned: Owned) -> Comparison:
    """List ``.hoodie``, and compare the names with what is published.

    Of an adopted table, what Hudi wrote of times up to the adoption, its archive and its metadata table are not
    foreign. Files of the history, and of instants that are in it, are compared elsewhere (``archiving``).
    """
    before = None if owned.history is None else owned.history.before
    listed = {file.path: file for file in files.listing(TIMELINE_FOLDER) if not _is_archived(file.path, before)}
    stored = {path: listed[path] for path in owned.timeline if path in listed}
    removed = owned.removed.intersection(listed)
    others = [path for path in listed if path not in stored and path not in removed and not _is_temporary(path)]
    # Earlier versions of Hudi write their instants directly into .hoodie.
    others += [
        file.path
        for file in files.files_in(METADATA_FOLDER)
        if file.path != PROPERTIES_PATH and not _is_temporary(file.path)
    ]
    adopted_at = owned.adopted_at
    if adopted_at is None:
        [size_bytes] = files.sizes([HUDI_METADATA_TABLE])
        others += [HUDI_METADATA_TABLE] if size_bytes is not None else []
    else:
        others = [path for path in others if not _is_of_hudi(path, adopted_at)]
    missing = [path for path in owned.timeline if path not in stored or not stored[path].size_bytes]
    return Comparison(sorted(others), missing, sorted(removed, reverse=True), stored)


def differing(
    files: Files, expected: Sequence[PublishedFile], stored: Mapping[str, StoredFile]
) -> list[PublishedFile]:
    """Files that are missing, or have another content than they were published with.

    A file in the listing ``stored`` is read only if it has the right size.
    """
    unlisted = [file.path for file in expected if file.path not in stored]
    sizes: dict[str, int | None] = {path: file.size_bytes for path, file in stored.items()}
    sizes |= zip(unlisted, files.sizes(unlisted), strict=True)

    def differs(file: PublishedFile) -> bool:
        size_bytes = sizes[file.path]
        if file.path.endswith(PARTITION_METADATA):
            # Another writer, such as Hudi, may have made it first, with another time and another size.
            return not size_bytes
        if size_bytes != len(file.content):
            return True
        content = files.read(file.path, len(file.content))
        return content is None or content.body != file.content

    with ThreadPoolExecutor(_READERS, thread_name_prefix="chronolake-check") as threads:
        flags = list(threads.map(differs, expected))
    return [file for file, is_different in zip(expected, flags, strict=True) if is_different]


def put_right(
    files: Files, expected: Sequence[PublishedFile], stored: Mapping[str, StoredFile]
) -> list[PublishedFile]:
    """Write those files that are missing or differ, in order, and return them."""
    wrong = differing(files, expected, stored)
    for file in wrong:
        _put(files, file)
    return wrong


def _is_of_hudi(path: str, adopted_at: str) -> bool:
    """Whether Hudi wrote a file before the table was adopted: instants of later times are of other writers.

    An instant that was requested before, and has completed since, is of another writer too.
    """
    folder, _, name = path.rpartition("/")
    if folder == METADATA_FOLDER:
        return not name[:17].isdigit() or name[:17] <= adopted_at
    last = name.partition(".")[0].rpartition("_")[2]
    return folder != TIMELINE_FOLDER or last <= adopted_at


def _is_archived(path: str, before: str | None) -> bool:
    """Whether a file is one of the history, or of an instant that is leaving the timeline."""
    if before is None:
        return False
    match = _PUBLISHED_TIME.fullmatch(path)
    return _HISTORY.fullmatch(path) is not None or (match is not None and match[1] < before)


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")
