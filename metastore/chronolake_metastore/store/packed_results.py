"""The form in which an outcome has the result of a success: compressed by a dictionary.

The results of a small commit are much alike, and have their time, version and table from the row beside them.
So they take a quarter of their JSON. Refusals are stored as JSON, because auditors read them in SQL.
"""

from __future__ import annotations

import zlib
from typing import Final
from uuid import UUID

from chronolake_model.times import Micros

BYTES_MAX: Final = 4_096
"""Longer results are stored as JSON, which PostgreSQL compresses."""
_FORM: Final = b"\x01"
"""The first byte of a packed result. JSON begins with a brace."""
_WINDOW_BITS: Final = -12  # 4,096 bytes, without the header and checksum of zlib
_LEVEL: Final = 6
_MEMORY: Final = 3
# Never edit it: recorded results are read with it. Another dictionary is another form.
_DICTIONARY: Final = (
    b'{"type":"StagingResult/1","log_id":"","is_new":true,"table":"","tick":"1us","requested_time":'
    b'{"type":"CompletedInstantsResult/1","log_id":"","instants":[{"tab":"'
    b'","tic":"1us","ins":{"rt":1795930619802000,"act":"deltacommit","ope":"insert","sta":"inflight"'
    b'{"type":"InstantResult/1","log_id":"","is_new":true,"of":{"tab":"","tic":"1ms","ins":{"rt":1795930619802000'
    b',"act":"commit","ope":"upsert","sta":"inflight","wri":"","ls":60,"lea":1795930619802000,"ver":1,"sv":1}'
    b',"buc":8,"wo":0}}{"type":"InstantResult/1","log_id":"","of":{"tab":"","tic":"1ms","ins":{"rt":1'
    b',"act":"commit","ope":"upsert","sta":"completed","wri":"","ls":60,"lea":null,"ver":1,"ct":1'
    b',"sum":{"files":1,"size_bytes":1,"records":1,"inserts":0,"updates":0,"deletes":0},"sv":1},"buc":8,"wo":'
)


def pack(result: bytes, table_id: UUID | None, version: int | None, recorded_at: Micros | None) -> bytes:
    """The stored form of the result of a success, of an outcome with these columns."""
    if len(result) > BYTES_MAX:
        return result
    dictionary = _dictionary(table_id, version, recorded_at)
    # Codes that are computed for so short a text take more time than they save bytes.
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY, zlib.Z_FIXED, dictionary)
    return _FORM + compressor.compress(result) + compressor.flush()


def unpack(stored: bytes, table_id: UUID | None, version: int | None, recorded_at: Micros | None) -> bytes:
    """The JSON of a stored result. What cannot be unpacked is given as it is: no release has stored it so."""
    if not stored.startswith(_FORM):
        return stored
    decompressor = zlib.decompressobj(_WINDOW_BITS, _dictionary(table_id, version, recorded_at))
    try:
        result = decompressor.decompress(stored[len(_FORM) :], BYTES_MAX + 1)
    except zlib.error:
        return stored
    # Bytes that are missing, or follow the end, were changed.
    return result if decompressor.eof and not decompressor.unused_data else stored


def _dictionary(table_id: UUID | None, version: int | None, recorded_at: Micros | None) -> bytes:
    return b"%s%d %d %s" % (_DICTIONARY, recorded_at or 0, version or 0, str(table_id).encode())
