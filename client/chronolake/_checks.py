"""``chronolake check``: every file of a snapshot held against the timeline, its records against each other.

One base file is read at a time, row group by row group. A record in the wrong bucket is looked for in the right
one once more, so that its twin is found; what is remembered for that is bounded by ``MISPLACED_MAX``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import _file_checks, errors
from chronolake._file_checks import EXAMPLES_MAX, BaseFile, Layout
from chronolake._reading import Reading
from chronolake.storage import open_filesystem
from chronolake_model.checks import AWAITS_ROLLBACK, Check, Finding, FindingKind, FindingTotal
from chronolake_model.file_names import bucket_of, parse_file_name
from chronolake_model.files import DataFile, FileSlice, Snapshot
from chronolake_model.orphans import Orphan, OrphanReason, Orphans
from chronolake_model.schemas import TableSchema
from chronolake_model.tables import Field, Table
from chronolake_model.times import Moment
from chronolake_model.vocabulary import IndexType

MISPLACED_MAX: Final = 1_000_000
"""Keys in wrong buckets that are remembered, to look for their twins."""
FINDINGS_MAX: Final = 1_000
"""Findings of one kind in the answer; the totals count all."""
_ACCOUNTED_FOR: Final = (OrphanReason.PENDING, OrphanReason.LEASE_ENDED)

Progress = Callable[[int, int, int], None]
"""Is told after each file: files read, files to read, records read."""
_Group = tuple[str, int]


class Checked(Protocol):
    """What must be known of a table."""

    @property
    def name(self) -> str:
        """``namespace.table``."""

    @property
    def definition(self) -> Table:
        """As ``Table.definition``."""

    @property
    def storage_options(self) -> dict[str, str]:
        """As ``Table.storage_options``."""

    def reading(self, as_of: Moment | None = None) -> Reading:
        """As ``Table.reading``."""

    def snapshot(self, as_of: Moment | None = None) -> Snapshot:
        """As ``Table.snapshot``."""

    def schemas(self) -> Iterator[TableSchema]:
        """As ``Table.schemas``."""

    def completion_times(self, requested_times: Iterable[str]) -> list[str | None]:
        """As ``Table.completion_times``."""

    def orphans(self) -> Orphans:
        """As ``Table.orphans``."""


def check(table: Checked, as_of: Moment | None, sample: int | None, on_progress: Progress) -> Check:
    """What ``Table.check`` answers. A reader's lease keeps cleans away from the files meanwhile."""
    with table.reading(as_of) as reading:
        slices = table.snapshot(reading.as_of).slices if reading.as_of is not None else []
        run = _Run(table, reading.as_of, on_progress)
        run.check(slices, sample)
    # What the check itself has to say comes first: listing a large store takes long.
    for orphan in table.orphans().orphans:
        if orphan.reason is OrphanReason.DROPPED_TABLE:
            run.files_of_dropped_tables += 1
        elif orphan.reason not in _ACCOUNTED_FOR:
            run.add(Finding(FindingKind.FOREIGN_FILE, orphan.path, 0, [_origin(orphan)]))
    return run.report()


def _origin(orphan: Orphan) -> str:
    # Markers of a rolled-back instant stay until its rollback has completed.
    awaits_rollback = orphan.reason is OrphanReason.ROLLED_BACK and orphan.has_marker
    return AWAITS_ROLLBACK if awaits_rollback else str(orphan.reason)


class _Run:
    """One check."""

    def __init__(self, table: Checked, as_of: str | None, on_progress: Progress) -> None:
        self._table = table
        self._as_of = as_of
        self._on_progress = on_progress
        self._filesystem, self._root = open_filesystem(table.definition.base_path, table.storage_options)
        self._layout = _layout_of(table)
        self._findings: dict[FindingKind, list[Finding]] = defaultdict(list)
        self._totals: Counter[FindingKind] = Counter()
        self._records_of: Counter[FindingKind] = Counter()
        self._commit_times: dict[str, bool] = {}
        self._misplaced: dict[_Group, dict[str, str]] = defaultdict(dict)
        self._misplaced_count = 0
        self._misplaced_left_out = 0
        self.files_of_dropped_tables = 0
        self._files = self._files_read = self._records = self._log_files = self._left_out = 0

    def check(self, slices: list[FileSlice], sample: int | None) -> None:
        """Check the files of these slices: all of them are there, ``sample`` base files are read."""
        base_files = [one for slice_ in slices for one in self._present(slice_)]
        wanted = _spread(base_files, sample)
        self._left_out = len(base_files) - len(wanted)
        for number, (stated, size_bytes) in enumerate(wanted, 1):
            self._read(stated, size_bytes)
            self._on_progress(number, len(wanted), self._records)
        self._find_twins(stated for stated, _ in base_files)

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it as long as there are few of its kind."""
        self._totals[finding.kind] += 1
        self._records_of[finding.kind] += finding.records
        if len(self._findings[finding.kind]) < FINDINGS_MAX:
            self._findings[finding.kind].append(finding)

    def report(self) -> Check:
        """What was found so far."""
        kinds = [kind for kind in FindingKind if self._totals[kind]]
        return Check(
            self._table.name,
            self._as_of,
            self._files,
            self._files_read,
            self._records,
            [FindingTotal(kind, self._totals[kind], self._records_of[kind]) for kind in kinds],
            [finding for kind in kinds for finding in self._findings[kind]],
            list(self._not_covered()),
        )

    def _present(self, slice_: FileSlice) -> Iterator[tuple[BaseFile, int]]:
        """The slice's base file, when it is worth reading; findings of what it is not read for."""
        self._log_files += len(slice_.log_files)
        for log in slice_.log_files:
            self._is_whole(log)
            self._is_named_right(log, slice_)
        base = slice_.base_file
        if base is None:
            return
        is_whole, is_named_right = self._is_whole(base), self._is_named_right(base, slice_)
        if is_whole and is_named_right:
            yield self._stated(base, slice_), base.size_bytes

    def _is_whole(self, file: DataFile) -> bool:
        self._files += 1
        try:
            found = self._filesystem.get_file_info(f"{self._root}/{file.path}")
        except OSError as exc:
            raise errors.StorageFailed(f"{self._root}/{file.path}: {exc}") from exc
        if not found.is_file:
            self.add(Finding(FindingKind.MISSING_FILE, file.path, 0, []))
        elif found.size != file.size_bytes:
            example = f"{found.size} bytes, and {file.size_bytes} on the timeline"
            self.add(Finding(FindingKind.WRONG_SIZE, file.path, 0, [example]))
        return bool(found.is_file and found.size == file.size_bytes)

    def _is_named_right(self, file: DataFile, slice_: FileSlice) -> bool:
        partition_path, _, file_name = file.path.rpartition("/")
        try:
            name = parse_file_name(file_name)
            bucket = None if self._layout.buckets is None else bucket_of(name.file_id)
        except ValueError as exc:
            self.add(Finding(FindingKind.WRONG_NAME, file.path, 0, [str(exc)]))
            return False
        said = (partition_path, name.file_id, name.requested_time)
        wanted = (slice_.partition_path, slice_.file_id, file.requested_time)
        is_bucket = bucket is None or bucket < (self._layout.buckets or 0)
        if said != wanted or not is_bucket:
            example = f"the timeline has {slice_.file_id} of {file.requested_time} in {slice_.partition_path!r}"
            self.add(Finding(FindingKind.WRONG_NAME, file.path, 0, [example]))
        return said == wanted and is_bucket

    def _stated(self, base: DataFile, slice_: FileSlice) -> BaseFile:
        bucket = None if self._layout.buckets is None else bucket_of(slice_.file_id)
        return BaseFile(
            base.path, slice_.partition_path, bucket, base.requested_time, base.records, base.schema_version
        )

    def _read(self, stated: BaseFile, size_bytes: int) -> None:
        self._files_read += 1
        try:
            with self._opened(stated.path) as file:
                contents = _file_checks.check(file, stated, self._layout)
        except (pa.ArrowException, OSError) as exc:
            self.add(Finding(FindingKind.UNREADABLE_FILE, stated.path, 0, [str(exc).splitlines()[0][:300]]))
            return
        self._records += contents.records
        for finding in contents.findings:
            self.add(finding)
        self._check_commit_times(stated, contents.commit_times)
        for key, bucket in contents.misplaced:
            self._remember(stated, key, bucket)

    @contextmanager
    def _opened(self, path: str) -> Iterator[pq.ParquetFile]:
        with (
            self._filesystem.open_input_file(f"{self._root}/{path}") as source,
            pq.ParquetFile(source) as file,
        ):
            yield file

    def _check_commit_times(self, stated: BaseFile, counts: Mapping[str, int]) -> None:
        """A record's commit is the file's own instant, or one that had completed when that was requested."""
        unknown = [time for time in counts if time not in self._commit_times]
        asked = [time for time in unknown if time.isdigit() and len(time) in (17, 20)]
        self._commit_times |= dict.fromkeys(unknown, False)
        for time, completed in zip(asked, self._table.completion_times(asked), strict=True):
            self._commit_times[time] = completed is not None and completed <= (self._as_of or "")
        wrong = [time for time in counts if not self._commit_times[time] or time > stated.requested_time]
        if wrong:
            records = sum(counts[time] for time in wrong)
            examples = [f"{time!r}" for time in wrong[:EXAMPLES_MAX]]
            self.add(Finding(FindingKind.WRONG_COMMIT_TIME, stated.path, records, examples))

    # ---- keys that are in a partition twice, in two files

    def _remember(self, stated: BaseFile, key: str, bucket: int) -> None:
        keys = self._misplaced[stated.partition_path, bucket]
        if key in keys:
            if keys[key] != stated.path:
                self._add_twins(stated.path, [(key, keys[key])])
        elif self._misplaced_count == MISPLACED_MAX:
            self._misplaced_left_out += 1
        else:
            keys[key] = stated.path
            self._misplaced_count += 1

    def _find_twins(self, base_files: Iterable[BaseFile]) -> None:
        """Look for keys that are in two files: misplaced ones, and those of a bucket with two file groups."""
        groups: dict[_Group, list[BaseFile]] = defaultdict(list)
        for stated in base_files:
            if stated.bucket is not None:
                groups[stated.partition_path, stated.bucket].append(stated)
        for group, files in groups.items():
            known = dict(self._misplaced.get(group, {}))
            if known or len(files) > 1:
                for stated in files:
                    self._compare(stated, known, keeps=len(files) > 1)

    def _compare(self, stated: BaseFile, known: dict[str, str], *, keeps: bool) -> None:
        twins = []
        own: dict[str, str] = {}
        try:
            with self._opened(stated.path) as file:
                for keys in _file_checks.keys_of(file, self._layout):
                    for key in keys.drop_null().to_pylist():
                        if known.get(key, stated.path) != stated.path:
                            twins.append((key, known[key]))
                        if keeps:
                            own[key] = stated.path
        except (pa.ArrowException, OSError, KeyError):
            # It is a finding already that the file, or its key columns, cannot be read.
            return
        known |= own
        if twins:
            self._add_twins(stated.path, twins)

    def _add_twins(self, path: str, twins: list[tuple[str, str]]) -> None:
        examples = [f"the key {key!r} is in {other} too" for key, other in twins[:EXAMPLES_MAX]]
        self.add(Finding(FindingKind.DUPLICATE_KEY, path, len(twins), examples))

    def _not_covered(self) -> Iterator[str]:
        if self._left_out:
            yield f"{self._left_out} base files were not read, because a sample was asked for"
        if self._log_files:
            yield f"{self._log_files} log files: only that they are there, with their sizes and names"
        if self.files_of_dropped_tables:
            yield f"{self.files_of_dropped_tables} files of dropped tables in the folder: never deleted"
        if self._layout.buckets is None:
            yield "keys that are in two files of a partition: only a bucket index says where a key belongs"
        if self._misplaced_left_out:
            yield f"twins of {self._misplaced_left_out} keys in wrong buckets, of which there are too many"


def _layout_of(table: Checked) -> Layout:
    definition = table.definition
    fields: dict[str, Field] = {one.name: one for one in definition.schema}
    return Layout(
        [fields[name] for name in definition.record_key_fields],
        [fields[name] for name in definition.partition_fields],
        definition.index.buckets if definition.index.type is IndexType.BUCKET else None,
        {one.schema_version: one.fields for one in table.schemas()},
    )


def _spread(files: list[Any], sample: int | None) -> list[Any]:
    """``sample`` of the files, spread evenly over all."""
    if sample is None or sample >= len(files):
        return files
    return [files[number * len(files) // sample] for number in range(sample)]
