"""Answers as Arrow: the files of a table in record batches. Needs pyarrow, ``chronolake[arrow]``."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from chronolake import errors
from chronolake._calls import Call
from chronolake._transport import AsyncTransport, Transport

if TYPE_CHECKING:
    import pyarrow as pa

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


def _broken_off() -> errors.ConnectionFailed:
    return errors.ConnectionFailed("the server broke its answer off; ask again")


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415  # only who asks for Arrow needs it
        import pyarrow.ipc  # noqa: PLC0415
    except ImportError as exc:
        raise ImportError("answers as Arrow need pyarrow: pip install 'chronolake[arrow]'") from exc
    return pyarrow
