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
from fastavro.schema import SchemaParseException

from chronolake_hudi.errors import DamagedFile

Codec = Literal["null", "deflate"]
"""How the record is compressed. Hudi writes ``null``; its readers know both."""

SYNC_MARKER: Final = b"chronolake.hudi."
"""The same in every file, so that the same record makes the same bytes."""

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
"""What fastavro raises over bytes, or a schema, that are not Avro."""

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
    one that holds anything but a single record. Avro has no checksum: a changed byte within the record may
    pass.
    """
    if not content:
        raise DamagedFile(path, "the file is empty", _ADVICE)
    try:
        records = list(fastavro.reader(io.BytesIO(content)))
    except UNREADABLE as exc:
        raise DamagedFile(path, f"the file is no complete Avro file ({_reason(exc)})", _ADVICE) from exc
    match records:
        case [dict() as record]:
            return record
        case _:
            raise DamagedFile(path, f"the file has {len(records)} values, not a single record", _ADVICE)


def _reason(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
