"""The history of a published timeline in storage: Hudi's archived timeline (Hudi: LSMTimeline).

The folder has Parquet files of instants, manifests with the names of files, and ``_version_`` with the number
of the present manifest. Files come first, then the manifest, then ``_version_``, which is replaced and never
removed: without it Hudi's readers take the greatest number of all names that begin with ``manifest_``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake_model import decoding
from chronolake_model.publication import (
    FormerFile,
    FormerHistory,
    HistoryFile,
    HistoryInstant,
    HistoryRange,
    PublishedHistory,
)
from chronolake_model.vocabulary import Action
from chronolake_storage.errors import StorageError
from chronolake_storage.files import Files
from chronolake_storage.guard import Guard
from chronolake_storage.publishing import HISTORY_FOLDER, TIMELINE_FOLDER

VERSION_PATH: Final = f"{HISTORY_FOLDER}/_version_"
MANIFESTS_KEPT: Final = 3
"""Readers may be at work with a manifest before the present one."""
REMOVED_MAX: Final = 500
"""Files that leave the timeline in one run.

They are all on one page of a listing of S3: a reader that lists the timeline meanwhile misses a prefix, and no
instant after one that it sees."""
_MANIFEST_BYTES_MAX: Final = 256 * 1024 * 1024
_INSTANT_BYTES_MAX: Final = 256 * 1024 * 1024
_ROW_GROUP: Final = 1_000
_MANIFEST: Final = re.compile(r"manifest_([0-9]{1,9})")
_DATA: Final = re.compile(r"[0-9]{17}_(?P<last>[0-9]{17})_[012]\.parquet", re.ASCII)
_COMPLETED: Final = re.compile(
    r"(?P<time>[0-9]{17})_(?P<completion>[0-9]{17})\.(?!savepoint|restore|indexing)(?P<action>[a-z]+)", re.ASCII
)
"""Instants that leave the timeline: never those that Hudi keeps on it."""
_PENDING: Final = re.compile(
    r"(?P<time>[0-9]{17})(\.(?P<action>[a-z]+))?\.(?P<state>requested|inflight)", re.ASCII
)
_PLANNED: Final = frozenset({"clean", "compaction", "logcompaction", "clustering", "replacecommit"})
"""Actions whose plan is in the requested file; for the last two it may be in the inflight file."""
_LAST: Final = re.compile(r"[0-9]+_([0-9]+)_[0-9]\.parquet", re.ASCII)
_READERS: Final = 16
"""Files of the timeline that are copied at once."""
HistorySource = Sequence[HistoryInstant] | FormerHistory
"""Instants to write; or the history after which instants of Hudi's timeline are copied."""


class HistoryListing(msgspec.Struct, frozen=True):
    """The state of a history in storage.

    ``valid`` are the reported files that are there, in their size. ``is_current`` says whether readers take the
    reported manifest, and ``last_manifest`` is the greatest number of a manifest; 0 without any. ``former`` is
    the history that another writer left, if none was reported; None if it is damaged.
    """

    valid: frozenset[str]
    is_current: bool
    last_manifest: int
    former: PublishedHistory | None = None


class HistoryEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A file of a history, with its size in bytes."""

    file_name: str
    file_len: int


class HistoryManifest(msgspec.Struct, frozen=True):
    """The files of a history."""

    files: list[HistoryEntry]


def present(files: Files, folder: str = HISTORY_FOLDER) -> HistoryManifest | None:
    """The manifest that readers take; None if there is no history.

    Raises ``StorageError`` if it is missing or damaged, or if a file that it names is.
    """
    listed = {file.file_name: file.size_bytes for file in files.files_in(folder)}
    version = files.read(f"{folder}/_version_") if "_version_" in listed else None
    text = b"" if version is None else version.body
    number = int(text) if text.isdigit() else max(_manifests(listed), default=0)
    if not number:
        return None
    manifest = _read_manifest(files, number, folder)
    if manifest is None:
        raise StorageError(f"{files.base_path}/{folder}/manifest_{number} is missing or damaged")
    wrong = [entry.file_name for entry in manifest.files if listed.get(entry.file_name) != entry.file_len]
    if wrong:
        raise StorageError(f"{files.base_path}/{folder}/{wrong[0]} is missing, or has another size")
    return manifest


def find(files: Files, written: PublishedHistory | None) -> HistoryListing:
    """Compare a history in storage with what was reported of it."""
    listed = {file.file_name: file.size_bytes for file in files.files_in(HISTORY_FOLDER)}
    last_manifest = max(_manifests(listed), default=0)
    if written is None:
        former = _former(files, last_manifest)
        return HistoryListing(frozenset(), is_current=False, last_manifest=last_manifest, former=former)
    names = {file.name: file.size_bytes for file in written.files}
    if written.former is not None:
        names |= {file.name: file.size_bytes for file in written.former.files}
    valid = frozenset(name for name, size_bytes in names.items() if listed.get(name) == size_bytes)
    if not written.manifest:
        return HistoryListing(valid, is_current=not last_manifest, last_manifest=last_manifest)
    version = files.read(VERSION_PATH)
    manifest = _read_manifest(files, written.manifest)
    is_current = version is not None and version.body == _version(written.manifest)
    return HistoryListing(
        valid,
        is_current=is_current and manifest == _manifest_of(written),
        last_manifest=max(last_manifest, written.manifest),
    )


def _former(files: Files, manifest: int) -> PublishedHistory | None:
    """The history that Hudi left, up to the first instant of its timeline."""
    try:
        found = present(files)
    except StorageError:
        return None
    names = (file.file_name for file in files.files_in(TIMELINE_FOLDER))
    before = min((match["time"] for name in names if (match := _COMPLETED.fullmatch(name))), default=None)
    if before is None:
        return None
    entries = [] if found is None else found.files
    former = FormerHistory(before, [FormerFile(entry.file_name, entry.file_len) for entry in entries])
    return PublishedHistory(before, manifest, [], former)


def _copies(files: Files, range_: HistoryRange, former: FormerHistory) -> list[HistoryInstant]:
    """The instants of a range of Hudi's timeline, byte for byte.

    If Hudi was killed while it archived, its history may have some of them already.
    """
    listed = [file.file_name for file in files.files_in(TIMELINE_FOLDER)]
    pending = {(match["time"], match["state"]): name for name in listed if (match := _PENDING.fullmatch(name))}

    def content(name: str | None) -> bytes | None:
        stored = None if name is None else files.read(f"{TIMELINE_FOLDER}/{name}", _INSTANT_BYTES_MAX)
        return None if stored is None else stored.body

    def copied(match: re.Match[str]) -> HistoryInstant:
        plans = [pending.get((match["time"], state)) for state in ("inflight", "requested")]
        requested = _PENDING.fullmatch(plans[1] or "")
        begun_as = None if requested is None else requested["action"]
        if begun_as not in _PLANNED:
            plans = []
        elif begun_as not in ("clustering", "replacecommit"):
            plans = plans[1:]
        plan = next((found for name in plans if (found := content(name))), None)
        return HistoryInstant(
            match["time"], match["completion"], Action(match["action"]), content(match[0]) or b"", plan
        )

    taken = {
        time
        for file in former.files
        if (last := _LAST.fullmatch(file.name)) and last[1] >= range_.begin
        for time in _times_in(files, file.name)
    }
    matches = [match for name in listed if (match := _COMPLETED.fullmatch(name))]
    wanted = [match for match in matches if range_.begin <= match["time"] < range_.end]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="chronolake-copy") as threads:
        return list(threads.map(copied, [match for match in wanted if match["time"] not in taken] or wanted))


def _times_in(files: Files, name: str) -> list[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    stored = files.read(f"{HISTORY_FOLDER}/{name}", _MANIFEST_BYTES_MAX)
    content = b"" if stored is None else stored.body
    return [*pq.read_table(io.BytesIO(content), columns=["instantTime"])["instantTime"].to_pylist()]


def write(files: Files, range_: HistoryRange, source: HistorySource) -> HistoryFile:
    """Write the file with the instants of a range, which readers find by a later manifest."""
    instants = _copies(files, range_, source) if isinstance(source, FormerHistory) else source
    if not instants:
        raise StorageError(
            f"{TIMELINE_FOLDER} lacks the instants requested from {range_.begin} to before {range_.end}, which "
            "Hudi wrote and the history does not have: restore their files"
        )
    ordered = sorted(instants, key=lambda instant: instant.requested_time)
    name = f"{ordered[0].requested_time}_{ordered[-1].requested_time}_{range_.level}.parquet"
    content = encode(ordered)
    files.put(f"{HISTORY_FOLDER}/{name}", content)
    return HistoryFile(name, len(content), range_.begin, range_.end, range_.level)


def differs(files: Files, name: str, instants: Sequence[HistoryInstant]) -> bool:
    """Whether a file has other instants. A file that is gone by now has none: a publisher has merged it."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    stored = files.read(f"{HISTORY_FOLDER}/{name}", _MANIFEST_BYTES_MAX)
    if stored is None:
        return False
    try:
        actual = pq.read_table(io.BytesIO(stored.body))
    except (pa.ArrowException, OSError):
        return True
    ordered = sorted(instants, key=lambda instant: instant.requested_time)
    expected = pq.read_table(io.BytesIO(encode(ordered)))
    return not actual.equals(expected)


def encode(instants: Sequence[HistoryInstant]) -> bytes:
    """The content of a file, as Parquet. A completion time is never null: Hudi's Java readers fail at one."""
    # Only a publisher of a long timeline needs pyarrow, which the client has as an extra.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns: dict[str, tuple[Any, list[Any]]] = {
        "instantTime": (pa.string(), [instant.requested_time for instant in instants]),
        "completionTime": (pa.string(), [instant.completion_time for instant in instants]),
        "action": (pa.string(), [str(instant.action) for instant in instants]),
        "metadata": (pa.binary(), [instant.metadata or None for instant in instants]),
        "plan": (pa.binary(), [instant.plan for instant in instants]),
        "version": (pa.int32(), [1] * len(instants)),
    }
    schema = pa.schema(
        [pa.field(name, kind, nullable=name != "version") for name, (kind, _) in columns.items()]
    )
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()}, schema)
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=_ROW_GROUP, compression="zstd")
    return content.getvalue()


def show(files: Files, history: PublishedHistory) -> None:
    """Let readers find the files of a history: from now on its instants may leave the timeline.

    Raises ``StorageError`` if another publisher has made the manifest meanwhile.
    """
    if not files.create(_manifest_path(history.manifest), msgspec.json.encode(_manifest_of(history))):
        raise StorageError(
            f"{files.base_path}/{_manifest_path(history.manifest)} was made by another publisher meanwhile; "
            "the next run continues"
        )
    files.put(VERSION_PATH, _version(history.manifest))


def remove_archived(files: Files, guard: Guard, before: str) -> bool:
    """Remove the oldest files of the timeline whose instants are in the history; whether some are left.

    The oldest first, one after the other: readers take an instant that is missing between two others for
    uncommitted. ``before`` is that of a history which readers find.
    """
    listed = [file.file_name for file in files.files_in(TIMELINE_FOLDER)]
    completed = [match for name in listed if (match := _COMPLETED.fullmatch(name)) and match["time"] < before]
    times = {match["time"] for match in completed}
    pending = [match for name in listed if (match := _PENDING.fullmatch(name)) and match["time"] in times]
    # Of an instant the completed file goes last: without it, the instant would be pending.
    order = {"requested": 0, "inflight": 1}
    names = [(match["time"], order[match["state"]], match[0]) for match in pending]
    names += [(match["time"], len(order), match[0]) for match in completed]
    paths = [f"{TIMELINE_FOLDER}/{name}" for *_, name in sorted(names)]
    if paths:
        guard.remove_published(paths[:REMOVED_MAX], in_order=True)
    return len(paths) > REMOVED_MAX


def remove_unused(files: Files, guard: Guard, history: PublishedHistory) -> None:
    """Remove the manifests before the last ones, and the files that no kept manifest names.

    A file with later instants than the history has may be one that another publisher has just written. Those of
    the former history, also unused ones, stay.
    """
    begin = "" if history.former is None else history.former.before
    listed = [file.file_name for file in files.files_in(HISTORY_FOLDER)]
    manifests = sorted(number for number in _manifests(listed) if number <= history.manifest)
    kept = manifests[-MANIFESTS_KEPT:]
    read = [_read_manifest(files, number) for number in kept]
    used = {entry.file_name for manifest in read if manifest is not None for entry in manifest.files}
    unused = [
        name
        for name in listed
        if (match := _DATA.fullmatch(name))
        and name not in used
        and begin <= name
        and match["last"] < history.before
    ]
    paths = [_manifest_path(number) for number in manifests if number not in kept]
    paths += [f"{HISTORY_FOLDER}/{name}" for name in unused]
    if paths:
        guard.remove_published(paths)


def _manifests(names: Iterable[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]


def _manifest_of(history: PublishedHistory) -> HistoryManifest:
    former = [] if history.former is None else history.former.files
    entries = [HistoryEntry(file.name, file.size_bytes) for file in former]
    return HistoryManifest([*entries, *(HistoryEntry(file.name, file.size_bytes) for file in history.files)])


def _read_manifest(files: Files, number: int, folder: str = HISTORY_FOLDER) -> HistoryManifest | None:
    """The manifest of a number; None if it is missing or damaged."""
    stored = files.read(f"{folder}/manifest_{number}", _MANIFEST_BYTES_MAX)
    try:
        return None if stored is None else decoding.decode(stored.body, HistoryManifest)
    except msgspec.DecodeError:
        return None


def _manifest_path(number: int) -> str:
    return f"{HISTORY_FOLDER}/manifest_{number}"


def _version(number: int) -> bytes:
    return str(number).encode()
