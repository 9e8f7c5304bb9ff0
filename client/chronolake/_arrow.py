"""Answers as Arrow: the files of a table in record batches. Needs pyarrow, ``chronolake[arrow]``."""

from __future__ import annotations

import io
import struct
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from chronolake import errors
from chronolake._transport import AsyncTransport, Transport
from chronolake.calls.base import Call

if TYPE_CHECKING:
    import pyarrow as pa

_INT16, _INT32, _INT64 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<q")
_READ_BYTES = 1024 * 1024
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What an Arrow IPC stream ends with. One that does not was broken off, and must not pass for a whole one."""


def batches(transport: Transport, call: Call[Any]) -> pa.RecordBatchReader:
    """The answer in record batches, each fetched when it is asked for; one try."""
    pa = _pyarrow()
    running = _run(transport, call)
    schema = next(running)
    return pa.RecordBatchReader.from_batches(schema, running)


def table(transport: Transport, call: Call[Any]) -> pa.Table:
    """The whole answer; tried again as others are."""
    _pyarrow()
    return _whole(transport.send_for_arrow(call))


async def async_batches(transport: AsyncTransport, call: Call[Any]) -> AsyncIterator[pa.RecordBatch]:
    """As ``batches``, awaited; each batch has the schema."""
    pa = _pyarrow()
    schema, splitter = None, _MessageSplitter()
    async with transport.chunks(call) as chunks:
        async for chunk in chunks:
            for message in map(pa.ipc.read_message, splitter.messages_in(chunk)):
                if schema is None:
                    schema = pa.ipc.read_schema(message)
                else:
                    yield pa.ipc.read_record_batch(message, schema)
    if not splitter.has_ended:
        raise _broken_off()


async def async_table(transport: AsyncTransport, call: Call[Any]) -> pa.Table:
    """As ``table``."""
    _pyarrow()
    return _whole(await transport.send_for_arrow(call))


def _run(transport: Transport, call: Call[Any]) -> Generator[Any, None, None]:
    """The schema, then the batches."""
    pa = _pyarrow()
    with transport.chunks(call) as chunks:
        source = _Source(chunks)
        with pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(source, _READ_BYTES), mode="r")) as reader:
            yield reader.schema
            yield from reader
        source.check_end()


def _whole(content: bytes) -> pa.Table:
    pa = _pyarrow()
    if not content.endswith(_END):
        raise _broken_off()
    return pa.ipc.open_stream(content).read_all()


class _Source(io.RawIOBase):
    """The chunks of an answer as a file; remembers its last bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._left = memoryview(b"")
        self._tail = b""

    def readable(self) -> bool:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return True

    def readinto(self, buffer: Any) -> int:  # type: ignore[explicit-override]
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
            self._tail = (self._tail + chunk[-len(_END) :])[-len(_END) :]
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def check_end(self) -> None:
        """Raise ``ConnectionFailed`` when the answer was broken off."""
        for chunk in self._chunks:
            self._tail = (self._tail + chunk[-len(_END) :])[-len(_END) :]
        if self._tail != _END:
            raise _broken_off()


class _MessageSplitter:
    """The messages of an Arrow IPC stream that comes in pieces: pyarrow itself would block for the next piece.

    A message is -1 and the length of its metadata as two int32, the metadata, and a body, whose length is in
    the metadata. One without metadata ends the stream.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self.has_ended = False

    def messages_in(self, chunk: bytes) -> Iterator[bytes]:
        """The messages that ``chunk`` ends; what it begins is kept for the next."""
        self._begun += chunk
        while (length := self._length()) is not None:
            message = bytes(self._begun[:length])
            del self._begun[:length]
            if message == _END:
                self.has_ended = True
                return
            yield message

    def _length(self) -> int | None:
        """The length of the first message; None when it is not all there."""
        if len(self._begun) < len(_END):
            return None
        body_begins = len(_END) + int(_INT32.unpack_from(self._begun, 4)[0])
        if len(self._begun) < body_begins:
            return None
        if body_begins == len(_END):
            return body_begins
        end = body_begins + _body_length(bytes(self._begun[len(_END) : body_begins]))
        return end if len(self._begun) >= end else None


def _body_length(metadata: bytes) -> int:
    """The field ``bodyLength`` of a flatbuffer ``Message``: the fourth of its table, 0 when it is left out."""
    table = _INT32.unpack_from(metadata)[0]
    fields = table - _INT32.unpack_from(metadata, table)[0]
    place = 4 + 2 * 3
    if place >= _INT16.unpack_from(metadata, fields)[0]:
        return 0
    offset = _INT16.unpack_from(metadata, fields + place)[0]
    return int(_INT64.unpack_from(metadata, table + offset)[0]) if offset else 0


def _broken_off() -> errors.ConnectionFailed:
    return errors.ConnectionFailed("the server broke its answer off; ask again")


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415  # only who asks for Arrow needs it
        import pyarrow.ipc  # noqa: PLC0415
    except ImportError as exc:
        raise ImportError("answers as Arrow need pyarrow: pip install 'chronolake[arrow]'") from exc
    return pyarrow
