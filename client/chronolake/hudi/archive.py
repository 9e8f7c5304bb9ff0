"""The archived timeline of a Hudi table, which has the instants that have left the active one.

Layout 2 has Parquet files, named by a manifest; layout 1 has log files with a record for each state of an
instant (Hudi: LSMTimeline, HoodieArchivedMetaEntry). Nothing is changed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake.hudi import archived_instants, stored
from chronolake.hudi.stored import DAMAGED_ADVICE, READERS, StoredInstant, StoredTable
from chronolake_hudi import log_blocks, log_files, metadata
from chronolake_hudi.errors import DamagedFile, HudiFormatError
from chronolake_hudi.metadata import CompactionPlan
from chronolake_hudi.properties import HISTORY_PATH_KEY
from chronolake_hudi.timeline_files import Layout
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, State
from chronolake_storage import published_history
from chronolake_storage.errors import StorageError
from chronolake_storage.files import Files

_TIME: Final = re.compile(r"20[0-9]{15}", re.ASCII)
_LOG: Final = re.compile(r"\.commits_\.archive\.([0-9]+)(_.*)?", re.ASCII)
_TIMES: Final = ("instantTime", "completionTime", "action")
_DETAILS: Final = (*_TIMES, "metadata", "plan")
_IN_ENTRY: Final = {
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "clean": "hoodieCleanMetadata",
}
"""The field of a record of layout 1 that has the metadata of an action."""


class _Row(msgspec.Struct, frozen=True):
    """An instant as it was archived. ``metadata`` and ``plan`` are the bytes of a file, or records of Avro."""

    path: str
    requested_time: str
    completion_time: str | None
    action: str
    metadata: Any = None
    plan: Any = None


class _Found(msgspec.Struct):
    """The instants that were found, the damage, and the number of instants that no table can have."""

    instants: dict[str, StoredInstant] = {}
    damaged: list[str] = []
    unread: int = 0

    def add(self, row: _Row) -> None:
        """Add an instant, unless it was archived twice."""
        if row.requested_time in self.instants:
            return
        if not _is_time(row.requested_time):
            self.unread += 1
            return
        try:
            Action(row.action)
        except ValueError:
            self.damaged.append(f"the instant {row.requested_time} in {row.path} has the action {row.action!r}")
            return
        try:
            instant = _instant(row, row.metadata, row.plan)
        except (HudiFormatError, ValueError) as exc:
            self.damaged.append(f"the instant {row.requested_time} in {row.path}: {exc}")
            instant = _instant(row, None, None)
        self.instants[row.requested_time] = instant


def with_archived(
    table: StoredTable, files: Files, progress: Callable[[str], None] = lambda message: None
) -> StoredTable:
    """The table with the instants of its archived timeline. Damage is named, and left out.

    ``progress`` hears how many files were read.
    """
    found = _Found()
    if table.layout is Layout.ONE:
        paths, read = _logs(table, files), _rows_of_log
    else:
        paths, read = _parquet_files(table, files, found), _rows_of_parquet
    _read_files(files, paths, read, found, progress)
    table = msgspec.structs.replace(
        table,
        archived=dict(sorted(found.instants.items())),
        damaged_history=found.damaged,
        unread_history=found.unread,
    )
    return archived_instants.bounded(table)


def _logs(table: StoredTable, files: Files) -> list[str]:
    folder = f"{Layout.ONE.folder}/{table.config.others.get('hoodie.archivelog.folder') or 'archived'}"
    matches = [match for file in files.files_in(folder) if (match := _LOG.fullmatch(file.file_name))]
    return [f"{folder}/{match[0]}" for match in sorted(matches, key=lambda match: int(match[1]))]


def _parquet_files(table: StoredTable, files: Files, found: _Found) -> list[str]:
    folder = f"{Layout.TWO.folder}/{table.config.others.get(HISTORY_PATH_KEY) or 'history'}"
    try:
        manifest = published_history.present(files, folder)
    except StorageError as exc:
        found.damaged.append(str(exc))
        names = [file.file_name for file in files.files_in(folder) if file.file_name.endswith(".parquet")]
    else:
        names = [] if manifest is None else [entry.file_name for entry in manifest.files]
    return [f"{folder}/{name}" for name in sorted(names, key=lambda name: name.partition("_")[2])]


def _read_files(
    files: Files,
    paths: Sequence[str],
    read: Callable[[bytes, str, bool], Iterator[_Row]],
    found: _Found,
    progress: Callable[[str], None],
) -> None:
    """Read the files, the newest first, some at once."""

    def rows_of(path: str) -> list[_Row] | str:
        try:
            has_details = len(found.instants) < archived_instants.DETAILED_MAX
            return list(read(stored.content_of(files, path), path, has_details))
        except HudiFormatError as exc:
            return str(exc)

    newest_first = paths[::-1]
    with ThreadPoolExecutor(READERS) as readers:
        for at in range(0, len(newest_first), READERS):
            for rows in readers.map(rows_of, newest_first[at : at + READERS]):
                if isinstance(rows, str):
                    found.damaged.append(rows)
                    continue
                for row in rows:
                    found.add(row)
            if at:
                done = min(at + READERS, len(newest_first))
                progress(f"read {done:,} of {len(newest_first):,} files of Hudi's archived timeline")


def _rows_of_parquet(content: bytes, path: str, has_details: bool) -> Iterator[_Row]:
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        rows = pq.read_table(io.BytesIO(content), columns=[*(_DETAILS if has_details else _TIMES)]).to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError) as exc:
        raise DamagedFile(path, f"it is no file of the archived timeline ({exc})", DAMAGED_ADVICE) from exc
    for row in rows:
        yield _Row(
            path,
            row["instantTime"] or "",
            row["completionTime"],
            row["action"] or "",
            row.get("metadata") or None,
            row.get("plan"),
        )


def _rows_of_log(content: bytes, path: str, has_details: bool) -> Iterator[_Row]:
    plans: dict[str, Any] = {}
    for block in log_files.read(io.BytesIO(content), len(content), path):
        for entry in log_blocks.read_avro(block, path):
            time, action = entry.get("commitTime") or "", entry.get("actionType") or ""
            if (plan := entry.get("hoodieCompactionPlan")) is not None:
                plans[time] = plan
            if entry.get("actionState") == "COMPLETED":
                content_of_action = entry.get(_IN_ENTRY.get(action, "")) if has_details else None
                yield _Row(path, time, None, action, content_of_action, plans.get(time))


def _instant(row: _Row, content: Any, plan: Any) -> StoredInstant:
    """The instant of a row. Raises ``HudiFormatError`` and ``ValueError``."""
    action = Action(row.action)
    completion = row.completion_time
    is_time = completion is not None and _is_time(completion)
    is_compaction = plan is not None and action in (Action.COMMIT, Action.DELTACOMMIT)
    contents: dict[str, Any] = {}
    if content is not None:
        contents = stored.contents(action, lambda kind: _decoded(content, kind, row.path))
    return StoredInstant(
        requested_time=row.requested_time,
        action=action,
        state=State.COMPLETED,
        paths=[row.path],
        completion_time=completion if is_time and (completion or "") >= row.requested_time else None,
        plan=_decoded(plan, CompactionPlan, row.path) if is_compaction else None,
        is_archived=True,
        **contents,
    )


def _is_time(text: str) -> bool:
    if _TIME.fullmatch(text) is None:
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def _decoded(content: Any, kind: type[metadata.MetadataT], path: str) -> metadata.MetadataT:
    if isinstance(content, bytes):
        return metadata.decode(content, kind, path)
    return metadata.of_record(content, kind, path)
