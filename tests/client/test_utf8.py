"""Strings that are not UTF-8 are found in any Arrow column, with their row and the path within it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from chronolake import _file_checks, _utf8
from chronolake_hudi import avro_schema, log_blocks, log_files
from chronolake_hudi.log_files import LogBlock
from chronolake_model import meta_columns as meta
from chronolake_model.checks import Finding, FindingKind
from chronolake_model.tables import SchemaField

BAD = b"TREL\xc3"
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=4).map(str.encode),
    st.sampled_from([BAD, b"\xff", b"\xed\xa0\x80", b"\xc0\x80"]),
)


def strings(values: list[bytes | None]) -> pa.Array:
    """Any bytes as strings, which pyarrow does not check."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count)


def _is_utf8(text: bytes | None) -> bool:
    return text is None or text.decode(errors="replace").encode() == text


@given(chunks=st.lists(st.lists(TEXTS, max_size=12), max_size=3), start=st.integers(0, 4))
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_the_first_string_that_is_not_utf8_is_found_in_its_row(
    is_dictionary: bool, chunks: list[list[bytes | None]], start: int
):
    arrays = [strings(values).slice(start) for values in chunks]
    arrays = [array.dictionary_encode() for array in arrays] if is_dictionary else arrays
    type_ = pa.dictionary(pa.int32(), pa.string()) if is_dictionary else pa.string()
    column = pa.chunked_array(arrays, type_)
    values = [value for chunk in chunks for value in chunk[start:]]
    bad = [row for row, value in enumerate(values) if not _is_utf8(value)]

    invalid = _utf8.first_invalid("s", column)
    assert (None if invalid is None else (invalid.row, invalid.path, invalid.text)) == (
        (bad[0], "s", values[bad[0]]) if bad else None
    )
    assert [row for row, is_bad in enumerate(_utf8.invalid_rows(column).to_pylist()) if is_bad] == bad


TEXT = strings([b"a", BAD, b"c"])
STRUCTS = pa.StructArray.from_arrays([pa.array([1, 2, 3]), TEXT], ["n", "t"])


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (STRUCTS, "c.t"),
        (pa.ListArray.from_arrays([0, 1, 3, 3], TEXT), "c.element"),
        (pa.ListArray.from_arrays([0, 1, 3, 3], STRUCTS), "c.element.t"),
        (pa.MapArray.from_arrays([0, 1, 3, 3], TEXT, pa.array([1, 2, 3])), "c.key"),
        (pa.MapArray.from_arrays([0, 1, 3, 3], pa.array([1, 2, 3]), STRUCTS), "c.value.t"),
        (TEXT.cast(pa.large_string()), "c"),
    ],
    ids=["struct", "array", "array of structs", "key of a map", "value of a map", "large"],
)
def test_a_string_within_another_column_is_named_by_its_path(column: pa.Array, path: str):
    assert _utf8.first_invalid("c", column) == _utf8.NotUtf8(1, path, BAD)
    assert _utf8.first_invalid("c", column.slice(1)) == _utf8.NotUtf8(0, path, BAD)
    assert _utf8.first_invalid("c", column.slice(0, 1)) is None
    assert _utf8.first_invalid("c", column.slice(2)) is None
    assert _utf8.invalid_rows(column).to_pylist() == [False, True, False]


def test_columns_without_strings_are_not_searched():
    assert _utf8.first_invalid("b", pa.array([BAD], pa.binary())) is None
    assert not _utf8.has_texts(
        pa.struct([("b", pa.list_(pa.binary())), ("n", pa.map_(pa.int64(), pa.bool_()))])
    )


def test_a_check_finds_such_strings_in_the_records_of_a_log_file():
    keys = pa.array(["1", "2", "3"])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({meta.RECORD_KEY: keys, "s": TEXT, "n": [1, 2, 3]}), sink)
    block = log_blocks.parquet_block("20260101000000000", "{}", sink.getvalue().to_pybytes())

    [finding] = findings_of_log(log_files.encode(block))
    assert (finding.kind, finding.records) == (FindingKind.INVALID_TEXT, 1)
    assert finding.examples == [f"s: {BAD!r}, record key 2"]


def avro_string(text: bytes) -> bytes:
    """A short string in Avro's binary form, which may have any bytes."""
    return bytes([2 * len(text)]) + text


def with_bytes(block: LogBlock, text: str, other: bytes) -> bytes:
    """A log file of a block, with other bytes for a string in it; both have the same length."""
    assert len(text) == len(other)
    content = block.content.replace(avro_string(text.encode()), avro_string(other))
    return log_files.encode(LogBlock(block.type, block.header, content))


def findings_of_log(content: bytes) -> list[Finding]:
    tally = _file_checks.Tally("region=eu/.a.log.1_0-0-0")
    _file_checks.check_texts_of_log(pa.BufferReader(content), "a.log", len(content), tally)
    return tally.findings()


@pytest.mark.parametrize(
    ("type_", "column", "path"),
    [
        ("string", "here!", "s"),
        ("array<string>", ["a", "here!"], "s.element"),
        ("map<string, int>", {"here!": 1}, "s.key"),
        ("map<string, string>", {"k": "here!"}, "s.k"),
        ("struct<n: int, t: string>", {"n": 1, "t": "here!"}, "s.t"),
    ],
)
def test_a_check_finds_such_strings_in_records_of_avro(type_: str, column: object, path: str):
    fields = [SchemaField("id", "bigint", field_id=1), SchemaField("s", type_, field_id=2)]
    schema = avro_schema.encode(avro_schema.of_table("orders", fields, meta=True))
    record = {name: "x" for name in meta.META} | {"id": 1, "s": column}
    others = {name: "y" for name in meta.META} | {"id": 2, "s": None}
    block = log_blocks.avro_block("20260101000000000", schema, [others, record, others])

    assert findings_of_log(log_files.encode(block)) == []
    [finding] = findings_of_log(with_bytes(block, "here!", BAD))
    assert (finding.kind, finding.records) == (FindingKind.INVALID_TEXT, 1)
    assert finding.examples == [f"{path}: {BAD!r}, record key x"]


def test_a_check_finds_such_keys_of_records_that_a_log_file_deletes():
    deleted = [log_blocks.DeletedRecord("other", "eu"), log_blocks.DeletedRecord("here!", "eu")]
    block = log_blocks.delete_block("20260101000000000", "{}", deleted)

    [finding] = findings_of_log(with_bytes(block, "here!", BAD))
    assert (finding.kind, finding.records) == (FindingKind.INVALID_TEXT, 1)
    assert finding.examples == [f"recordKey: {BAD!r}, record key TREL\\xc3"]
