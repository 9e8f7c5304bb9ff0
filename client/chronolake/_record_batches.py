"""Arrow IPC streams that arrive in pieces. Needs pyarrow, ``chronolake[arrow]``. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chronolake import errors

if TYPE_CHECKING:
    import pyarrow as pa

_INT16, _INT32, _INT64 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<q")
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of an Arrow IPC stream. A stream without it is incomplete."""


def whole_table(content: bytes) -> pa.Table:
    """The table of a whole stream. Raises ``ConnectionFailed`` when it is incomplete."""
    pa = pyarrow()
    if not content.endswith(END):
        raise broken_off()
    return pa.ipc.open_stream(content).read_all()


class MessageSplitter:
    """Splits an Arrow IPC stream into messages. pyarrow's own reader would block until the next piece arrives.

    A message consists of -1 and the length of its metadata as two int32, the metadata, and a body, whose length
    is in the metadata. A message without metadata ends the stream.
    """

    def __init__(self) -> None:
        self._chunks: list[bytes | memoryview] = []
        self._size = 0
        self._required = len(END)
        self.has_ended = False

    def messages_in(self, chunk: bytes) -> Iterator[memoryview]:
        """The messages that ``chunk`` completes; an incomplete last one is kept for the next chunk."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        # Chunks are joined only when a message may be complete, so bytes are not copied with each chunk.
        while self._size >= self._required and not self.has_ended:
            buffer = memoryview(b"".join(self._chunks))
            self._required = _required_bytes(buffer)
            if self._required > self._size:
                self._chunks = [buffer]
                return
            message, following = buffer[: self._required], buffer[self._required :]
            self._chunks, self._size, self._required = [following], len(following), len(END)
            self.has_ended = message == END
            if not self.has_ended:
                yield message


def _required_bytes(buffer: memoryview) -> int:
    """The length of the first message, or of its metadata if the metadata is incomplete."""
    body_begins = len(END) + int(_INT32.unpack_from(buffer, 4)[0])
    if body_begins == len(END) or len(buffer) < body_begins:
        return body_begins
    return body_begins + _body_length(bytes(buffer[len(END) : body_begins]))


def _body_length(metadata: bytes) -> int:
    """The field ``bodyLength`` of a flatbuffer ``Message``: the fourth of its table, 0 when it is absent."""
    table = _INT32.unpack_from(metadata)[0]
    fields = table - _INT32.unpack_from(metadata, table)[0]
    field = 4 + 2 * 3
    if field >= _INT16.unpack_from(metadata, fields)[0]:
        return 0
    offset = _INT16.unpack_from(metadata, fields + field)[0]
    return int(_INT64.unpack_from(metadata, table + offset)[0]) if offset else 0


def broken_off() -> errors.ConnectionFailed:
    """The error for an incomplete stream."""
    return errors.ConnectionFailed("the answer of the server is incomplete; send the request again")


def pyarrow() -> Any:
    """The package pyarrow. Raises ``ImportError``, which says how to install it."""
    try:
        import pyarrow  # noqa: PLC0415  # an extra
        import pyarrow.ipc  # noqa: PLC0415
    except ImportError as exc:
        raise ImportError("answers as Arrow need pyarrow: pip install 'chronolake[arrow]'") from exc
    return pyarrow
