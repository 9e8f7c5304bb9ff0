from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from chronolake_hudi import log_files
from chronolake_hudi.errors import DamagedFile, HudiFormatError, UnsupportedFormat
from chronolake_hudi.log_files import MAGIC, BlockType, HeaderKey, LogBlock
from tests.examples import examples

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
entries = st.dictionaries(st.sampled_from(list(map(int, HeaderKey))), texts, max_size=3)
blocks = st.builds(
    LogBlock,
    st.sampled_from([block_type for block_type in BlockType if block_type is not BlockType.CORRUPT]),
    entries,
    st.binary(max_size=60) | st.just(MAGIC) | st.just(b"\0" * 40),
    st.just({}) | entries,
)
log_blocks = st.lists(blocks, max_size=4)


def encoded(written: list[LogBlock]) -> bytes:
    return b"".join(map(log_files.encode, written))


def read(content: bytes) -> list[LogBlock]:
    return list(log_files.read(io.BytesIO(content), len(content), "p"))


@given(log_blocks)
def test_blocks_come_back_from_their_file(written: list[LogBlock]) -> None:
    assert read(encoded(written)) == written


@given(log_blocks)
def test_heads_are_the_blocks_without_their_contents(written: list[LogBlock]) -> None:
    content = encoded(written)
    heads = list(log_files.heads(io.BytesIO(content), len(content), "p"))
    assert heads == [msgspec.structs.replace(block, content=block.content[:4]) for block in written]


@given(st.lists(blocks, min_size=1, max_size=3), st.data())
def test_heads_of_a_file_that_is_cut_off_are_damaged(written: list[LogBlock], data: st.DataObject) -> None:
    content = encoded(written)
    cut = data.draw(st.integers(1, len(log_files.encode(written[-1])) - 1))
    with pytest.raises(DamagedFile):
        list(log_files.heads(io.BytesIO(content[:-cut]), len(content) - cut, "p"))


class SlowStream:
    """Returns a byte or two at a time, as networks do, and counts the bytes that it holds out."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)
        self.longest = 0

    def read(self, size: int, /) -> bytes:
        self.longest = max(self.longest, size)
        return self._file.read(min(size, 2))


@given(log_blocks)
def test_a_stream_may_return_fewer_bytes_than_requested(written: list[LogBlock]) -> None:
    content = encoded(written)

    assert list(log_files.read(SlowStream(content), len(content), "p")) == written


@given(st.lists(blocks, min_size=1, max_size=3), st.data())
def test_a_file_that_is_cut_off_is_damage_behind_its_complete_blocks(
    written: list[LogBlock], data: st.DataObject
) -> None:
    content = encoded(written)
    length = data.draw(st.integers(0, len(content) - 1))

    for size_bytes in {length, len(content)}:
        complete: list[LogBlock] = []
        ends = {len(encoded(written[:count])) for count in range(len(written) + 1)}
        if size_bytes == length and length in ends:
            continue
        with pytest.raises(DamagedFile, match=r"^p: at byte [\d,]+: .*; restore the file"):
            complete.extend(log_files.read(io.BytesIO(content[:length]), size_bytes, "p"))
        assert complete == written[: len(complete)]


def test_every_truncation_of_a_file_is_damage() -> None:
    content = log_files.encode(
        LogBlock(BlockType.PARQUET_DATA, {0: "20260101000000000", 2: "{}"}, b"PAR1" * 10)
    )

    for length in range(len(content)):
        with pytest.raises(DamagedFile):
            list(log_files.read(io.BytesIO(content[:length]), len(content), "p"))
    for length in range(1, len(content)):
        with pytest.raises(DamagedFile):
            read(content[:length])


@given(st.lists(blocks, min_size=1, max_size=3), st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_size_of_the_file_are_damage(written: list[LogBlock], appended: bytes) -> None:
    content = encoded(written)

    with pytest.raises(DamagedFile, match="longer than the"):
        list(log_files.read(io.BytesIO(content + appended), len(content), "p"))
    with pytest.raises(HudiFormatError):
        read(content + appended)


def positions(block: LogBlock) -> Iterator[tuple[str, range]]:
    """The parts of an encoded block, and where they are."""
    header = log_files._entries(block.header)
    content_length = 22 + len(header)
    footer = content_length + 8 + len(block.content)
    total = footer + len(log_files._entries(block.footer))
    yield "magic", range(6)
    yield "length", range(6, 14)
    yield "version", range(14, 18)
    yield "total length", range(total, total + 8)


@settings(max_examples=examples(200))
@given(blocks, st.data())
def test_a_changed_byte_of_magic_length_or_version_is_detected(block: LogBlock, data: st.DataObject) -> None:
    content = bytearray(log_files.encode(block))
    _, places = data.draw(st.sampled_from(list(positions(block))))
    place = data.draw(st.sampled_from(places))
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))

    with pytest.raises(HudiFormatError):
        read(bytes(content))


@settings(max_examples=examples(200))
@given(st.lists(blocks, min_size=1, max_size=2), st.data())
def test_a_changed_byte_anywhere_is_detected_or_loses_no_block(
    written: list[LogBlock], data: st.DataObject
) -> None:
    content = bytearray(encoded(written))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))

    try:
        decoded = read(bytes(content))
    except HudiFormatError:
        return
    assert len(decoded) == len(written)
    assert sum(a != b for a, b in zip(decoded, written, strict=True)) == 1


def test_a_length_that_is_damaged_is_not_allocated() -> None:
    content = log_files.encode(LogBlock(BlockType.COMMAND, {}, b""))
    stream = SlowStream(MAGIC + struct.pack(">q", 2**40) + content[14:])

    with pytest.raises(DamagedFile, match=r"a block of 1,099,511,627,776 bytes begins, \d+ are left"):
        list(log_files.read(stream, len(content), "p"))
    assert stream.longest <= 8


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (14, 0, "the log format has version 0, not 1; compact the table"),
        (18, 7, "the block has the unknown type 7"),
    ],
)
def test_other_versions_and_types_are_refused(place: int, value: int, problem: str) -> None:
    content = bytearray(log_files.encode(LogBlock(BlockType.COMMAND, {}, b"")))
    content[place : place + 4] = struct.pack(">i", value)

    with pytest.raises(UnsupportedFormat, match=problem):
        read(bytes(content))


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "hudi_1_2_0").glob("mor*/.*.log.*")), ids=str)
def test_hudis_log_files_are_written_again_as_they_are(path: Path) -> None:
    content = path.read_bytes()
    [block] = read(content)

    # Hudi writes the entries of a header in an order of its own.
    assert len(log_files.encode(block)) == len(content)
    assert read(log_files.encode(block)) == [block]
    assert block.instant_time is not None
    assert not block.is_partial
