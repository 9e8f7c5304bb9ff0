"""The state of ``chronolake check``, which compares files with the timeline and finds duplicate records.

One base file is read at a time, row group by row group. To find duplicates, the key of a record in a wrong
bucket is also searched in the right bucket. At most ``MISPLACED_MAX`` such keys are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import _file_checks, errors
from chronolake._file_checks import EXAMPLES_MAX, BaseFile, FileLayout
from chronolake.storage import open_files, open_filesystem
from chronolake_hudi.errors import DamagedFile, UnsupportedFormat
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.checks import AWAITS_ROLLBACK, CheckResult, Finding, FindingKind, FindingTotal
from chronolake_model.file_names import FileKind, bucket_of, parse_file_name
from chronolake_model.files import DataFile, FileSlice
from chronolake_model.orphans import Orphan, OrphanReason
from chronolake_model.partition_paths import Spelling, are_kept
from chronolake_model.schemas import TableSchema
from chronolake_model.tables import Field, Table
from chronolake_model.vocabulary import IndexType
from chronolake_storage import claims
from chronolake_storage.publications import Inspection

MISPLACED_MAX: Final = 1_000_000
"""The most keys in wrong buckets that are kept to find duplicates."""
FINDINGS_MAX: Final = 1_000
"""The most findings of one kind in the report; the totals count all."""
_ACCOUNTED_FOR: Final = (OrphanReason.PENDING, OrphanReason.LEASE_ENDED)

_Group = tuple[str, int]


class Run:
    """The state of one check, and its blocking reads of files. ``_async.checks`` sends the requests."""

    def __init__(
        self,
        table: Table,
        storage_options: Mapping[str, str],
        schemas: Iterable[TableSchema],
        as_of: str | None,
    ) -> None:
        self._table = table.name
        self._is_adopted = ADOPTED_PROPERTY in table.properties
        self._as_of = as_of
        self._filesystem, self._root = open_filesystem(table.base_path, storage_options)
        self._storage_options = storage_options
        self._base_path, self._metastore_id = table.base_path, table.metastore_id
        self._layout = _layout_of(table, schemas, as_of)
        self._findings: dict[FindingKind, list[Finding]] = defaultdict(list)
        self._totals: Counter[FindingKind] = Counter()
        self._records_of: Counter[FindingKind] = Counter()
        self._is_committed: dict[str, bool] = {}
        self._misplaced: dict[_Group, dict[str, str]] = defaultdict(dict)
        self._misplaced_count = 0
        self._misplaced_skipped = 0
        self._files_of_dropped_tables = 0
        self._logs: list[DataFile] = []
        self._checks_texts_of_logs = False
        self._files = self._files_read = self._records = self._log_files = self._skipped = 0

    def check_names_and_sizes(self, slices: Iterable[FileSlice]) -> list[BaseFile]:
        """Check names and sizes of all files of the slices; returns the base files that can be read."""
        return [base_file for slice_ in slices for base_file in self._readable(slice_)]

    def sample_of(self, base_files: list[BaseFile], sample: int | None) -> list[BaseFile]:
        """The base files to read: all, or ``sample`` of them, spread evenly."""
        if sample is None or sample >= len(base_files):
            return base_files
        self._skipped = len(base_files) - sample
        return [base_files[number * len(base_files) // sample] for number in range(sample)]

    @property
    def records(self) -> int:
        """The number of records read so far."""
        return self._records

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it unless there are ``FINDINGS_MAX`` of its kind."""
        self._totals[finding.kind] += 1
        self._records_of[finding.kind] += finding.records
        if len(self._findings[finding.kind]) < FINDINGS_MAX:
            self._findings[finding.kind].append(finding)

    def report(self) -> CheckResult:
        """The report of the findings so far."""
        kinds = [kind for kind in FindingKind if self._totals[kind]]
        return CheckResult(
            self._table,
            self._as_of,
            self._files,
            self._files_read,
            self._records,
            [FindingTotal(kind, self._totals[kind], self._records_of[kind]) for kind in kinds],
            [finding for kind in kinds for finding in self._findings[kind]],
            list(self._not_covered()),
        )

    def add_orphan(self, orphan: Orphan) -> None:
        """Add an unpublished file in storage. A file of a pending instant is not a finding."""
        if orphan.reason is OrphanReason.DROPPED_TABLE:
            self._files_of_dropped_tables += 1
        elif orphan.reason not in _ACCOUNTED_FOR:
            self.add(Finding(FindingKind.FOREIGN_FILE, orphan.path, 0, [_origin(orphan)]))

    def check_claim(self) -> bool:
        """Report a foreign claim of the base path; give whether it is unclaimed or this metastore's."""
        try:
            files = open_files(self._base_path, self._storage_options)
        except ValueError:
            # A storage without conditional puts has no claims.
            return True
        claim = claims.foreign(files, self._metastore_id)
        if claim is not None:
            example = f"it is of the metastore {claim.metastore_id}, which made it at {claim.claimed_at}"
            self.add(Finding(FindingKind.FOREIGN_CLAIM, claims.PATH, 0, [example]))
        return claim is None

    def add_publication(self, inspection: Inspection) -> None:
        """Add what differs from the publication for Hudi's readers."""
        for path in inspection.foreign:
            self.add(Finding(FindingKind.FOREIGN_HUDI_FILE, path, 0, []))
        for path, reason in inspection.damaged.items():
            self.add(Finding(FindingKind.WRONG_HUDI_FILE, path, 0, [reason]))

    def _readable(self, slice_: FileSlice) -> Iterator[BaseFile]:
        """The base file of a slice, unless its name or size is wrong. Log files are only checked."""
        self._log_files += len(slice_.log_files)
        for log in slice_.log_files:
            self._has_right_name(log, slice_)
            if self._is_whole(log):
                self._logs.append(log)
        base = slice_.base_file
        if base is None:
            return
        is_whole, has_right_name = self._is_whole(base), self._has_right_name(base, slice_)
        if is_whole and has_right_name:
            yield self._base_file(base, slice_)

    def _is_whole(self, file: DataFile) -> bool:
        self._files += 1
        try:
            info = self._filesystem.get_file_info(f"{self._root}/{file.path}")
        except OSError as exc:
            raise errors.StorageFailed(f"{self._root}/{file.path}: {exc}") from exc
        if not info.is_file:
            self.add(Finding(FindingKind.MISSING_FILE, file.path, 0, []))
        elif info.size != file.size_bytes:
            example = f"{info.size} bytes in storage, {file.size_bytes} bytes on the timeline"
            self.add(Finding(FindingKind.WRONG_SIZE, file.path, 0, [example]))
        return bool(info.is_file and info.size == file.size_bytes)

    def _has_right_name(self, file: DataFile, slice_: FileSlice) -> bool:
        partition_path, _, file_name = file.path.rpartition("/")
        try:
            name = parse_file_name(file_name)
            bucket = None if self._layout.buckets is None else bucket_of(name.file_id)
        except ValueError as exc:
            self.add(Finding(FindingKind.WRONG_NAME, file.path, 0, [str(exc)]))
            return False
        # Hudi named log files of table version 6 after their base file.
        is_after_base = (
            self._is_adopted and name.kind is FileKind.LOG and name.requested_time < file.requested_time
        )
        time = file.requested_time if is_after_base else name.requested_time
        actual = (partition_path, name.file_id, time)
        expected = (slice_.partition_path, slice_.file_id, file.requested_time)
        is_bucket = bucket is None or bucket < (self._layout.buckets or 0)
        if actual != expected or not is_bucket:
            example = f"the timeline has {slice_.file_id} of {file.requested_time} in {slice_.partition_path!r}"
            self.add(Finding(FindingKind.WRONG_NAME, file.path, 0, [example]))
        return actual == expected and is_bucket

    def _base_file(self, base: DataFile, slice_: FileSlice) -> BaseFile:
        bucket = None if self._layout.buckets is None else bucket_of(slice_.file_id)
        return BaseFile(
            base.path,
            slice_.partition_path,
            bucket,
            base.requested_time,
            base.records,
            base.schema_version,
            base.has_field_ids,
        )

    def read(self, stated: BaseFile) -> Mapping[str, int]:
        """Check the contents of a base file; returns the number of records per commit time."""
        self._files_read += 1
        try:
            with self._opened(stated.path) as file:
                contents = _file_checks.check(file, stated, self._layout)
        except (pa.ArrowException, OSError) as exc:
            self.add(Finding(FindingKind.UNREADABLE_FILE, stated.path, 0, [str(exc).splitlines()[0][:300]]))
            return {}
        self._records += contents.records
        for finding in contents.findings:
            self.add(finding)
        for key, bucket in contents.misplaced:
            self._keep(stated, key, bucket)
        return contents.commit_times

    def check_texts_of_logs(self) -> None:
        """Find records with strings that are not UTF-8 in log files."""
        self._checks_texts_of_logs = True
        for log in self._logs:
            tally = _file_checks.Tally(log.path)
            try:
                with self._filesystem.open_input_stream(f"{self._root}/{log.path}") as stream:
                    _file_checks.check_texts_of_log(stream, log.path, log.size_bytes, tally)
            except UnsupportedFormat:
                continue
            except (pa.ArrowException, OSError, DamagedFile) as exc:
                example = str(exc).splitlines()[0][:300]
                self.add(Finding(FindingKind.UNREADABLE_FILE, log.path, 0, [example]))
            for finding in tally.findings():
                self.add(finding)

    @contextmanager
    def _opened(self, path: str) -> Iterator[pq.ParquetFile]:
        with (
            self._filesystem.open_input_file(f"{self._root}/{path}") as source,
            pq.ParquetFile(source) as file,
        ):
            yield file

    def unknown_commit_times(self, counts: Iterable[str]) -> list[str]:
        """The valid commit times whose completion times must still be fetched."""
        unknown = [time for time in counts if time not in self._is_committed]
        self._is_committed |= dict.fromkeys(unknown, False)
        return [time for time in unknown if time.isdigit() and len(time) in (17, 20)]

    def learn_completion_times(self, times: Sequence[str], completion_times: Sequence[str | None]) -> None:
        """Store for each commit time whether its instant had completed as of the time of the check."""
        for time, completed in zip(times, completion_times, strict=True):
            self._is_committed[time] = completed is not None and completed <= (self._as_of or "")

    def check_commit_times(self, stated: BaseFile, counts: Mapping[str, int]) -> None:
        """Check that each record's commit is completed, and is the file's own instant or an earlier one."""
        wrong = [time for time in counts if not self._is_committed[time] or time > stated.requested_time]
        if wrong:
            records = sum(counts[time] for time in wrong)
            examples = [f"{time!r}" for time in wrong[:EXAMPLES_MAX]]
            self.add(Finding(FindingKind.WRONG_COMMIT_TIME, stated.path, records, examples))

    # ---- keys that two files of a partition have

    def _keep(self, stated: BaseFile, key: str, bucket: int) -> None:
        keys = self._misplaced[stated.partition_path, bucket]
        if key in keys:
            if keys[key] != stated.path:
                self._add_duplicates(stated.path, [(key, keys[key])])
        elif self._misplaced_count == MISPLACED_MAX:
            self._misplaced_skipped += 1
        else:
            keys[key] = stated.path
            self._misplaced_count += 1

    def find_duplicates(self, base_files: Iterable[BaseFile]) -> None:
        """Find keys in two files: keys in wrong buckets, and keys of buckets with two file groups."""
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
        duplicates = []
        own: dict[str, str] = {}
        try:
            with self._opened(stated.path) as file:
                for keys in _file_checks.keys_of(file, self._layout):
                    for key in keys.drop_null().to_pylist():
                        if known.get(key, stated.path) != stated.path:
                            duplicates.append((key, known[key]))
                        if keeps:
                            own[key] = stated.path
        except (pa.ArrowException, OSError, KeyError):
            # The check of the file has already reported that it, or a key column, cannot be read.
            return
        known |= own
        if duplicates:
            self._add_duplicates(stated.path, duplicates)

    def _add_duplicates(self, path: str, duplicates: list[tuple[str, str]]) -> None:
        examples = [f"the key {key!r} is in {other} too" for key, other in duplicates[:EXAMPLES_MAX]]
        self.add(Finding(FindingKind.DUPLICATE_KEY, path, len(duplicates), examples))

    def _not_covered(self) -> Iterator[str]:
        if self._skipped:
            yield f"{self._skipped} base files were not read, because only a sample was requested"
        if self._log_files:
            texts = "names, and their strings," if self._checks_texts_of_logs else "names"
            yield f"{self._log_files} log files: only existence, sizes and {texts} were checked"
        if self._files_of_dropped_tables:
            yield f"{self._files_of_dropped_tables} files of dropped tables, which are never deleted"
        if self._layout.buckets is None:
            yield "duplicate keys across the files of a partition: this check needs a bucket index"
        if self._misplaced_skipped:
            yield (
                f"duplicates of {self._misplaced_skipped} keys in wrong buckets: only the first "
                f"{MISPLACED_MAX:,} such keys are compared"
            )


def _origin(orphan: Orphan) -> str:
    # Markers of a rolled-back instant stay until its rollback has completed.
    awaits_rollback = orphan.reason is OrphanReason.ROLLED_BACK and orphan.has_marker
    return AWAITS_ROLLBACK if awaits_rollback else str(orphan.reason)


def _layout_of(table: Table, schemas: Iterable[TableSchema], as_of: str | None) -> FileLayout:
    fields: dict[str, Field] = {field.name: field for field in table.schema}
    return FileLayout(
        [fields[name] for name in table.record_key_fields],
        [] if are_kept(table.properties) else [fields[name] for name in table.partition_fields],
        table.buckets_as_of(as_of) if table.index.type is IndexType.BUCKET else None,
        {schema.schema_version: schema.fields for schema in schemas},
        Spelling.of(table.properties),
    )
