"""Hostile and damaged Avro files are refused in bounded time and memory, and without ending the process."""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import fastavro
import pytest
from hypothesis import given, strategies as st

from chronolake_hudi import avro_bounds, avro_files, avro_values, log_blocks
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock

SYNC = b"s" * 16
NULLS = {"type": "array", "items": "null"}


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    number, encoded = (number << 1) ^ (number >> 63), b""
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


NAMED = {"type": "record", "name": "inner", "fields": [{"name": "f", "type": "int"}]}
MANY: dict[str, Any] = {
    "empty arrays": ({"type": "array", "items": {"type": "array", "items": "int"}}, b"\0"),
    "empty maps": ({"type": "array", "items": {"type": "map", "values": "int"}}, b"\0"),
    "nulls": ({"type": "array", "items": ["int", "null"]}, b"\2"),
    "records": ({"type": "array", "items": NAMED}, b"\0"),
    "entries of maps": ({"type": "map", "values": "boolean"}, b"\0\0"),
}


@pytest.mark.parametrize("codec", [b"null", b"deflate"])
@pytest.mark.parametrize("case", MANY)
def test_a_record_of_too_many_values_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, case: str, codec: bytes
) -> None:
    monkeypatch.setattr(avro_values, "VALUES_MAX", 10_000)
    monkeypatch.setattr(avro_values, "_BYTES_UNCOUNTED", 100)
    type_, value = MANY[case]

    def encoded(values: int) -> bytes:
        content = long(values) + value * values + long(0)
        return container(record(type_), content if codec == b"null" else deflated(content), codec=codec)

    assert len(avro_files.decode(encoded(1_000), "p")["f0"]) in (1, 1_000)
    with pytest.raises(DamagedFile, match="more than 10,000 values"):
        avro_files.decode(encoded(11_000), "p")


def test_a_log_block_with_too_many_values_in_a_record_is_refused() -> None:
    values = avro_values.VALUES_MAX
    value = long(values) + bytes(values) + long(0)
    content = b"".join(number.to_bytes(4, "big") for number in (log_blocks.CONTENT_VERSION, 1, len(value)))
    schema = json.dumps(record({"type": "array", "items": nested(1)}))
    block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: schema}, content + value)
    with pytest.raises(DamagedFile, match="more than 10,000,000 values"):
        list(log_blocks.read_avro(block, "p"))


@pytest.mark.parametrize("encoded", [long(2**40), long(5), long(-5), long(1) + long(-2), b"\xff" * 200 + b"\1"])
def test_a_damaged_record_is_refused_when_its_values_are_counted(
    monkeypatch: pytest.MonkeyPatch, encoded: bytes
) -> None:
    monkeypatch.setattr(avro_values, "_BYTES_UNCOUNTED", 0)
    with pytest.raises(DamagedFile):
        avro_files.decode(container(record({"type": "array", "items": "string"}), encoded), "p")


PAIRS = st.fixed_dictionaries({"f0": st.floats(allow_nan=False), "f1": st.booleans()})
ENTRIES = st.fixed_dictionaries(
    {
        "f0": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "f1": st.dictionaries(st.text(max_size=5), st.binary(max_size=200), max_size=4),
        "f2": st.sampled_from(["A", "B"]),
        "f3": st.binary(min_size=3, max_size=3),
        "f4": PAIRS,
        "f5": PAIRS,
    }
)


@given(entries=st.lists(ENTRIES, max_size=20))
def test_values_are_counted_as_they_were_written(entries: list[dict[str, Any]]) -> None:
    entry = record(
        ["null", "long"],
        {"type": "map", "values": "bytes"},
        {"type": "enum", "name": "kind", "symbols": ["A", "B"]},
        {"type": "fixed", "name": "digest", "size": 3},
        record("double", "boolean") | {"name": "pair", "namespace": "a"},
        "a.pair",
    )
    schema = fastavro.parse_schema(
        record({"type": "array", "items": entry | {"name": "entry"}}, ["null", "entry"])
    )
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, {"f0": entries, "f1": None})
    of_entries = sum(1 + 6 + 2 * len(values["f1"]) + 2 * 2 for values in entries)

    counter = avro_values._Counter(content.getvalue())

    assert counter.is_bounded(schema)
    assert counter._left == avro_values.VALUES_MAX - 2 - of_entries


def test_a_length_beyond_the_file_is_refused() -> None:
    with pytest.raises(DamagedFile):
        avro_files.decode(container(record("bytes"), long(2**50)), "p")
    with pytest.raises(DamagedFile):
        avro_files.decode(b"Obj\x01" + long(2**60), "p")


def test_another_codec_is_refused() -> None:
    with pytest.raises(DamagedFile, match="zstandard"):
        avro_files.decode(container(record("bytes"), text(b"a"), codec=b"zstandard"), "p")
