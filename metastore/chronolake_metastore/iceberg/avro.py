"""Files of Avro records that are encoded already (https://avro.apache.org/docs/1.11.1/specification/).

A file that shares most of its records with another one takes their bytes from it, without decoding them.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import fastavro

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = b"chronolake-sync1"
"""The same in each file, so that equal records give equal bytes."""
_SCHEMA: Final = "avro.schema"
_CODEC: Final = "avro.codec"
_LEVEL: Final = 1
"""A manifest is a tenth larger than with the default level, and is compressed in a third of the time."""
_RAW: Final = -zlib.MAX_WBITS
BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024
_FIELDS_MAX: Final = 100
"""More fields than the header of a file has."""


def record(schema: Any, value: Mapping[str, Any]) -> bytes:
    """A record of a schema that fastavro has parsed."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def block(parts_of_records: Iterable[bytes]) -> bytes:
    """Records as they are in a file, compressed."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(b"".join(parts_of_records)) + compressor.flush()


def records_of(body: bytes, bytes_max: int) -> bytes:
    """The bytes of the records in a block; raises as ``decompressed``."""
    return decompressed(body, bytes_max, _RAW)


def write(schema: str, blocks: Iterable[tuple[int, bytes]], metadata: Mapping[str, str]) -> bytes:
    """A file of blocks, each with the number of its records, which is not 0; ``schema`` is JSON."""
    header = {_SCHEMA: schema, _CODEC: "deflate", **metadata}
    parts = [_MAGIC, long(len(header))]
    for name, text in header.items():
        parts += [_sized(name.encode()), _sized(text.encode())]
    parts += [b"\0", _SYNC]
    for records, body in blocks:
        parts += [long(records), _sized(body), _SYNC]
    return b"".join(parts)


def read(content: bytes) -> tuple[dict[str, str], list[bytes]]:
    """The metadata and the blocks, each compressed, of a file that ``write`` has made.

    Raises ``ValueError`` or ``IndexError`` for another file.
    """
    if not content.startswith(_MAGIC):
        raise ValueError("no Avro file")
    number, at = _long_at(content, len(_MAGIC))
    if not 0 <= number <= _FIELDS_MAX:
        raise ValueError("a damaged header")
    metadata: dict[str, str] = {}
    for _ in range(number):
        name, at = _sized_at(content, at)
        text, at = _sized_at(content, at)
        metadata[name.decode()] = text.decode()
    at += 1 + len(_SYNC)
    blocks: list[bytes] = []
    while at < len(content):
        _, at = _long_at(content, at)
        body, at = _sized_at(content, at)
        if content[at : at + len(_SYNC)] != _SYNC:
            raise ValueError("a damaged block")
        at += len(_SYNC)
        blocks.append(body)
    return metadata, blocks


def decompressed(content: bytes, bytes_max: int, bits: int = zlib.MAX_WBITS) -> bytes:
    """The decompressed bytes; raises ``ValueError`` or ``zlib.error`` for other bytes, and for too many."""
    decompressor = zlib.decompressobj(bits)
    # A limit of 0 would be none.
    plain = decompressor.decompress(content, max(bytes_max, 1))
    if not decompressor.eof:
        raise ValueError("a damaged block")
    return plain


def long(value: int) -> bytes:
    """A number as Avro has it: zigzag, in groups of seven bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(content: bytes) -> bytes:
    return long(len(content)) + content


def _long_at(content: bytes, at: int) -> tuple[int, int]:
    rest = 0
    for shift in range(0, 64, 7):
        byte = content[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), at
    raise ValueError("a damaged number")


def _sized_at(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long_at(content, at)
    if not 0 <= size <= len(content) - at:
        raise ValueError("a damaged file")
    return content[at : at + size], at + size
