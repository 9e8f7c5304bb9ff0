"""Blocks of whole records of CSV and JSON files, in memory of Arrow, which threads of Python parse.

Arrow is given no stream of Python: its own threads would go on reading it after its reader was dropped, which
aborts a process that ends meanwhile.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from chronolake.ingest.text_files import Utf8Stream

_RECORD_BYTES_MAX: Final = 64 << 20
"""An unclosed quote makes one record of all lines after it; memory does not grow with it."""
_THREADS: Final = 2
_QUOTED: Final = re.compile(rb'(?<![^,\r\n])"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')
"""A quoted value. Its quote is the first byte of a value, and a quote within it is written twice."""


def of_csv(stream: Utf8Stream) -> Iterator[pa.Buffer]:
    """The text of a CSV file in blocks of whole records.

    Raises ``pa.ArrowInvalid`` for a very long record, and the errors of ``stream``.
    """
    return _blocks(stream, lambda text: _end_of_records(text, are_clear=stream.quotes.were_clear))


def of_lines(stream: Utf8Stream) -> Iterator[pa.Buffer]:
    """The text of a file in blocks of whole lines. Raises as ``of_csv``."""
    return _blocks(stream, lambda text: text.rfind(b"\n") + 1)


def parsed(
    blocks: Iterable[pa.Buffer], parse: Callable[[int, pa.Buffer], pa.Table]
) -> Iterator[pa.RecordBatch]:
    """The rows of blocks, in their order. ``parse`` is given the number of a block, from 0, and the block."""
    pending: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        for number, block in enumerate(blocks):
            pending.append(threads.submit(parse, number, block))
            if len(pending) > _THREADS:
                yield from pending.popleft().result().to_batches()
        while pending:
            yield from pending.popleft().result().to_batches()


def _blocks(stream: Utf8Stream, end_of: Callable[[bytes], int]) -> Iterator[pa.Buffer]:
    pending = b""
    for number, chunk in enumerate(stream.chunks()):
        text = pending + (chunk if number else chunk.removeprefix(codecs.BOM_UTF8))
        end = end_of(text)
        if end:
            yield _buffer(memoryview(text)[:end])
        pending = text[end:]
        if len(pending) > _RECORD_BYTES_MAX:
            raise pa.ArrowInvalid(f"a record is longer than {_RECORD_BYTES_MAX >> 20} MB")
    if pending:
        yield _buffer(memoryview(pending))


def _buffer(text: memoryview) -> pa.Buffer:
    """A copy in memory that Arrow allocates and releases."""
    # Arrow drops a byte order mark at the start of a block, but it is text there. An empty line is no record.
    before = b"\n" if bytes(text[: len(codecs.BOM_UTF8)]) == codecs.BOM_UTF8 else b""
    buffer = pa.allocate_buffer(len(before) + len(text))
    target = memoryview(buffer).cast("B")
    target[: len(before)] = before
    target[len(before) :] = text
    return buffer


def _end_of_records(text: bytes, *, are_clear: bool) -> int:
    """The end of the last complete record of ``text``, which begins with a record; 0 if there is none.

    ``are_clear`` says that quotes only enclose whole values: then they open and close in turns.
    """
    if are_clear:
        end = _line_end(text, 0, len(text))
        quotes = text.count(b'"', 0, end)
        while quotes % 2:
            earlier = _line_end(text, 0, text.rindex(b'"', 0, end))
            quotes -= text.count(b'"', earlier, end)
            end = earlier
        return end
    end = position = 0
    for quoted in _QUOTED.finditer(text):
        end = _line_end(text, position, quoted.start()) or end
        position = quoted.end()
    return _line_end(text, position, len(text)) or end


def _line_end(text: bytes, start: int, end: int) -> int:
    """The end of the last line that ends between two places; 0 if there is none."""
    line_feed = text.rfind(b"\n", start, end)
    return max(line_feed, text.rfind(b"\r", max(start, line_feed), end)) + 1
