"""A Hudi table as it lies in storage: its properties, its timeline, and its data files. Nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake_hudi import internal_schemas, java_properties, metadata, properties, timeline_files
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.internal_schemas import InternalSchema
from chronolake_hudi.metadata import (
    CleanMetadata,
    CommitMetadata,
    CompactionPlan,
    Metadata,
    ReplaceCommitMetadata,
    SavepointMetadata,
)
from chronolake_hudi.properties import TableConfig
from chronolake_hudi.timeline_files import Layout, TimelineFile
from chronolake_model.file_names import DataFileName, parse_file_name
from chronolake_model.vocabulary import Action, State
from chronolake_storage.files import Files, StoredFile

READERS: Final = 16
"""Files of the timeline that are read at once."""
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
PROPERTIES_BYTES_MAX: Final = 1024 * 1024
DAMAGED_ADVICE: Final = "restore the file from a copy, or remove the instant with Hudi's tools"
_WRITES: Final = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
_PARTITION_METADATA: Final = ".hoodie_partition_metadata"
_INSTANT: Final = re.compile(r"[0-9]{14,}[._]")


class StoredInstant(msgspec.Struct, frozen=True, kw_only=True):
    """An instant of the active timeline, or of the archived one.

    ``action`` is the one in the names of its files: of a completed compaction it is commit. ``paths`` are its
    files, or the file that it was archived in. ``commit``, ``clean`` or ``savepoint`` is what its completed
    file holds, ``plan`` the plan of a compaction or log compaction.
    """

    requested_time: str
    action: Action
    state: State
    paths: list[str]
    completion_time: str | None = None
    commit: CommitMetadata | None = None
    clean: CleanMetadata | None = None
    savepoint: SavepointMetadata | None = None
    plan: CompactionPlan | None = None
    is_archived: bool = False

    @property
    def is_completed_write(self) -> bool:
        """Whether it has completed, and may have written files."""
        return self.state is State.COMPLETED and self.action in _WRITES

    @property
    def is_schema_only(self) -> bool:
        """Whether Chronolake published it for the creation of a table, or for a change of its schema.

        Such a commit has no files, and no other commit has the same requested and completion time.
        """
        return (
            self.is_completed_write
            and self.requested_time == self.completion_time
            and not self.replaced
            and self.commit is not None
            and not any(self.commit.partition_to_write_stats.values())
        )

    @property
    def replaced(self) -> Mapping[str, Sequence[str]]:
        """The ids of replaced file groups by partition path."""
        if isinstance(self.commit, ReplaceCommitMetadata):
            return self.commit.partition_to_replace_file_ids
        return {}


class LogFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The instants of the blocks of a log file, and why some block cannot be read; None if all can."""

    instants: frozenset[str] = frozenset()
    problem: str | None = None


class Misfits(msgspec.Struct, frozen=True):
    """A record that Chronolake would write with another record key, or into another partition; None if none."""

    keys: str | None = None
    paths: str | None = None


class StoredTable(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the folder of a Hudi table.

    ``text`` are all properties as they are written. ``archived`` are the instants of the archived timeline, in
    the order of their requested times, some without what they have written; ``damaged_history`` says what of it
    cannot be read, and ``unread_history`` how many instants no table can have: their times are not 17 digits.
    ``records`` are the numbers of records, by path, of base files that no instant of the timeline names.
    ``data_files`` have the meaning of their names; ``other_files`` are all that are no data files. ``logs`` has
    what is in log files, by path. ``schemas`` are those of a table with schema on read. ``strays`` are
    files in folders that are no partitions: Hudi's readers do not see them.
    """

    base_path: str
    config: TableConfig
    stated: Mapping[str, str]
    text: bytes
    instants: Sequence[StoredInstant]
    data_files: Sequence[tuple[StoredFile, DataFileName]]
    other_files: Sequence[StoredFile]
    archived: Mapping[str, StoredInstant] = {}
    damaged_history: Sequence[str] = ()
    unread_history: int = 0
    records: Mapping[str, int] = {}
    logs: Mapping[str, LogFacts] = {}
    schemas: Sequence[InternalSchema] = ()
    misfits: Misfits = Misfits()
    strays: Sequence[StoredFile] = ()

    @property
    def layout(self) -> Layout:
        """The layout of its timeline."""
        return self.config.version.layout

    @property
    def first_active(self) -> str | None:
        """The first write after those that only a savepoint keeps on the timeline.

        Files of earlier instants that are not listed are of archived ones, and count as data.
        """
        saved = {instant.requested_time for instant in self.instants if instant.savepoint is not None}
        times = sorted(instant.requested_time for instant in self.instants if instant.is_completed_write)
        return next((time for time in times if time not in saved), times[-1] if times else None)


def read(files: Files, former: bytes | None = None) -> StoredTable:
    """The Hudi table below a base path.

    ``former`` are the properties that it had when it was adopted, which say where its former timeline is.
    Raises ``HudiFormatError`` if a file of it is damaged or of an unknown form, ``StorageError``.
    """
    stored = files.read(properties.PATH, PROPERTIES_BYTES_MAX)
    if stored is None:
        raise DamagedFile(
            f"{files.base_path}/{properties.PATH}", "there is no such file", "name the folder of a Hudi table"
        )
    text = stored.body if former is None else former
    config = properties.decode(text)
    instants = _instants(files, config.version.layout)
    listed, strays = _in_partitions(list(files.listing()), instants)
    data_files, other_files = _data_files(listed)
    return StoredTable(
        base_path=files.base_path,
        config=config,
        stated=java_properties.decode(text, properties.PATH),
        text=text,
        instants=instants,
        schemas=_schemas(files, instants),
        data_files=data_files,
        other_files=other_files,
        strays=strays,
    )


def timeline_paths(files: Files, layout: Layout) -> list[str]:
    """The files of the active timeline, relative to the base path, in order."""
    folder = layout.folder
    names = [file.file_name for file in files.listing(folder) if file.partition_path == folder]
    return sorted(f"{folder}/{name}" for name in names if _INSTANT.match(name))


def _in_partitions(
    listed: Sequence[StoredFile], instants: Iterable[StoredInstant]
) -> tuple[list[StoredFile], list[StoredFile]]:
    """The files in partitions, and those in other folders.

    A folder is a partition if it has Hudi's file of partition metadata, or if a commit names it.
    """
    folders = {
        path for instant in instants if instant.commit for path in instant.commit.partition_to_write_stats
    }
    folders |= {file.partition_path for file in listed if file.file_name.startswith(_PARTITION_METADATA)}
    inside = [file for file in listed if not file.partition_path or file.partition_path in folders]
    return inside, [file for file in listed if file.partition_path and file.partition_path not in folders]


def _data_files(
    listed: Iterable[StoredFile],
) -> tuple[list[tuple[StoredFile, DataFileName]], list[StoredFile]]:
    data_files, others = [], []
    for file in listed:
        try:
            data_files.append((file, parse_file_name(file.file_name)))
        except ValueError:
            others.append(file)
    return data_files, others


def _instants(files: Files, layout: Layout) -> list[StoredInstant]:
    by_instant: dict[tuple[str, bool], list[tuple[str, TimelineFile]]] = {}
    for path in timeline_paths(files, layout):
        try:
            file = timeline_files.parse_name(path.rpartition("/")[2], layout)
        except ValueError as exc:
            raise DamagedFile(path, str(exc), DAMAGED_ADVICE) from exc
        # In Hudi a savepoint has the requested time of the instant that it pins.
        key = file.requested_time, file.action is Action.SAVEPOINT
        by_instant.setdefault(key, []).append((path, file))
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda entries: _instant(files, layout, entries), by_instant.values()))


def _instant(files: Files, layout: Layout, entries: Sequence[tuple[str, TimelineFile]]) -> StoredInstant:
    completed = [(path, file) for path, file in entries if file.state is State.COMPLETED]
    if len(completed) > 1:
        raise DamagedFile(completed[1][0], f"{completed[0][0]} has completed the same instant", DAMAGED_ADVICE)
    paths = [path for path, _ in entries]
    plan = _plan(files, entries)
    if not completed:
        is_inflight = any(file.state is State.INFLIGHT for _, file in entries)
        # The inflight file of a commit names no action, that of a log compaction does.
        action = next(
            (file.action for _, file in entries if file.state is State.REQUESTED), entries[0][1].action
        )
        state = State.INFLIGHT if is_inflight else State.REQUESTED
        return StoredInstant(
            requested_time=entries[0][1].requested_time, action=action, state=state, paths=paths, plan=plan
        )
    [(path, file)] = completed
    return StoredInstant(
        requested_time=file.requested_time,
        action=file.action,
        state=State.COMPLETED,
        paths=paths,
        completion_time=file.completion_time,
        plan=plan,
        **contents(file.action, lambda kind: metadata.decode(content_of(files, path), kind, path, layout)),
    )


def contents(action: Action, decode: Callable[[type[Metadata]], Metadata]) -> dict[str, Any]:
    """The contents of the completed file of an instant, as the fields of ``StoredInstant``."""
    match action:
        case Action.REPLACECOMMIT:
            return {"commit": decode(ReplaceCommitMetadata)}
        case Action.COMMIT | Action.DELTACOMMIT:
            return {"commit": decode(CommitMetadata)}
        case Action.CLEAN:
            return {"clean": decode(CleanMetadata)}
        case Action.SAVEPOINT:
            return {"savepoint": decode(SavepointMetadata)}
        case _:
            return {}


def _plan(files: Files, entries: Iterable[tuple[str, TimelineFile]]) -> CompactionPlan | None:
    for path, file in entries:
        if file.state is State.REQUESTED and file.action in (Action.COMPACTION, Action.LOGCOMPACTION):
            return metadata.decode(content_of(files, path), CompactionPlan, path)
    return None


def _schemas(files: Files, instants: Iterable[StoredInstant]) -> list[InternalSchema]:
    """The schemas of a table with schema on read that are known; none of another."""
    key = internal_schemas.LATEST_KEY
    of_commits = [
        internal_schemas.latest(instant.commit.extra_metadata[key], instant.paths[-1])
        for instant in instants
        if instant.commit is not None and instant.commit.extra_metadata.get(key)
    ]
    if not of_commits:
        return []
    paths = (file.path for file in files.listing(internal_schemas.FOLDER))
    histories = [
        schema
        for path in paths
        if path.endswith(".schemacommit")
        for schema in internal_schemas.history(content_of(files, path), path)
    ]
    return [*histories, *of_commits]


def content_of(files: Files, path: str) -> bytes:
    """The content of a file. Raises ``DamagedFile`` if there is none."""
    content = files.read(path, FILE_BYTES_MAX)
    if content is None:
        raise DamagedFile(path, "the file has gone while the table was read", "stop the writers of the table")
    return content.body
