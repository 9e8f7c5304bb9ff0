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


def write(schema: str, parts_of_records: Iterable[bytes], records: int, metadata: Mapping[str, str]) -> bytes:
    """A file of a number of records; ``schema`` is JSON."""
    header = {_SCHEMA: schema, _CODEC: "deflate", **metadata}
    parts = [_MAGIC, long(len(header))]
    for name, text in header.items():
        parts += [_sized(name.encode()), _sized(text.encode())]
    parts += [b"\0", _SYNC]
    if records:
        compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
        body = compressor.compress(b"".join(parts_of_records)) + compressor.flush()
        parts += [long(records), _sized(body), _SYNC]
    return b"".join(parts)


def read(content: bytes) -> tuple[dict[str, str], bytes]:
    """The metadata and the bytes of all records of a file that ``write`` has made.

    Raises ``ValueError``, ``IndexError`` or ``zlib.error`` for another file.
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
    if at == len(content):
        return metadata, b""
    _, at = _long_at(content, at)
    body, at = _sized_at(content, at)
    if content[at:] != _SYNC:
        raise ValueError("more than one block")
    return metadata, decompressed(body, _RAW)


def decompressed(content: bytes, bits: int = zlib.MAX_WBITS) -> bytes:
    """The decompressed bytes; raises ``ValueError`` or ``zlib.error`` for other bytes, and for too many."""
    decompressor = zlib.decompressobj(bits)
    plain = decompressor.decompress(content, BLOCK_BYTES_MAX)
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
