from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from chronolake_hudi import avro_schema, log_blocks, log_files
from chronolake_hudi.errors import DamagedFile, HudiFormatError, UnsupportedFormat
from chronolake_hudi.log_blocks import DeletedRecord, OrderingValue, Wrapper
from chronolake_hudi.log_files import BlockType, HeaderKey, LogBlock
from chronolake_model.tables import Field
from tests.examples import examples

INSTANT = "20260101000000000"
FIELDS = [
    Field("id", "string", nullable=False),
    Field("count", "bigint"),
    Field("price", "decimal(10,2)"),
    Field("on", "date"),
    Field("at", "timestamp"),
    Field("tags", "array<struct<name:string,weight:double>>"),
]
SCHEMA = avro_schema.encode(avro_schema.of_table("t", FIELDS, meta=False))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
tags = st.fixed_dictionaries({"name": st.none() | texts, "weight": st.none() | st.floats(allow_nan=False)})
records = st.fixed_dictionaries(
    {
        "id": texts,
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "price": st.none() | st.decimals(-99999999, 99999999, places=2),
        "on": st.none() | st.integers(-(2**31), 2**31 - 1),
        "at": st.none() | st.integers(-(2**63), 2**63 - 1),
        "tags": st.none() | st.lists(st.none() | tags, max_size=2),
    }
)
longs = st.integers(-(2**63), 2**63 - 1)
ordering_values = st.one_of(
    st.builds(OrderingValue, st.just(Wrapper.INT), st.integers(1, 2**31 - 1)),
    st.builds(OrderingValue, st.sampled_from([Wrapper.LONG, Wrapper.TIMESTAMP_MICROS]), longs),
    st.builds(OrderingValue, st.just(Wrapper.DOUBLE), st.floats(allow_nan=False)),
    st.builds(OrderingValue, st.just(Wrapper.STRING), texts),
    st.builds(OrderingValue, st.just(Wrapper.BYTES), st.binary(max_size=5)),
    st.builds(OrderingValue, st.just(Wrapper.BOOLEAN), st.booleans()),
    st.builds(OrderingValue, st.just(Wrapper.DECIMAL), st.just(Decimal("1.500000000000000"))),
)
several = st.tuples(st.just(log_blocks.NO_VALUE) | ordering_values, ordering_values, ordering_values)
deleted_records = st.builds(DeletedRecord, texts, texts, st.tuples() | st.tuples(ordering_values) | several)


@given(st.lists(records, max_size=4))
def test_records_come_back_from_an_avro_block(written: list[dict[str, Any]]) -> None:
    block = log_blocks.avro_block(INSTANT, SCHEMA, written)

    assert list(log_blocks.read_avro(block, "p")) == written
    assert block.instant_time == INSTANT


@given(st.lists(deleted_records, max_size=4))
def test_deleted_keys_come_back_from_a_delete_block(deleted: list[DeletedRecord]) -> None:
    block = log_blocks.delete_block(INSTANT, SCHEMA, deleted)

    assert log_blocks.read_deletes(block, "p") == deleted


def test_a_rollback_block_names_the_instant_that_it_takes_back() -> None:
    block = log_blocks.rollback_block(INSTANT, "20250101000000000")

    assert log_blocks.rolled_back_instant(block, "p") == "20250101000000000"
    assert (block.type, block.instant_time) == (BlockType.COMMAND, INSTANT)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (LogBlock(BlockType.HFILE_DATA, {}, b""), "HFILE_DATA cannot be read: its records are in HFile"),
        (LogBlock(BlockType.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "1"}, b""), "the command 1 is unknown"),
        (LogBlock(BlockType.DELETE, {}, b"\0\0\0\2"), "its content has version 2, not 3"),
        (LogBlock(BlockType.AVRO_DATA, {}, b""), "its content has version None, not 3"),
    ],
)
def test_a_block_that_cannot_be_read_is_known_by_its_head(block: LogBlock, reason: str) -> None:
    assert reason in (log_blocks.obstacle(block) or "")


@pytest.mark.parametrize(
    "block",
    [
        log_blocks.avro_block(INSTANT, SCHEMA, []),
        log_blocks.delete_block(INSTANT, SCHEMA, [DeletedRecord("1")]),
        log_blocks.parquet_block(INSTANT, SCHEMA, b""),
        log_blocks.rollback_block(INSTANT, INSTANT),
        LogBlock(BlockType.CDC_DATA, {}, b""),
        LogBlock(BlockType.PARQUET_DATA, {HeaderKey.COMPACTED_BLOCK_TIMES: INSTANT}, b""),
    ],
)
def test_other_blocks_can_be_read(block: LogBlock) -> None:
    assert log_blocks.obstacle(block) is None


def test_another_command_is_refused() -> None:
    block = LogBlock(
        BlockType.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "1", HeaderKey.TARGET_INSTANT_TIME: "1"}, b""
    )

    with pytest.raises(UnsupportedFormat, match="the command 1 of a log file is unknown"):
        log_blocks.rolled_back_instant(block, "p")


def read(block: LogBlock) -> object:
    return (
        list(log_blocks.read_avro(block, "p"))
        if block.type is BlockType.AVRO_DATA
        else log_blocks.read_deletes(block, "p")
    )


AVRO = log_blocks.avro_block(
    INSTANT,
    SCHEMA,
    [
        {
            "id": "a",
            "count": 1,
            "price": Decimal("1.25"),
            "on": date(2026, 1, 1),
            "at": datetime(2026, 1, 1, tzinfo=UTC),
            "tags": [{"name": "x", "weight": 1.5}],
        }
    ]
    * 2,
)
DELETE = log_blocks.delete_block(
    INSTANT, SCHEMA, [DeletedRecord("a", "p", (OrderingValue(Wrapper.LONG, 5),)), DeletedRecord("b")]
)


@pytest.mark.parametrize("block", [AVRO, DELETE], ids=["avro", "delete"])
def test_content_that_is_cut_off_or_too_long_is_damage(block: LogBlock) -> None:
    for length in range(len(block.content)):
        with pytest.raises(
            DamagedFile, match=r"^p: in a (AVRO_DATA|DELETE) block, at byte .*; restore the file"
        ):
            read(LogBlock(block.type, block.header, block.content[:length]))
    with pytest.raises(DamagedFile, match="the content should end"):
        read(LogBlock(block.type, block.header, block.content + b"\0"))


@settings(max_examples=examples(300))
@given(st.sampled_from([AVRO, DELETE]), st.data())
def test_changed_content_is_detected_or_gives_other_records(block: LogBlock, data: st.DataObject) -> None:
    content = bytearray(block.content)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        decoded = read(LogBlock(block.type, block.header, bytes(content)))
    except HudiFormatError:
        return
    assert isinstance(decoded, list)


@pytest.mark.parametrize("block", [AVRO, DELETE], ids=["avro", "delete"])
def test_another_version_of_the_content_is_refused(block: LogBlock) -> None:
    with pytest.raises(UnsupportedFormat, match=r"block has content of version 2, not 3; compact the table"):
        read(LogBlock(block.type, block.header, b"\0\0\0\2" + block.content[4:]))


@pytest.mark.parametrize("header", [{}, {HeaderKey.SCHEMA: "{"}, {HeaderKey.SCHEMA: '{"type":"x"}'}])
def test_an_avro_block_without_a_schema_is_damage(header: dict[int, str]) -> None:
    with pytest.raises(DamagedFile, match="schema"):
        read(LogBlock(BlockType.AVRO_DATA, header, AVRO.content))


@pytest.mark.parametrize("record", [{}, {"id": 5}, {"id": "a", "other": 1}])
def test_a_record_that_does_not_fit_the_schema_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(UnsupportedFormat, match="does not fit its schema"):
        log_blocks.avro_block(INSTANT, SCHEMA, [record])


@pytest.mark.parametrize(
    ("column_type", "wrapper"),
    [("INT", Wrapper.INT), ("date", Wrapper.INT), ("timestamp", Wrapper.LONG), ("double", Wrapper.DOUBLE)],
)
def test_ordering_values_have_the_wrapper_that_hudi_compares_with(column_type: str, wrapper: Wrapper) -> None:
    assert log_blocks.wrapper_of(column_type) is wrapper


@pytest.mark.parametrize("column_type", ["decimal(5,2)", "binary", "array<int>"])
def test_other_types_cannot_order_deletes(column_type: str) -> None:
    with pytest.raises(UnsupportedFormat, match="order by another column"):
        log_blocks.wrapper_of(column_type)


@pytest.mark.parametrize("version", [6, 8])
def test_hudis_blocks_are_read(version: int) -> None:
    blocks = [
        block
        for path in sorted((Path(__file__).parent / "hudi_1_2_0" / f"mor{version}").glob(".*.log.*"))
        for block in log_files.read(io.BytesIO(path.read_bytes()), path.stat().st_size, str(path))
    ]
    by_type = {block.type: block for block in blocks}

    [record] = log_blocks.read_avro(by_type[BlockType.AVRO_DATA], "p")
    assert (record["id"], record["ts"], record["de"], record["st"]) == (
        1,
        2,
        Decimal("1.25"),
        {"p": 1, "q": {"r": "x"}},
    )
    [deleted] = log_blocks.read_deletes(by_type[BlockType.DELETE], "p")
    assert deleted == DeletedRecord("2", "day=b")
