"""Contents of blocks of log files: records as Parquet or Avro, keys to delete, and the command to roll back.

A block with records has the instant and the table's Avro schema, with the meta columns, in its header.

- Parquet (type 5): the content is a Parquet file. It is bytes here; pyarrow makes and reads it.
- Avro (type 3)::

      4     version of the content: 3
      4     number of records
      4     length of the first record, then the record in Avro's binary form; and so on

- Delete (type 1)::

      4     version of the content: 3
      4     length of the rest: a HoodieDeleteRecordList in Avro's binary form

- Command (type 0): no content. The header names the command, rollback, and the instant whose blocks before this
  one in the file do not count. Only table versions up to 6 have it; later ones delete log files instead.
"""

from __future__ import annotations

import enum
import functools
import io
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import fastavro
import msgspec

from chronolake_hudi import avro_bounds, avro_values, metadata_schemas
from chronolake_hudi.avro_files import UNREADABLE
from chronolake_hudi.errors import DamagedFile, UnsupportedFormat
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock
from chronolake_hudi.metadata_schemas import NAMESPACE, array, nullable, record
from chronolake_model import column_types, decoding

CONTENT_VERSION: Final = 3
_ROLLBACK: Final = "0"
"""The number of the command, as text (Hudi: HoodieCommandBlockTypeEnum)."""
_SEVERAL: Final = "ArrayWrapper"
"""Holds the values of several ordering fields."""
_LOCAL_DATE: Final = "LocalDateWrapper"
"""A date, in days since 1970, among several values."""
_INT: Final = struct.Struct(">i")
COMPACT: Final = "compact the table with the Hudi that wrote it"
"""The advice for a block that cannot be read."""
_ADVICE: Final = "restore the file from a copy, or restore the table to an instant before this file"

_PARTS: Final = ("type", "fields", "items", "values")
"""Members of a schema that have schemas in them."""
_TIMES_AS_NUMBERS: Final = ("date", "timestamp-micros", "local-timestamp-micros")


class Wrapper(enum.StrEnum):
    """The record that holds an ordering value in a delete block (Hudi: HoodieDeleteRecord.orderingVal).

    It must be the one of the ordering column's type: Hudi compares values of different classes and fails.
    """

    BOOLEAN = "BooleanWrapper"
    INT = "IntWrapper"
    LONG = "LongWrapper"
    FLOAT = "FloatWrapper"
    DOUBLE = "DoubleWrapper"
    BYTES = "BytesWrapper"
    STRING = "StringWrapper"
    DATE = "DateWrapper"
    DECIMAL = "DecimalWrapper"
    TIME_MICROS = "TimeMicrosWrapper"
    TIMESTAMP_MICROS = "TimestampMicrosWrapper"


class OrderingValue(msgspec.Struct, frozen=True):
    """An ordering value. A date is in days since 1970, a timestamp in microseconds."""

    wrapper: Wrapper
    value: bool | int | float | str | bytes | Decimal


class DeletedRecord(msgspec.Struct, frozen=True):
    """A key that a delete block deletes.

    With ``ordering_values``, one for each ordering field, the delete holds against records before it with
    smaller or the same values, without against all records before it. Hudi writes and reads an int 0 for none:
    a single int or date that is 0 does not come back, and its delete holds against all records.
    """

    record_key: str
    partition_path: str = ""
    ordering_values: tuple[OrderingValue | None, ...] = ()


NO_VALUE: Final = OrderingValue(Wrapper.INT, 0)
"""Hudi's ordering value for none, also among several."""

# A date goes as an int and timestamps as longs: Hudi fails on the wrappers that are named after them.
_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "boolean": Wrapper.BOOLEAN,
    "tinyint": Wrapper.INT,
    "smallint": Wrapper.INT,
    "int": Wrapper.INT,
    "date": Wrapper.INT,
    "bigint": Wrapper.LONG,
    "timestamp": Wrapper.LONG,
    "timestamp_ntz": Wrapper.LONG,
    "float": Wrapper.FLOAT,
    "double": Wrapper.DOUBLE,
    "string": Wrapper.STRING,
}
_VALUE_TYPES: Final[Mapping[Wrapper, object]] = {
    Wrapper.BOOLEAN: "boolean",
    Wrapper.INT: "int",
    Wrapper.LONG: "long",
    Wrapper.FLOAT: "float",
    Wrapper.DOUBLE: "double",
    Wrapper.BYTES: "bytes",
    Wrapper.STRING: "string",
    Wrapper.DATE: "int",
    Wrapper.DECIMAL: {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    Wrapper.TIME_MICROS: "long",
    Wrapper.TIMESTAMP_MICROS: "long",
}


def wrapper_of(type_text: str) -> Wrapper:
    """The wrapper for ordering values of a column of this type.

    Raises ``UnsupportedFormat`` for decimal, binary and nested types.
    """
    data_type = column_types.parse(type_text)
    wrapper = _WRAPPERS.get(column_types.spell(data_type))
    if wrapper is None:
        raise UnsupportedFormat(
            "a delete block",
            f"it cannot hold ordering values of type {type_text}, and a record that is deleted, or moves to "
            "another partition, needs one",
            "order by another column",
        )
    return wrapper


def parquet_block(instant_time: str, schema: str, content: bytes) -> LogBlock:
    """A block with the records of a Parquet file. ``schema`` is the Avro schema of the table.

    Columns of type tinyint and smallint must be plain int32 in the Parquet file, as they are in Avro: hudi-rs
    fails on narrower ones in log files.
    """
    return LogBlock(BlockType.PARQUET_DATA, _header(instant_time, schema), content)


def avro_block(instant_time: str, schema: str, records: Iterable[Mapping[str, object]]) -> LogBlock:
    """A block with records in Avro.

    Values are as fastavro takes them: ``Decimal``, days since 1970 or ``date``, microseconds or ``datetime``.
    Raises ``UnsupportedFormat`` when a record does not fit ``schema``.
    """
    content = io.BytesIO()
    count = 0
    content.write(_INT.pack(CONTENT_VERSION) + _INT.pack(0))
    try:
        parsed = _parsed(schema, "an Avro block")
        for values in records:
            encoded = io.BytesIO()
            fastavro.schemaless_writer(encoded, parsed, values, strict=True)
            content.write(_INT.pack(encoded.tell()) + encoded.getvalue())
            count += 1
    except UNREADABLE as exc:
        raise UnsupportedFormat(
            "an Avro block", f"a record does not fit its schema: {exc}", "correct it"
        ) from exc
    content.seek(_INT.size)
    content.write(_INT.pack(count))
    return LogBlock(BlockType.AVRO_DATA, _header(instant_time, schema), content.getvalue())


def delete_block(instant_time: str, schema: str, deleted: Sequence[DeletedRecord]) -> LogBlock:
    """A block that deletes records by their keys."""
    encoded = io.BytesIO()
    values = {"deleteRecordList": [_to_avro(deleted_record) for deleted_record in deleted]}
    fastavro.schemaless_writer(encoded, _delete_list(), values, strict=True)
    content = _INT.pack(CONTENT_VERSION) + _INT.pack(encoded.tell()) + encoded.getvalue()
    return LogBlock(BlockType.DELETE, _header(instant_time, schema), content)


def with_header(block: LogBlock, entries: Mapping[HeaderKey, str]) -> LogBlock:
    """The block with more entries in its header."""
    header: dict[int, str] = {**block.header}
    header.update({int(key): text for key, text in entries.items()})
    return LogBlock(block.type, header, block.content, block.footer)


def rollback_block(instant_time: str, target_instant_time: str) -> LogBlock:
    """A block that takes back the blocks of another instant before it in the file."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant_time,
        HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
        HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK,
    }
    return LogBlock(BlockType.COMMAND, header, b"")


def rolled_back_instant(block: LogBlock, path: str) -> str:
    """The instant whose blocks a command block takes back. Raises ``UnsupportedFormat`` for another command."""
    target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
    command = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
    if block.type is not BlockType.COMMAND or command != _ROLLBACK or target is None:
        raise UnsupportedFormat(path, f"the command {command} of a log file is unknown", COMPACT)
    return target


def obstacle(block: LogBlock, ordering_fields: Collection[str] = ()) -> str | None:
    """Why a block cannot be read; None if it can. ``COMPACT`` says what to do.

    ``ordering_fields`` are those of a table whose records are merged by them. Of the block's content only the
    first bytes matter, so that ``log_files.heads`` is enough. Blocks that are cut off are found there.
    """
    match block.type:
        case BlockType.HFILE_DATA:
            reason = "its records are in HFile, a format for Hudi's metadata table"
        case BlockType.COMMAND if block.header.get(HeaderKey.COMMAND_BLOCK_TYPE) != _ROLLBACK:
            reason = f"the command {block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)} is unknown"
        case BlockType.AVRO_DATA | BlockType.DELETE if (version := _content_version(block)) != CONTENT_VERSION:
            reason = f"its content has version {version}, not {CONTENT_VERSION}"
        case _ if block.is_partial and (missing := {*ordering_fields}.difference(columns_of(block))):
            names = ", ".join(sorted(missing))
            reason = f"its records have some of the columns, and not the ordering field {names}"
        case _:
            return None
    return f"a block of the type {block.type.name} cannot be read: {reason}"


def columns_of(block: LogBlock) -> list[str]:
    """The names of the columns in the schema of a block; none if it has no schema."""
    try:
        # Without a type: the first use of a Struct's decoder in several threads at once is not safe.
        schema = msgspec.json.decode(block.header.get(HeaderKey.SCHEMA, "{}"))
        return [str(field["name"]) for field in schema.get("fields", ())]
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return []


def compacted_instants(block: LogBlock) -> list[str]:
    """The instants whose blocks in the file group a block of a log compaction takes the place of."""
    text = block.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
    return [time for part in text.split(",") if (time := part.strip())]


def _content_version(block: LogBlock) -> int | None:
    head = block.content[: _INT.size]
    return int(_INT.unpack(head)[0]) if len(head) == _INT.size else None


def read_avro(block: LogBlock, path: str) -> Iterator[dict[str, Any]]:
    """The records of an Avro block, by the schema in its header.

    A date is in days since 1970, a timestamp in microseconds: Python's own end with the year 9999.
    Raises ``DamagedFile`` when the content ends too early or too late, and ``UnsupportedFormat`` for another
    version of the content.
    """
    return _avro_records(_Content(block, BlockType.AVRO_DATA, path))


def read_deletes(block: LogBlock, path: str) -> list[DeletedRecord]:
    """The keys that a delete block deletes. Raises as ``read_avro`` does."""
    records = _delete_records(_Content(block, BlockType.DELETE, path))
    return [_from_avro(values_of_record, path) for values_of_record in records]


def read_escaped(block: LogBlock, path: str) -> Iterator[dict[str, Any]]:
    """The records of an Avro block or of a delete block, also with strings that are not UTF-8.

    In such strings surrogates stand for bytes, as ``surrogateescape`` does. Raises as ``read_avro`` does.
    """
    content = _Content(block, block.type, path, unicode_errors="surrogateescape")
    return iter(_delete_records(content)) if block.type is BlockType.DELETE else _avro_records(content)


def _avro_records(content: _Content) -> Iterator[dict[str, Any]]:
    schema = content.schema()
    for _ in range(content.number()):
        encoded = content.take(content.number())
        yield content.record(encoded, schema)
    content.check_end()


def _delete_records(content: _Content) -> list[dict[str, Any]]:
    encoded = content.take(content.number())
    content.check_end()
    deleted: list[dict[str, Any]] = content.record(encoded, _delete_list())["deleteRecordList"]
    return deleted


class _Content:
    """The content of a block with a version at its beginning."""

    def __init__(
        self, block: LogBlock, expected: BlockType, path: str, *, unicode_errors: str = "strict"
    ) -> None:
        assert block.type is expected
        self._block = block
        self._path = path
        self._unicode_errors = unicode_errors
        self._offset = 0
        if (version := self.number()) != CONTENT_VERSION:
            raise UnsupportedFormat(
                path,
                f"a {expected.name} block has content of version {version}, not {CONTENT_VERSION}",
                COMPACT,
            )

    def take(self, size: int) -> bytes:
        end = self._offset + size
        if size < 0 or end > len(self._block.content):
            raise self.damaged(f"{size:,} bytes are due")
        taken = self._block.content[self._offset : end]
        self._offset = end
        return taken

    def number(self) -> int:
        (number,) = _INT.unpack(self.take(_INT.size))
        return int(number)

    def check_end(self) -> None:
        if self._offset != len(self._block.content):
            raise self.damaged("the content should end")

    def schema(self) -> metadata_schemas.Schema:
        text = self._block.header.get(HeaderKey.SCHEMA)
        if text is None:
            raise self.damaged("the header has no schema")
        try:
            return _parsed(text, self._path, times_as_numbers=True)
        except UNREADABLE as exc:
            raise self.damaged(f"the schema in the header is none ({exc})") from exc

    def record(self, encoded: bytes, schema: metadata_schemas.Schema) -> dict[str, Any]:
        stream = io.BytesIO(encoded)
        try:
            avro_values.refuse_many(encoded, schema, self._path, _ADVICE)
            # A record of a union with other records comes with its name.
            values: object = fastavro.schemaless_reader(
                stream,
                dict(schema),
                None,
                return_record_name=True,
                handle_unicode_errors=self._unicode_errors,
                return_record_name_override=True,
            )
        except UNREADABLE as exc:
            raise self.damaged(f"a record cannot be read ({type(exc).__name__}: {exc})") from exc
        if stream.tell() != len(encoded) or not isinstance(values, dict):
            raise self.damaged("a record is shorter than its length")
        return values

    def damaged(self, problem: str) -> DamagedFile:
        size = len(self._block.content)
        where = f"in a {self._block.type.name} block, at byte {self._offset:,} of {size:,}"
        return DamagedFile(self._path, f"{where}: {problem}", _ADVICE)


def _parsed(schema: str, path: str, *, times_as_numbers: bool = False) -> dict[str, Any]:
    content = decoding.decode(schema, dict[str, Any])
    avro_bounds.refuse_unbounded(content, path)
    parsed = fastavro.parse_schema(_with_numbers(content) if times_as_numbers else content)
    assert isinstance(parsed, dict)
    return parsed


def _with_numbers(schema: Any) -> Any:
    """The same schema, with plain numbers for dates and for timestamps in microseconds."""
    if isinstance(schema, list):
        return [_with_numbers(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: value for name, value in schema.items() if name != "logicalType" or value not in _TIMES_AS_NUMBERS
    }
    return kept | {name: _with_numbers(kept[name]) for name in _PARTS if name in kept}


def _header(instant_time: str, schema: str) -> dict[int, str]:
    return {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: schema}


@functools.cache
def _delete_list() -> dict[str, Any]:
    # A value is written as the number of its wrapper in this list: the order is part of the format.
    wrappers = [record(wrapper, value=value_type) for wrapper, value_type in _VALUE_TYPES.items()]
    items = ["null", *Wrapper, record(_LOCAL_DATE, value="int")]
    deleted = record(
        "HoodieDeleteRecord",
        recordKey=nullable("string"),
        partitionPath=nullable("string"),
        orderingVal=["null", *wrappers, record(_SEVERAL, wrappedValues=nullable(array(items)))],
    )
    return record("HoodieDeleteRecordList", deleteRecordList=array(deleted))


def _to_avro(deleted: DeletedRecord) -> dict[str, object]:
    return {
        "recordKey": deleted.record_key,
        "partitionPath": deleted.partition_path,
        "orderingVal": _wrapped(deleted.ordering_values),
    }


def _wrapped(values: Sequence[OrderingValue | None]) -> tuple[str, dict[str, object]]:
    if len(values) > 1:
        return f"{NAMESPACE}.{_SEVERAL}", {"wrappedValues": [_wrapped([value]) for value in values]}
    # Null is allowed too, but Java fails on it if the log has a record of the key before.
    value = next(iter(values), None) or NO_VALUE
    return f"{NAMESPACE}.{value.wrapper}", {"value": value.value}


def _from_avro(values: Mapping[str, Any], path: str) -> DeletedRecord:
    if values["recordKey"] is None:
        raise DamagedFile(path, "a delete block deletes a record without key", _ADVICE)
    return DeletedRecord(values["recordKey"], values["partitionPath"] or "", _unwrapped(values["orderingVal"]))


def _unwrapped(ordering: tuple[str, Mapping[str, Any]] | None) -> tuple[OrderingValue | None, ...]:
    if ordering is None:
        return ()
    name, wrapped = ordering[0].rpartition(".")[2], ordering[1]
    if name == _SEVERAL:
        return tuple(None if part is None else _value(part) for part in wrapped["wrappedValues"] or ())
    value = _value(ordering)
    return () if value == NO_VALUE else (value,)


def _value(wrapped: tuple[str, Mapping[str, Any]]) -> OrderingValue:
    name = wrapped[0].rpartition(".")[2]
    return OrderingValue(Wrapper.DATE if name == _LOCAL_DATE else Wrapper(name), wrapped[1]["value"])
