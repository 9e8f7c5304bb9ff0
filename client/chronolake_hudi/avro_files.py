"""Avro object container files with a single record, which is what the files of a timeline are.

A file is ``Obj`` and the byte 1, a map with ``avro.schema`` and ``avro.codec``, 16 bytes of sync marker, then
blocks: number of records, number of bytes, the records, and the sync marker again.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import fastavro
import msgspec
from fastavro.schema import SchemaParseException

from chronolake_hudi import avro_bounds, avro_values
from chronolake_hudi.errors import DamagedFile

Codec = Literal["null", "deflate"]
"""How the record is compressed. Hudi writes ``null``; its readers know both."""

SYNC_MARKER: Final = b"chronolake.hudi."
"""The same in every file, so that the same record makes the same bytes."""

RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes of a record, once it is decompressed."""

UNREADABLE: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SchemaParseException,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""The errors of fastavro for bytes, or a schema, that are not Avro."""

_MAGIC: Final = b"Obj\x01"
_HEADER: Final = {"type": "map", "values": "bytes"}
_ADVICE: Final = "restore the file from a copy, or remove the instant with Hudi's or Chronolake's tools"


def encode(record: Mapping[str, object], schema: Mapping[str, object], codec: Codec = "null") -> bytes:
    """A file with ``record``, which has exactly the fields of ``schema``.

    The same arguments give the same bytes; with ``deflate`` as long as zlib is the same.
    """
    content = io.BytesIO()
    fastavro.writer(content, dict(schema), [record], codec=codec, sync_marker=SYNC_MARKER, strict=True)
    return content.getvalue()


def decode(content: bytes, path: str) -> dict[str, Any]:
    """The record in the file ``path``, by the schema in the file itself.

    Raises ``DamagedFile`` for an empty file, for each file that is cut off or longer than its blocks, and for
    one that holds anything but a single record of up to ``RECORD_BYTES_MAX`` bytes and
    ``avro_values.VALUES_MAX`` values, by a schema with bounds (``avro_bounds``) and in a codec of Hudi's. Avro
    has no checksum: a changed byte within the record may pass.
    """
    if not content:
        raise DamagedFile(path, "the file is empty", _ADVICE)
    try:
        record = _read(io.BytesIO(content), len(content), path)
    except UNREADABLE as exc:
        raise DamagedFile(path, f"the file is no complete Avro file ({_reason(exc)})", _ADVICE) from exc
    if not isinstance(record, dict):
        raise DamagedFile(path, "the file has a value that is no record", _ADVICE)
    return record


def _read(stream: io.BytesIO, size: int, path: str) -> object:
    """The single value of a file of ``size`` bytes."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as one")
    header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
    sync_marker = stream.read(len(SYNC_MARKER))
    schema = msgspec.json.decode(header["avro.schema"])
    avro_bounds.refuse_unbounded(schema, path)
    parsed = fastavro.parse_schema(schema)
    values, encoded = 0, b""
    while stream.tell() < size:
        in_block, block_bytes = _long(stream), _long(stream)
        if in_block < 0 or not 0 <= block_bytes <= size - stream.tell():
            raise EOFError("a block is cut off")
        block = stream.read(block_bytes)
        values += in_block
        if stream.read(len(sync_marker)) != sync_marker:
            raise ValueError("the sync marker after a block is another one")
        if in_block:
            encoded = block
    if values != 1:
        raise DamagedFile(path, f"the file has {values:,} values, not a single record", _ADVICE)
    decompressed = _decompressed(encoded, header.get("avro.codec", b"null"), path)
    avro_values.refuse_many(decompressed, parsed, path, _ADVICE)
    content = io.BytesIO(decompressed)
    value: object = fastavro.schemaless_reader(content, parsed, None)
    if content.read(1):
        raise ValueError("the block is longer than its record")
    return value


def _long(stream: io.BytesIO) -> int:
    value = fastavro.schemaless_reader(stream, "long", None)
    assert isinstance(value, int)
    return value


def _decompressed(block: bytes, codec: bytes, path: str) -> bytes:
    match codec:
        case b"null":
            content = block
        case b"deflate":
            inflating = zlib.decompressobj(-zlib.MAX_WBITS)
            content = inflating.decompress(block, RECORD_BYTES_MAX + 1)
            if len(content) <= RECORD_BYTES_MAX and not inflating.eof:
                raise EOFError("the compressed block is cut off")
        case _:
            raise DamagedFile(path, f"its codec {codec[:40]!r} is neither null nor deflate", _ADVICE)
    if len(content) > RECORD_BYTES_MAX:
        raise DamagedFile(path, f"its record has more than {RECORD_BYTES_MAX:,} bytes", _ADVICE)
    return content


def _reason(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
