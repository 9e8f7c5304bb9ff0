"""Hostile and damaged Avro files are refused in bounded time and memory, and without ending the process."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from chronolake_hudi import avro_bounds, avro_files, log_blocks
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock

SYNC = b"s" * 16
NULLS = {"type": "array", "items": "null"}


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    number, encoded = number << 1, b""
    while number > 0x7F:
        encoded, number = encoded + bytes([number & 0x7F | 0x80]), number >> 7
    return encoded + bytes([number])


def text(content: bytes) -> bytes:
    return long(len(content)) + content


def container(schema: object, block: bytes, count: int = 1, codec: bytes = b"null") -> bytes:
    """An Avro file with a single block."""
    content = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    header = text(b"avro.schema") + text(content) + text(b"avro.codec") + text(codec)
    return b"Obj\x01" + long(2) + header + long(0) + SYNC + long(count) + text(block) + SYNC


def record(*types: object) -> dict[str, Any]:
    """A record with fields of these types."""
    fields = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(types)]
    return {"type": "record", "name": "r", "fields": fields}


def deflated(content: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(content) + deflating.flush()


def nested(levels: int) -> object:
    schema: object = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def by_reference(levels: int) -> dict[str, Any]:
    """A record whose fields each define a record with the one before."""
    types: list[object] = [{"type": "record", "name": "t0", "fields": [{"name": "f", "type": "int"}]}]
    for level in range(1, levels):
        fields = [{"name": "f", "type": f"t{level - 1}"}]
        types.append({"type": "record", "name": f"t{level}", "fields": fields})
    return record(*types)


UNBOUNDED: dict[str, Any] = {
    "a recursive record": record(["null", "r"]),
    "a recursive record by its full name": record(["null", "a.r"]) | {"namespace": "a"},
    "a recursive record in a namespace": record(record(["null", "a.r"]) | {"name": "inner"})
    | {"namespace": "a"},
    "a recursive map": record({"type": "map", "values": "r"}),
    "an array of nulls": record(NULLS),
    "a map of nulls": record({"type": "map", "values": "null"}),
    "an array of empty records": record({"type": "array", "items": record() | {"name": "empty"}}),
    "an array of fixed of no bytes": record(
        {"type": "array", "items": {"type": "fixed", "name": "no", "size": 0}}
    ),
    "a null in an object": record({"type": {"type": "null"}}),
    "an empty record": record(),
    "too many levels": record(nested(100)),
    "too many levels for the stack": b'{"type":"array","items":' * 5_000 + b'"int"' + b"}" * 5_000,
    "too many levels by names": by_reference(200),
    "an unknown type": record("nowhere"),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_a_schema_without_bounds_is_refused(case: str) -> None:
    # If it were read, the values would be deep, or endless.
    content = container(UNBOUNDED[case], b"\x02" * 200_000 + long(2**40) + b"\0")
    with pytest.raises(DamagedFile):
        avro_files.decode(content, "p")


@pytest.mark.parametrize("case", UNBOUNDED)
def test_a_log_block_with_a_schema_without_bounds_is_refused(case: str) -> None:
    schema = UNBOUNDED[case]
    stated = schema.decode() if isinstance(schema, bytes) else json.dumps(schema)
    value = b"\x02" * 200_000 + b"\0"
    content = b"".join(number.to_bytes(4, "big") for number in (log_blocks.CONTENT_VERSION, 1, len(value)))
    block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: stated}, content + value)
    with pytest.raises(DamagedFile):
        list(log_blocks.read_avro(block, "p"))


@pytest.mark.parametrize(
    "schema",
    [
        record(["null", "int"], [{"type": "null"}, "string"]),
        record({"type": "enum", "name": "e", "symbols": ["A"]}, "e", {"type": "fixed", "name": "x", "size": 1}),
        record(nested(20), {"type": {"type": "map", "values": "long"}}),
        record({"type": "int", "logicalType": "date"}),
        by_reference(20),
    ],
)
def test_an_ordinary_schema_is_not_refused(schema: object) -> None:
    avro_bounds.refuse_unbounded(schema, "p")


@pytest.mark.parametrize("count", [2, 2**60])
def test_a_number_of_records_is_refused_before_they_are_read(count: int) -> None:
    with pytest.raises(DamagedFile, match=f"has {count:,} values"):
        avro_files.decode(container(record("bytes"), text(b"a"), count), "p")


def test_a_record_that_inflates_beyond_its_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_files, "RECORD_BYTES_MAX", 1_000_000)

    within = container(record("bytes"), deflated(text(bytes(999_000))), codec=b"deflate")
    assert avro_files.decode(within, "p") == {"f0": bytes(999_000)}
    beyond = container(record("bytes"), deflated(text(bytes(1_000_000))), codec=b"deflate")
    with pytest.raises(DamagedFile, match="more than 1,000,000 bytes"):
        avro_files.decode(beyond, "p")


def test_a_length_beyond_the_file_is_refused() -> None:
    with pytest.raises(DamagedFile):
        avro_files.decode(container(record("bytes"), long(2**50)), "p")
    with pytest.raises(DamagedFile):
        avro_files.decode(b"Obj\x01" + long(2**60), "p")


def test_another_codec_is_refused() -> None:
    with pytest.raises(DamagedFile, match="zstandard"):
        avro_files.decode(container(record("bytes"), text(b"a"), codec=b"zstandard"), "p")
