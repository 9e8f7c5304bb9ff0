"""Checks one base file with Arrow, against the table's schema and layout and its entry on the timeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake import _keys, _utf8, field_ids
from chronolake_hudi import log_blocks, log_files
from chronolake_hudi.log_files import BlockType, LogBlock
from chronolake_model import meta_columns as meta
from chronolake_model.checks import Finding, FindingKind
from chronolake_model.partition_paths import DEFAULT_SPELLING, Spelling
from chronolake_model.tables import Field, SchemaField

EXAMPLES_MAX: Final = 3
_EXAMPLE_CHARS_MAX: Final = 200
_SEQNO: Final = r"^(?P<time>\d+)_\d+_\d+$"
_TYPES: Final[Mapping[str, Callable[[pa.DataType], bool]]] = {
    "boolean": pa.types.is_boolean,
    "tinyint": pa.types.is_int8,
    "smallint": pa.types.is_int16,
    "int": pa.types.is_int32,
    "bigint": pa.types.is_int64,
    "float": pa.types.is_float32,
    "double": pa.types.is_float64,
    "string": lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_),
    "binary": lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_),
    "date": pa.types.is_date32,
    "timestamp": lambda type_: _is_moment(type_) and type_.tz is not None,
    "timestamp_ntz": lambda type_: _is_moment(type_) and type_.tz is None,
    "array": pa.types.is_list,
    "map": pa.types.is_map,
    "struct": pa.types.is_struct,
}


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of a table's files. ``buckets`` is None without a bucket index.

    ``columns`` has the columns of each version of the schema, with the names in that version. Key fields and
    partition fields are never renamed.
    """

    key_fields: Sequence[Field]
    partition_fields: Sequence[Field]
    buckets: int | None
    columns: Mapping[int, Sequence[SchemaField]]
    spelling: Spelling = DEFAULT_SPELLING


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The entry of a base file on the timeline; ``bucket`` is None without a bucket index."""

    path: str
    partition_path: str
    bucket: int | None
    requested_time: str
    records: int
    schema_version: int
    has_field_ids: bool


@dataclass(slots=True)
class Contents:
    """The result of the check of a file; ``misplaced`` has keys of other buckets, each with its bucket."""

    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    commit_times: dict[str, int] = field(default_factory=dict)
    """The number of records of each commit time."""
    misplaced: list[tuple[str, int]] = field(default_factory=list)


class Tally:
    """Counts the defects of one file by kind, with a few examples."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts: dict[FindingKind, int] = {}
        self._examples: dict[FindingKind, list[str]] = {}

    def of_file(self, kind: FindingKind, example: str) -> None:
        """Add a defect of the file itself."""
        self._counts.setdefault(kind, 0)
        self._exemplify(kind, example)

    def of_records(self, kind: FindingKind, where: pa.Array, example: Callable[[int], str]) -> None:
        """Add a defect of the rows for which ``where`` is true; ``example`` describes a row."""
        rows = np.flatnonzero(pc.fill_null(where, False).to_numpy(zero_copy_only=False))
        if len(rows):
            self._counts[kind] = self._counts.get(kind, 0) + len(rows)
        for row in rows[:EXAMPLES_MAX].tolist():
            self._exemplify(kind, example(row))

    def findings(self) -> list[Finding]:
        """The findings, one of each kind."""
        return [
            Finding(kind, self._path, count, self._examples.get(kind, []))
            for kind, count in self._counts.items()
        ]

    def _exemplify(self, kind: FindingKind, example: str) -> None:
        examples = self._examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(example[:_EXAMPLE_CHARS_MAX])


def check(file: pq.ParquetFile, stated: BaseFile, layout: FileLayout) -> Contents:
    """Check every record. It holds the keys of the file and one row group. Raises pyarrow's errors."""
    contents, tally = Contents(), Tally(stated.path)
    _check_field_ids(file.schema_arrow, stated, layout, tally)
    names = _readable(file.schema_arrow, stated, layout, tally)
    rows = _Rows(stated, layout, tally, contents)
    for table in _row_groups(file, names):
        contents.records += len(table)
        rows.check(table)
    rows.check_whole_file()
    if contents.records != stated.records:
        example = f"{contents.records} records in the file, {stated.records} on the timeline"
        tally.of_file(FindingKind.WRONG_RECORD_COUNT, example)
    contents.findings = tally.findings()
    return contents


def check_texts(table: pa.Table, name: str, tally: Tally) -> pa.Array | None:
    """Add the records with a string of this column that is not UTF-8.

    Returns for each record whether it is one; None if none is.
    """
    column = table[name]
    if _utf8.first_invalid(name, column) is None:
        return None
    wrong = _utf8.invalid_rows(column)

    def example(row: int) -> str:
        invalid = _utf8.first_invalid(name, column.slice(row, 1))
        assert invalid is not None, f"{name} is not valid in row {row}"
        keys = table[meta.RECORD_KEY] if meta.RECORD_KEY in table.column_names else pa.nulls(len(table))
        return f"{invalid.path}: {invalid.excerpt}, record key {_utf8.value_at(keys, row)}"

    tally.of_records(FindingKind.INVALID_TEXT, wrong, example)
    return wrong


def check_texts_of_log(stream: pa.NativeFile, path: str, size_bytes: int, tally: Tally) -> None:
    """Add the records and deletes with strings that are not UTF-8.

    Raises errors of the format, and pyarrow's.
    """
    for block in log_files.read(stream, size_bytes, path):
        if block.type is BlockType.PARQUET_DATA:
            records = pq.read_table(pa.BufferReader(block.content))
            for name in records.column_names:
                check_texts(records, name, tally)
        elif block.type in (BlockType.AVRO_DATA, BlockType.DELETE):
            _check_texts_of_avro(block, path, tally)


def _check_texts_of_avro(block: LogBlock, path: str, tally: Tally) -> None:
    examples = [_invalid_text(row, record) for row, record in enumerate(log_blocks.read_escaped(block, path))]
    is_wrong = pa.array([example is not None for example in examples], pa.bool_())
    tally.of_records(FindingKind.INVALID_TEXT, is_wrong, lambda row: examples[row] or "")


def _invalid_text(row: int, record: Mapping[str, Any]) -> str | None:
    invalid = _utf8.first_escaped(row, record)
    if invalid is None:
        return None
    key = str(record.get(meta.RECORD_KEY, record.get("recordKey")))
    shown = key.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return f"{invalid.path}: {invalid.excerpt}, record key {shown}"


def keys_of(file: pq.ParquetFile, layout: FileLayout) -> Iterator[pa.Array]:
    """The record keys of a file, computed from its key fields."""
    names = [field.name for field in layout.key_fields]
    for table in _row_groups(file, names):
        keys = _keys.record_keys(names, _texts(table, layout.key_fields))
        # Those that are not UTF-8 are findings of the file.
        yield (
            keys if _utf8.first_invalid("", keys) is None else keys.filter(pc.invert(_utf8.invalid_rows(keys)))
        )


def _row_groups(file: pq.ParquetFile, names: Sequence[str]) -> Iterator[pa.Table]:
    for index in range(file.num_row_groups):
        yield file.read_row_group(index, columns=list(names))


def _texts(table: pa.Table, fields: Sequence[Field]) -> list[pa.Array]:
    return [_keys.texts(table[field.name], field.type) for field in fields]


def _readable(schema: pa.Schema, stated: BaseFile, layout: FileLayout, tally: Tally) -> list[str]:
    """The columns that the checks of records can read; a missing or wrong column is added as a finding."""
    readable = []
    expected = [*(Field(name, "string") for name in meta.META), *layout.columns[stated.schema_version]]
    for column in expected:
        index = schema.get_field_index(column.name)
        if index < 0:
            tally.of_file(FindingKind.MISSING_COLUMN, column.name)
        elif not _is_of_type(schema.field(index).type, column.type):
            example = f"{column.name} is of type {schema.field(index).type}, not {column.type}"
            tally.of_file(FindingKind.WRONG_TYPE, example)
        else:
            readable.append(column.name)
    required = {*meta.META, *(field.name for field in (*layout.key_fields, *layout.partition_fields))}
    return [name for name in readable if name in required or _utf8.has_texts(schema.field(name).type)]


def _check_field_ids(schema: pa.Schema, stated: BaseFile, layout: FileLayout, tally: Tally) -> None:
    given = field_ids.ids_of(schema)
    if not stated.has_field_ids and not any(given.values()):
        return
    expected = field_ids.ids_of(field_ids.by_names(schema, layout.columns[stated.schema_version]))
    for path, field_id in given.items():
        if field_id is None or field_id != expected[path]:
            example = f"{path} has the field id {field_id}, not {expected[path]}"
            tally.of_file(FindingKind.WRONG_FIELD_ID, example)


def _is_of_type(given: pa.DataType, expected: str) -> bool:
    name = expected.strip().lower()
    if name.startswith("decimal"):
        precision, scale = (int(number) for number in name[name.index("(") + 1 : name.index(")")].split(","))
        return pa.types.is_decimal128(given) and (given.precision, given.scale) == (precision, scale)
    return _TYPES[name.partition("<")[0].strip()](given)


def _is_moment(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit in ("us", "ms")


class _Rows:
    """Checks the records of a file, row group by row group."""

    def __init__(self, stated: BaseFile, layout: FileLayout, tally: Tally, contents: Contents) -> None:
        self._stated = stated
        self._layout = layout
        self._tally = tally
        self._contents = contents
        self._keys: list[pa.Array] = []
        self._seqnos: list[pa.ChunkedArray] = []

    def check(self, table: pa.Table) -> None:
        """Check the records of one row group; checks that need a missing column are skipped."""
        table = self._with_valid_texts(table)
        names = set(table.column_names)
        self._check_places(table, names)
        if {meta.COMMIT_TIME, meta.COMMIT_SEQNO} <= names:
            self._check_commit(table)
        if self._layout.partition_fields and names >= {field.name for field in self._layout.partition_fields}:
            self._check_partition(table)
        if self._layout.key_fields and names >= {field.name for field in self._layout.key_fields}:
            self._check_keys(table, names)

    def check_whole_file(self) -> None:
        """Check that keys and sequence numbers are unique in the file."""
        example = "the key {!r} occurs more than once in the file"
        self._check_unique(FindingKind.DUPLICATE_KEY, self._keys, example)
        example = "{!r} occurs more than once in the file"
        self._check_unique(FindingKind.WRONG_COMMIT_SEQNO, self._seqnos, example)

    def _with_valid_texts(self, table: pa.Table) -> pa.Table:
        """The records without those that have a string that is not UTF-8: they are findings."""
        for name in table.column_names:
            if (wrong := check_texts(table, name, self._tally)) is not None:
                table = table.filter(pc.invert(wrong))
        return table

    def _check_places(self, table: pa.Table, names: set[str]) -> None:
        partition_path, _, file_name = self._stated.path.rpartition("/")
        for kind, name, expected in (
            (FindingKind.WRONG_PARTITION_PATH, meta.PARTITION_PATH, partition_path),
            (FindingKind.WRONG_FILE_NAME, meta.FILE_NAME, file_name),
        ):
            if name in names:
                given = table[name]
                wrong = pc.fill_null(pc.not_equal(given, expected), True)
                self._tally.of_records(kind, wrong, functools.partial(_quoted, given))

    def _check_commit(self, table: pa.Table) -> None:
        times, seqnos = table[meta.COMMIT_TIME], table[meta.COMMIT_SEQNO]
        for entry in pc.value_counts(times).to_pylist():
            time = entry["values"] or ""
            self._contents.commit_times[time] = self._contents.commit_times.get(time, 0) + entry["counts"]
        parts = pc.extract_regex(seqnos, _SEQNO)
        given = pc.struct_field(parts, "time")
        wrong = pc.fill_null(pc.not_equal(given.cast(times.type), times), True)
        self._tally.of_records(FindingKind.WRONG_COMMIT_SEQNO, wrong, functools.partial(_quoted, seqnos))
        self._seqnos.append(seqnos.combine_chunks().cast(pa.large_string()))

    def _check_partition(self, table: pa.Table) -> None:
        fields = self._layout.partition_fields
        try:
            values = [_keys.partition_texts(table[field.name], field.type) for field in fields]
            names = [field.name for field in fields]
            paths = _keys.partition_paths(names, values, self._layout.spelling)
        except pa.ArrowInvalid as exc:
            self._tally.of_file(FindingKind.WRONG_TYPE, str(exc))
            return
        wrong = pc.not_equal(paths, self._stated.partition_path)
        self._tally.of_records(FindingKind.WRONG_PARTITION, wrong, lambda row: f"belongs to {paths[row]}")

    def _check_keys(self, table: pa.Table, names: set[str]) -> None:
        fields = self._layout.key_fields
        try:
            texts = _texts(table, fields)
        except pa.ArrowInvalid as exc:
            self._tally.of_file(FindingKind.WRONG_TYPE, str(exc))
            return
        keys = _keys.record_keys([field.name for field in fields], texts)
        self._tally.of_records(FindingKind.NO_RECORD_KEY, pc.is_null(keys), lambda row: _text_of(texts, row))
        if meta.RECORD_KEY in names:
            given = table[meta.RECORD_KEY]
            wrong = pc.and_kleene(pc.is_valid(keys), pc.fill_null(pc.not_equal(given, keys), True))
            self._tally.of_records(
                FindingKind.WRONG_RECORD_KEY, wrong, lambda row: f"{given[row].as_py()!r}, not {keys[row]}"
            )
        if self._layout.buckets is not None and self._stated.bucket is not None:
            self._check_buckets(keys, _keys.buckets(texts, self._layout.buckets), self._stated.bucket)
        self._keys.append(keys)

    def _check_buckets(self, keys: pa.Array, buckets: npt.NDArray[np.int64], own: int) -> None:
        wrong = pc.and_(pa.array(buckets != own), pc.is_valid(keys))
        self._tally.of_records(
            FindingKind.WRONG_BUCKET, wrong, lambda row: f"the key {keys[row]} belongs to bucket {buckets[row]}"
        )
        rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        self._contents.misplaced += zip(
            keys.take(pa.array(rows)).to_pylist(), buckets[rows].tolist(), strict=True
        )

    def _check_unique(self, kind: FindingKind, parts: Sequence[Any], example: str) -> None:
        if not parts:
            return
        values = pa.concat_arrays(parts).drop_null()
        if pc.count_distinct(values).as_py() == len(values):
            return
        counts = values.value_counts()
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        extra = pa.array(np.ones(len(values) - len(counts), dtype=bool))
        repeated = twice.field("values")
        self._tally.of_records(kind, extra, lambda row: example.format(repeated[row % len(repeated)].as_py()))


def _quoted(values: pa.ChunkedArray, row: int) -> str:
    return repr(values[row].as_py())


def _text_of(texts: Sequence[pa.Array], row: int) -> str:
    return ", ".join(repr(text[row].as_py()) for text in texts)
