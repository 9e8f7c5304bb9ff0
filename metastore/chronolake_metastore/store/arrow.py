"""Large answers as Arrow: what PostgreSQL copies out is turned into record batches by ADBC, one at a time.

A server that made a Python object of each row would take most of its time, and of its memory, for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Final

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions, dbapi

from chronolake_metastore.store import engine
from chronolake_metastore.store.engine import Database

BATCH_BYTES: Final = 4 * 1024 * 1024
"""About how large a batch is. A stream has three of them in memory: being read, waiting, and being sent."""
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class ArrowStream:
    """The rows of a query as an Arrow IPC stream; each batch is read while the one before it is sent.

    It holds a connection until its messages have all been taken, or nobody holds it any more.
    """

    def __init__(self, running: _Running, schema: pa.Schema) -> None:
        self._running = running
        self._schema = schema
        # Its reader may go away at any time: in the middle, or before the first message was asked for.
        self._end = weakref.finalize(self, running.end_soon)

    async def messages(self) -> AsyncIterator[bytes]:
        """The stream, message by message."""
        try:
            yield self._schema.serialize().to_pybytes()
            while (message := await self._running.take()) is not None:
                yield message
            yield _END_OF_STREAM
        finally:
            self._end()


async def open_stream(database: Database, query: str, schema: pa.Schema) -> ArrowStream:
    """The rows of ``query``, whose columns are those of ``schema``; raises ``DatabaseUnavailable``.

    The first of them have been read, so that what is wrong shows before anything is answered.
    """
    await database.streams.acquire()
    running = _Running(_Query(database.streaming_conninfo, query, schema), database.streams)
    stream = ArrowStream(running, schema)
    with _database_errors():
        await running.wait()
    return stream


class _Running:
    """A query and the batch that is read ahead of who takes them."""

    def __init__(self, query: _Query, streams: asyncio.Semaphore) -> None:
        self._query = query
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._next = self._read()

    async def wait(self) -> None:
        """Wait until the next batch is there."""
        # Who waits may be cancelled, and ADBC may not.
        await asyncio.shield(self._next)

    async def take(self) -> bytes | None:
        """The next batch as a message, while the one behind it is being read; none behind the last."""
        message = await asyncio.shield(self._next)
        if message is not None:
            self._next = self._read()
        return message

    def end_soon(self) -> None:
        """Give the connection back when nothing reads from it any more; from any thread."""
        self._loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        task = self._loop.create_task(self._end())
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)

    async def _end(self) -> None:
        self._query.cancel()
        with contextlib.suppress(*_FAILURES):
            await self._next
        await asyncio.to_thread(self._query.close)
        self._streams.release()

    def _read(self) -> asyncio.Future[bytes | None]:
        # ADBC blocks.
        return asyncio.ensure_future(asyncio.to_thread(self._query.next_message))


_ENDING: Final[set[asyncio.Task[None]]] = set()
_FAILURES: Final = (adbc_driver_manager.Error, OSError, pa.ArrowException)


class _Query:
    """A query on a connection of its own. Each call blocks, and all but ``cancel`` are made one at a time."""

    def __init__(self, conninfo: str, query: str, schema: pa.Schema) -> None:
        self._conninfo = conninfo
        self._query = query
        self._schema = schema
        self._open = contextlib.ExitStack()
        self._cursor: dbapi.Cursor | None = None
        self._batches: pa.RecordBatchReader | None = None

    def next_message(self) -> bytes | None:
        """The next batch as a message; none behind the last."""
        if self._batches is None:
            self._batches = self._run()
        try:
            batch = self._batches.read_next_batch()
        except StopIteration:
            return None
        message: bytes = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema).serialize().to_pybytes()
        return message

    def _run(self) -> pa.RecordBatchReader:
        connection = dbapi.connect(self._conninfo, autocommit=True)
        self._open.callback(connection.close)
        cursor = connection.cursor()
        self._open.callback(cursor.close)
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        cursor.adbc_statement.set_options(**hint)
        self._cursor = cursor
        cursor.execute(self._query)
        batches = cursor.fetch_record_batch()
        self._open.callback(batches.close)
        return batches

    def cancel(self) -> None:
        """Have the database stop, so that whoever waits for a batch fails soon."""
        if self._cursor is not None:
            with contextlib.suppress(*_FAILURES):
                self._cursor.adbc_cancel()

    def close(self) -> None:
        """Close the connection, and what is open on it before."""
        with contextlib.suppress(*_FAILURES):
            self._open.close()


@contextlib.contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except (adbc_driver_manager.Error, OSError) as exc:
        state = getattr(exc, "sqlstate", None)
        if state is not None and not engine.is_away_state(state):
            raise
        raise engine.unavailable(exc) from exc
