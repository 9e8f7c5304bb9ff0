# Generated from chronolake/_async/arrow.py by tools/async_to_sync.py: do not edit.
"""Answers as Arrow: the files of a table in record batches. Needs pyarrow, ``chronolake[arrow]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronolake import _record_batches
from chronolake._concurrency import blocking as concurrency
from chronolake._record_batches import MessageSplitter
from chronolake._sync.transport import Transport
from chronolake.calls.base import Call

if TYPE_CHECKING:
    import pyarrow as pa


def batches(transport: Transport, call: Call[Any]) -> concurrency.RecordBatches:
    """The answer as record batches, each fetched when it is needed. It is retried until the answer begins."""
    _record_batches.pyarrow()
    return concurrency.reader_of(stream(transport, call))


def table(transport: Transport, call: Call[Any]) -> pa.Table:
    """The whole answer as an Arrow table. The request is retried as any other."""
    _record_batches.pyarrow()
    return _record_batches.whole_table(transport.send_for_arrow(call))


def stream(transport: Transport, call: Call[Any]) -> concurrency.Stream[Any]:
    """The schema of the answer, then its record batches, each fetched when it is needed.

    The request is retried until the answer begins.
    """
    pa = _record_batches.pyarrow()
    schema, splitter = None, MessageSplitter()
    with transport.chunks(call) as chunks:
        for chunk in chunks:
            for message in map(pa.ipc.read_message, splitter.messages_in(chunk)):
                if schema is None:
                    schema = pa.ipc.read_schema(message)
                    yield schema
                else:
                    yield pa.ipc.read_record_batch(message, schema)
    if schema is None or not splitter.has_ended:
        raise _record_batches.broken_off()
