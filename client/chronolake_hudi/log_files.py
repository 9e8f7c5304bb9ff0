"""Log files: blocks of changes to a file group, one after the other.

All numbers are big-endian. A block is::

    bytes   content
    6       the magic ``#HUDI#``
    8       length: the bytes from here to the end of the block, without these 8
    4       version of the log format: 1
    4       type of the block (``BlockType``)
    4+      header: the number of its entries; for each the key (4; ``HeaderKey``), the length of the value (4)
            and the value in UTF-8
    8       length of the content
    ...     content; ``log_blocks`` has what it is for each type
    4+      footer, as the header; Hudi writes it with no entry
    8       the length of the block with its magic, without these 8 bytes and those of the first length

There is no checksum. ``read`` finds every file that is cut off between or within blocks, and every change of a
magic, of the version, and of the lengths of a block. A changed length of the content or of an entry moves what
follows, and is found unless that happens to be a valid end of the block. Another type of block, another key and
changes within values and within the content go through: the content is Parquet or Avro, and its reader finds
some of them.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec
from typing_extensions import override

from chronolake_hudi.errors import DamagedFile, UnsupportedFormat

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
BLOCK_BYTES_MAX: Final = 2**31 - 1
"""The longest block that is written or read: Hudi holds a block in one array of Java."""
HEAD_BYTES: Final = 4
"""Bytes of a content that ``heads`` gives: the version of the content, where a type of blocks has one."""
ENTRIES_MAX: Final = 1_000
"""Entries of a header or a footer that are read; Hudi knows nine keys."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_ENTRY: Final = struct.Struct(">ii")
_ADVICE: Final = "restore the file from a copy, or restore the table to an instant before this file"


class BlockType(enum.IntEnum):
    """The types of blocks (Hudi: HoodieLogBlockType). A corrupt block is what Hudi's reader calls the damaged
    ones; no file states it."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(enum.IntEnum):
    """The keys of headers (Hudi: HeaderMetadataType)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


class LogBlock(msgspec.Struct, frozen=True):
    """A block. Keys of ``header`` are those of ``HeaderKey``; newer releases of Hudi may have more."""

    type: BlockType
    header: Mapping[int, str]
    content: bytes
    footer: Mapping[int, str] = {}

    @property
    def instant_time(self) -> str | None:
        """The requested time of the instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def is_partial(self) -> bool:
        """Whether its records have some of the columns only, and keep the others as they were."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


class ByteStream(Protocol):
    """A file that is open for reading. ``read`` may return fewer bytes than asked for, but none only at the
    end. It should be buffered: most reads are of a few bytes."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, ``size`` at most."""


class SeekableStream(ByteStream, Protocol):
    """A file in which a reader may move."""

    def seek(self, position: int, /) -> object:
        """Read on at this byte."""


def encode(block: LogBlock) -> bytes:
    """The bytes of a block; a log file is such bytes one after the other. The same block gives the same bytes.

    Raises ``ValueError`` for a block that is longer than ``BLOCK_BYTES_MAX``.
    """
    before = b"".join(
        (
            _INT.pack(FORMAT_VERSION),
            _INT.pack(block.type),
            _entries(block.header),
            _LONG.pack(len(block.content)),
        )
    )
    footer = _entries(block.footer)
    length = len(before) + len(block.content) + len(footer) + _LONG.size
    if length > BLOCK_BYTES_MAX:
        raise ValueError(f"a log block of {length:,} bytes is longer than {BLOCK_BYTES_MAX:,}; write several")
    return b"".join((MAGIC, _LONG.pack(length), before, block.content, footer, _LONG.pack(length + len(MAGIC))))


def read(stream: ByteStream, size_bytes: int, path: str) -> Iterator[LogBlock]:
    """The blocks of the log file ``path`` of ``size_bytes``, as its write stat states them.

    It holds one block at a time. Raises ``DamagedFile`` at the first byte that is wrong or missing, also if the
    file is longer than stated, and ``UnsupportedFormat`` for another version or an unknown type. Blocks before
    were complete.
    """
    cursor = _Cursor(stream, size_bytes, path)
    while cursor.offset < size_bytes:
        yield _block(cursor)
    if stream.read(1):
        raise DamagedFile(path, f"the file is longer than the {size_bytes:,} bytes of its write stat", _ADVICE)


def heads(stream: SeekableStream, size_bytes: int, path: str) -> Iterator[LogBlock]:
    """The blocks of a log file without their contents: of each only the first ``HEAD_BYTES``.

    It reads some hundred bytes a block, and raises as ``read`` does, but for what is wrong within contents.
    """
    cursor = _HeadCursor(stream, size_bytes, path)
    while cursor.offset < size_bytes:
        yield _block(cursor)


class _Cursor:
    """Reads on, never past ``end``, the offset after the file or the block."""

    def __init__(self, stream: ByteStream, end: int, path: str) -> None:
        self.offset = 0
        self.end = end
        self._stream = stream
        self._path = path

    def content(self) -> bytes:
        return self.take(self.long())

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.end - self.offset:
            raise self.damaged(f"{size:,} bytes are due, {self.end - self.offset:,} are left")
        parts = []
        missing = size
        while missing:
            part = self._stream.read(missing)
            if not part:
                raise self.damaged(f"the file ends {missing:,} bytes too early")
            parts.append(part)
            missing -= len(part)
            self.offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def number(self) -> int:
        (number,) = _INT.unpack(self.take(_INT.size))
        return int(number)

    def long(self) -> int:
        (number,) = _LONG.unpack(self.take(_LONG.size))
        return int(number)

    def damaged(self, problem: str) -> DamagedFile:
        return DamagedFile(self._path, f"at byte {self.offset:,}: {problem}", _ADVICE)

    def unsupported(self, problem: str) -> UnsupportedFormat:
        return UnsupportedFormat(
            self._path, f"at byte {self.offset:,}: {problem}", "compact the table with the Hudi that wrote it"
        )


class _HeadCursor(_Cursor):
    """Skips the contents of blocks."""

    def __init__(self, stream: SeekableStream, end: int, path: str) -> None:
        super().__init__(stream, end, path)
        self._seekable = stream

    @override
    def content(self) -> bytes:
        size = self.long()
        head = self.take(min(size, HEAD_BYTES))
        if not 0 <= size - len(head) <= self.end - self.offset:
            raise self.damaged(f"{size:,} bytes are due, {self.end - self.offset:,} are left")
        self.offset += size - len(head)
        self._seekable.seek(self.offset)
        return head


def _block(file: _Cursor) -> LogBlock:
    magic = file.take(len(MAGIC))
    if magic != MAGIC:
        raise file.damaged(f"a block begins with {MAGIC!r}, not with {magic!r}")
    length = file.long()
    file_end, end = file.end, file.offset + length
    if not 0 <= length <= min(BLOCK_BYTES_MAX, file_end - file.offset):
        raise file.damaged(f"a block of {length:,} bytes begins, {file_end - file.offset:,} are left")
    file.end = end - _LONG.size
    version = file.number()
    if version != FORMAT_VERSION:
        raise file.unsupported(f"the log format has version {version}, not {FORMAT_VERSION}")
    block_type = _block_type(file)
    header = _read_entries(file)
    content = file.content()
    footer = _read_entries(file)
    if file.offset != file.end:
        raise file.damaged(f"the block has {file.end - file.offset:,} bytes after its footer")
    file.end = end
    if (total := file.long()) != length + len(MAGIC):
        raise file.damaged(f"the block ends with the length {total:,} instead of {length + len(MAGIC):,}")
    file.end = file_end
    return LogBlock(block_type, header, content, footer)


def _block_type(file: _Cursor) -> BlockType:
    number = file.number()
    if number == BlockType.CORRUPT or number < 0:
        raise file.damaged(f"no block has the type {number}")
    try:
        return BlockType(number)
    except ValueError:
        raise file.unsupported(f"the block has the unknown type {number}") from None


def _entries(entries: Mapping[int, str]) -> bytes:
    parts = [_INT.pack(len(entries))]
    for key in sorted(entries):
        value = entries[key].encode()
        parts += (_ENTRY.pack(key, len(value)), value)
    return b"".join(parts)


def _read_entries(file: _Cursor) -> dict[int, str]:
    count = file.number()
    if not 0 <= count <= ENTRIES_MAX:
        raise file.damaged(f"a header has {count:,} entries")
    entries: dict[int, str] = {}
    for _ in range(count):
        key, size = _ENTRY.unpack(file.take(_ENTRY.size))
        if key in entries or key < 0:
            raise file.damaged(f"the key {key} is negative, or there twice")
        try:
            entries[key] = file.take(size).decode()
        except UnicodeDecodeError as exc:
            raise file.damaged(f"the value of the key {key} is no UTF-8") from exc
    return entries
