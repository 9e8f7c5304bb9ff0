"""The contents of log files in Arrow: records and deletes, to blocks and back.

Blocks of records are Parquet, or Avro where the table says so (docs/concepts/hudi.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake import field_ids
from chronolake.slices import arrow_types, base_files, columns, errors, layouts, log_merge, ordering_values
from chronolake.slices.base_files import TableFolder
from chronolake.slices.log_merge import LogContents
from chronolake.slices.log_partials import Parts
from chronolake.slices.ordering_values import Values
from chronolake.slices.stored_slices import SliceFile
from chronolake_hudi import avro_schema, log_blocks, log_files
from chronolake_hudi.errors import DamagedFile, HudiFormatError, UnsupportedFormat
from chronolake_hudi.log_blocks import DeletedRecord, OrderingValue, Wrapper
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock
from chronolake_model.file_names import parse_file_name
from chronolake_model.meta_columns import IS_DELETED
from chronolake_model.publication import LOG_BLOCKS_PROPERTY
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import TableType

_OPERATION: Final = "_hoodie_operation"
"""A column that Hudi's writers of changelogs put after its five: ``D`` in a record that deletes its key."""
_DELETED: Final = "D"
BLOCK_ROWS: Final = 250_000
"""Records of a block at most: Hudi's readers hold a block in memory."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of a table's log files: the Avro schema for headers, and the kind of blocks.

    ``obstacle`` is why Avro blocks cannot hold the table's columns.
    """

    schema: str
    has_avro_blocks: bool
    obstacle: str | None = None

    @classmethod
    def of(cls, table_name: str, fields: Sequence[SchemaField], *, has_avro_blocks: bool) -> LogFormat:
        """The format for a table ``namespace.name`` with these columns."""
        name = table_name.rpartition(".")[2]
        problems = avro_schema.problems(fields) if has_avro_blocks else ()
        return cls(
            avro_schema.encode(avro_schema.of_table(name, fields, meta=True)),
            has_avro_blocks=has_avro_blocks,
            obstacle=next(iter(problems), None),
        )

    @classmethod
    def of_table(cls, table: Table) -> LogFormat | None:
        """The format of a merge-on-read table; None for another."""
        if table.type is not TableType.MERGE_ON_READ:
            return None
        return cls.of(table.name, table.schema, has_avro_blocks=has_avro_blocks(table))


def has_avro_blocks(table: Table) -> bool:
    """Whether blocks of records of a table are Avro, and not Parquet."""
    return table.properties.get(LOG_BLOCKS_PROPERTY) == "avro"


@dataclass(frozen=True, slots=True)
class _Block:
    """The records or the deletes of a block. ``columns`` are those that its records have, None for all.

    ``flagged`` are records whose flag says that their keys are deleted. ``place`` is the instant by which
    the block is compared with others, ``compacted`` the instants whose blocks it takes the place of.
    """

    instant: str
    place: str
    compacted: Sequence[str]
    records: pa.Table
    flagged: pa.Table
    deletes: Sequence[DeletedRecord] = ()
    columns: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Undone:
    """The command that takes back the blocks of an instant before it."""

    instant: str


def write(
    folder: TableFolder,
    path: str,
    time: str,
    format_: LogFormat,
    records: pa.Table,
    deleted: Sequence[DeletedRecord],
) -> int:
    """Write a log file of the instant ``time`` and return its size in bytes."""
    with folder.create(path) as sink:
        for first in range(0, len(records), BLOCK_ROWS):
            sink.write(log_files.encode(_data_block(time, format_, records.slice(first, BLOCK_ROWS))))
        if deleted:
            sink.write(log_files.encode(log_blocks.delete_block(time, format_.schema, deleted)))
        return int(sink.tell())


@dataclass(frozen=True, slots=True)
class CompactedContents:
    """The contents of a log compaction: the latest change of each key in the blocks of the ``instants``.

    Each of ``records`` has the records with the same columns, and whether they lack some of the table's.
    """

    instants: Sequence[str]
    records: Sequence[tuple[pa.Table, bool]]
    deleted: Sequence[DeletedRecord]


def write_compacted(
    folder: TableFolder, path: str, time: str, table: Table, contents: CompactedContents
) -> int:
    """Write the log file of the log compaction ``time`` and return its size in bytes."""
    times = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(contents.instants)}
    is_avro = has_avro_blocks(table)
    all_columns = LogFormat.of(table.name, table.schema, has_avro_blocks=is_avro)
    with folder.create(path) as sink:
        for records, is_partial in contents.records:
            present = [field for field in table.schema if field.name in records.column_names]
            format_ = LogFormat.of(table.name, present, has_avro_blocks=is_avro)
            header = times | {HeaderKey.IS_PARTIAL: "true"} if is_partial else times
            for first in range(0, len(records), BLOCK_ROWS):
                block = _data_block(time, format_, records.slice(first, BLOCK_ROWS))
                sink.write(log_files.encode(log_blocks.with_header(block, header)))
        if contents.deleted or not contents.records:
            block = log_blocks.delete_block(time, all_columns.schema, contents.deleted)
            sink.write(log_files.encode(log_blocks.with_header(block, times)))
        return int(sink.tell())


def read(
    folder: TableFolder,
    files: Iterable[tuple[SliceFile, Sequence[SchemaField]]],
    layout: pa.Schema,
    ordering_fields: Sequence[str],
) -> LogContents:
    """The contents of log files, each with the columns of the schema version that it was written with.

    Raises ``LogFileDamaged`` and ``LogFileUnsupported``.
    """
    parts: list[list[_Block | _Undone]] = []
    replaced: set[str] = set()
    # A log compaction is later than the files that it replaces: they need not be read.
    for file, fields in reversed(list(files)):
        if _instant_of(file.path) in replaced:
            continue
        with _errors_of(file.path), _opened(folder, file) as stream:
            blocks = log_files.read(stream, file.size_bytes, file.path)
            parts.append(list(_read_blocks(blocks, file, fields, layout, ordering_fields)))
        replaced.update(
            instant for block in parts[-1] if isinstance(block, _Block) for instant in block.compacted
        )
    counting = _not_undone(block for part in reversed(parts) for block in part)
    contents = _contents(_compacted(counting), layout, ordering_fields)
    return dataclasses.replace(
        contents, instants=frozenset(replaced.union(block.instant for block in counting))
    )


def _instant_of(path: str) -> str | None:
    """The instant in the name of a log file; None for another name."""
    try:
        return parse_file_name(path.rpartition("/")[2]).requested_time
    except ValueError:
        return None


def _read_blocks(
    blocks: Iterable[LogBlock],
    file: SliceFile,
    fields: Sequence[SchemaField],
    layout: pa.Schema,
    ordering_fields: Sequence[str],
) -> Iterator[_Block | _Undone]:
    for block in blocks:
        if (problem := log_blocks.obstacle(block, ordering_fields)) is not None:
            raise UnsupportedFormat(file.path, problem, log_blocks.COMPACT)
        if block.type is BlockType.COMMAND:
            yield _Undone(log_blocks.rolled_back_instant(block, file.path))
        elif block.type is not BlockType.CDC_DATA:
            yield _block(block, file, fields, layout)


def _not_undone(blocks: Iterable[_Block | _Undone]) -> list[_Block]:
    counting: list[_Block] = []
    for block in blocks:
        if isinstance(block, _Undone):
            counting = [other for other in counting if other.instant != block.instant]
        else:
            counting.append(block)
    return counting


def deleted_records(
    keys: pa.Table, partition_path: str, fields: Sequence[SchemaField], values: Values
) -> list[DeletedRecord]:
    """Deletes of keys; ``values`` are their ordering values in the columns ``fields``, none or null for none.

    Raises ``LogFileUnsupported`` if the ordering values have a type that delete blocks do not hold.
    """
    names = keys[columns.RECORD_KEY].to_pylist()
    if not values:
        return [DeletedRecord(name, partition_path) for name in names]
    with _errors_of("a log file"):
        wrappers = [log_blocks.wrapper_of(field.type) for field in fields]
    rows = zip(*(_plain(array).to_pylist() for array in values), strict=True)
    return [
        DeletedRecord(name, partition_path, _ordering_values(wrappers, row))
        for name, row in zip(names, rows, strict=True)
    ]


def _ordering_values(wrappers: Sequence[Wrapper], row: Sequence[Any]) -> tuple[OrderingValue | None, ...]:
    """The ordering values of a delete; empty if all are null."""
    if all(value is None for value in row):
        return ()
    return tuple(
        None if value is None else OrderingValue(wrapper, value)
        for wrapper, value in zip(wrappers, row, strict=True)
    )


def _data_block(time: str, format_: LogFormat, records: pa.Table) -> LogBlock:
    if format_.obstacle is not None:
        raise errors.LogFileUnsupported(
            f"the table has {LOG_BLOCKS_PROPERTY}=avro, and {format_.obstacle}; set the property to parquet, "
            "or change the column"
        )
    if format_.has_avro_blocks:
        numbers = records.cast(arrow_types.with_numbers_for_times(records.schema))
        return log_blocks.avro_block(time, format_.schema, numbers.to_pylist(maps_as_pydicts="strict"))
    sink = pa.BufferOutputStream()
    schema = arrow_types.without_small_integers(records.schema)
    base_files.write_rows(sink, schema, [records.cast(schema)])
    return log_blocks.parquet_block(time, format_.schema, sink.getvalue().to_pybytes())


def _block(block: LogBlock, file: SliceFile, fields: Sequence[SchemaField], layout: pa.Schema) -> _Block:
    instant = block.instant_time
    if instant is None:
        raise DamagedFile(file.path, "a block has no instant in its header", log_blocks.COMPACT)
    compacted = log_blocks.compacted_instants(block)
    if any(other >= instant for other in compacted):
        problem = f"a block of the log compaction {instant} takes the place of blocks of later instants"
        raise DamagedFile(file.path, problem, log_blocks.COMPACT)
    if block.type is BlockType.DELETE:
        deletes = log_blocks.read_deletes(block, file.path)
        return _Block(instant, instant, compacted, layout.empty_table(), layout.empty_table(), deletes)
    records, flagged, names = _records(block, file, fields, layout)
    return _Block(instant, instant, compacted, records, flagged, columns=names)


def _compacted(blocks: Sequence[_Block]) -> Iterator[_Block]:
    """The blocks without those that log compactions have replaced.

    Hudi reads a compacted block where the last of those was that it replaces: blocks of instants that began
    before the compaction, and are not in it, are later.
    """
    replaced = {block.instant: block.compacted for block in blocks if block.compacted}

    def place(instant: str) -> str:
        return max(map(place, replaced[instant])) if instant in replaced else instant

    gone = {instant for instants in replaced.values() for instant in instants}
    for block in blocks:
        if block.instant not in gone:
            yield dataclasses.replace(block, place=place(block.instant))


def _contents(blocks: Iterable[_Block], layout: pa.Schema, ordering_fields: Sequence[str]) -> LogContents:
    types = log_merge.types_of(layout, ordering_fields)
    records, deletes = [layout.empty_table()], [_deletes([], "", types)]
    times: list[pa.Array] = []
    partial: list[frozenset[str]] = []
    of_record: list[npt.NDArray[np.int64]] = []
    for block in blocks:
        records.append(block.records)
        # The record's own commit time, for that is what a base file would have.
        own = block.records[columns.COMMIT_TIME].cast(pa.string())
        times += _compared_times(own, block).chunks
        deletes.append(_deletes(block.deletes, block.place, types))
        deletes.append(_flagged(block, ordering_fields))
        if block.columns is not None:
            partial.append(block.columns)
        of_record.append(np.full(len(own), 0 if block.columns is None else len(partial), np.int64))
    return LogContents(
        pa.concat_tables(records),
        pa.concat_tables(deletes),
        pa.chunked_array(times, pa.string()),
        Parts(np.concatenate(of_record), partial) if partial else None,
    )


def _compared_times(own: pa.ChunkedArray, block: _Block) -> pa.ChunkedArray:
    """The commit times by which the records of a block are compared.

    Records of Hudi's log compactions have the time of the compaction, which is later than their place. Those of
    Chronolake's keep their own.
    """
    if block.place == block.instant:
        return own
    return pc.if_else(pc.equal(own, block.instant), block.place, own)


def _records(
    block: LogBlock, file: SliceFile, fields: Sequence[SchemaField], layout: pa.Schema
) -> tuple[pa.Table, pa.Table, frozenset[str] | None]:
    """The records of a block, those flagged as deleted, and the columns that they have; None for all."""
    names = set(log_blocks.columns_of(block)) if block.is_partial else None
    if block.type is BlockType.AVRO_DATA:
        stored = _only(arrow_types.file_layout(fields), names)
        read = pa.schema([*stored, pa.field(_OPERATION, pa.string())])
        rows = pa.Table.from_pylist(list(log_blocks.read_avro(block, file.path)), schema=read)
        return *_split(rows, stored, layout), _present(stored, layout, names)
    with pq.ParquetFile(pa.BufferReader(block.content)) as parquet:
        stored = _only(layouts.stored_schema(parquet, None if file.has_field_ids else fields, file.path), names)
        flags = {IS_DELETED, _OPERATION} & {*parquet.schema_arrow.names}
        rows = parquet.read(columns=list({*layouts.columns_of(stored, layout), *flags}))
        return *_split(rows, stored, layout), _present(stored, layout, names)


def _split(rows: pa.Table, stored: pa.Schema, layout: pa.Schema) -> tuple[pa.Table, pa.Table]:
    """Rows of a file in a layout, and those of them that are flagged as deleted."""
    records = layouts.in_layout(rows, stored, layout)
    is_deleted = np.zeros(len(rows), dtype=np.bool_)
    if IS_DELETED in rows.column_names:
        is_deleted |= pc.fill_null(rows[IS_DELETED], False).to_numpy(zero_copy_only=False)
    if _OPERATION in rows.column_names:
        is_deleted |= pc.fill_null(pc.equal(rows[_OPERATION], _DELETED), False).to_numpy(zero_copy_only=False)
    if not is_deleted.any():
        return records, layout.empty_table()
    return records.filter(pa.array(~is_deleted)), records.filter(pa.array(is_deleted))


def _only(stored: pa.Schema, names: Collection[str] | None) -> pa.Schema:
    return stored if names is None else pa.schema([field for field in stored if field.name in names])


def _present(stored: pa.Schema, layout: pa.Schema, names: Collection[str] | None) -> frozenset[str] | None:
    """The columns of the layout that the records of a block have."""
    if names is None:
        return None
    known = {field_ids.of(field) for field in stored}
    return frozenset(field.name for field in layout if field_ids.of(field) in known)


def _deletes(deleted: Sequence[DeletedRecord], time: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    arrays = {
        log_merge.KEY: pa.array([record.record_key for record in deleted], pa.large_string()),
        log_merge.TIME: pa.array([time] * len(deleted), pa.string()),
    }
    for number, (name, type_) in enumerate(types.items()):
        # Deletes may be older than some of the ordering fields. So in Hudi, fewer values come before more.
        values = [_value_at(record.ordering_values, number, type_) for record in deleted]
        arrays[name] = _typed(values, type_)
    return pa.table(arrays)


def _value_at(values: Sequence[OrderingValue | None], number: int, type_: pa.DataType) -> Any:
    value = values[number] if number < len(values) else None
    if value is None or (value == log_blocks.NO_VALUE and not ordering_values.is_zero_for_null(type_)):
        return None
    return value.value


def _flagged(block: _Block, ordering_fields: Sequence[str]) -> pa.Table:
    """The deletes of keys by flagged records, with their ordering values."""
    arrays = {
        log_merge.KEY: block.flagged[columns.RECORD_KEY].cast(pa.large_string()),
        log_merge.TIME: pa.repeat(block.place, len(block.flagged)).cast(pa.string()),
    }
    names = log_merge.orderings(len(ordering_fields))
    own = [block.flagged[name] for name in ordering_fields]
    return pa.table(arrays | dict(zip(names, own, strict=True)))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ordering values as delete blocks have them: days and microseconds for dates and timestamps."""
    if pa.types.is_date(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _typed(values: Sequence[Any], ordering_type: pa.DataType) -> pa.Array:
    if pa.types.is_date(ordering_type):
        return pa.array(values, pa.int32()).cast(ordering_type)
    if pa.types.is_timestamp(ordering_type):
        return pa.array(values, pa.int64()).cast(ordering_type)
    return pa.array(values, ordering_type)


@contextlib.contextmanager
def _opened(folder: TableFolder, file: SliceFile) -> Iterator[pa.NativeFile]:
    try:
        stream = folder.filesystem.open_input_stream(folder.path(file.path), buffer_size=1 << 20)
    except FileNotFoundError as exc:
        raise DamagedFile(
            file.path,
            "it is on the table's timeline but not in storage",
            "restore it, or restore the table to a savepoint before it was lost",
        ) from exc
    with stream:
        yield stream


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Turns the errors of the format into those of the integration."""
    try:
        yield
    except UnsupportedFormat as exc:
        raise errors.LogFileUnsupported(str(exc), {"path": path}) from exc
    except HudiFormatError as exc:
        raise errors.LogFileDamaged(str(exc), {"path": path}) from exc
    except pa.ArrowInvalid as exc:
        detail = f"{path}: its content cannot be read ({exc}); restore the file from a copy"
        raise errors.LogFileDamaged(detail, {"path": path}) from exc
