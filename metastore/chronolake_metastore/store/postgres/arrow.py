"""Large answers as Arrow: ADBC turns the output of COPY into record batches, one at a time.

To make a Python object of each row would take most of the server's time and memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions, dbapi

from chronolake_metastore.store.postgres import engine
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.sessions import SessionSettings
from chronolake_metastore.store.postgres.stream_slots import STREAMS_MAX

BATCH_BYTES: Final = 4 * 1024 * 1024
"""The approximate size of a batch. A stream has three in memory: being read, waiting, and being sent."""
CANCEL_AGAIN_SECONDS: Final = 1.0
Result = TypeVar("Result")
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class ArrowStream:
    """The rows of ``query``, whose columns are those of ``schema``, as an Arrow IPC stream."""

    def __init__(self, database: Database, query: str, schema: pa.Schema) -> None:
        self.slots = database.stream_slots
        self._query = _Query(database.streaming, query, schema)
        self._schema = schema

    @contextlib.asynccontextmanager
    async def opened(self, caller: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Its messages, for a caller; each batch is read while the one before it is sent.

        Raises ``TooManyStreams``, ``Overloaded`` or ``DatabaseUnavailable``. The first batch has been read,
        so that a failure shows before an answer begins. At the end of the block the query is stopped; its
        slot is given back when its connection is closed. To be called once.
        """
        await self.slots.take(caller)
        running = _Running(self._query, functools.partial(self.slots.give_back, caller))
        try:
            with _database_errors():
                await running.wait()
            yield self._messages(running)
        finally:
            running.end_soon()

    async def _messages(self, running: _Running) -> AsyncIterator[bytes]:
        yield self._schema.serialize().to_pybytes()
        while (message := await running.take()) is not None:
            yield message
        yield _END_OF_STREAM


class _Running:
    """A query and the batch that is read ahead of its reader."""

    def __init__(self, query: _Query, ended: Callable[[], None]) -> None:
        self._query = query
        self._ended = ended
        self._next = self._read()

    async def wait(self) -> None:
        """Wait until the next batch is there."""
        # The waiting task may be cancelled, but ADBC must not be.
        await asyncio.shield(self._next)

    async def take(self) -> bytes | None:
        """The next batch as a message, while the one after it is being read; None after the last."""
        message = await asyncio.shield(self._next)
        if message is not None:
            self._next = self._read()
        return message

    def end_soon(self) -> None:
        """Stop the query, close its connection, and then call ``ended``; nothing reads from it any more."""
        task = asyncio.get_running_loop().create_task(self._end())
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)

    async def _end(self) -> None:
        try:
            # Again and again: a query that is only about to begin does not notice that it is cancelled.
            while not self._next.done():
                await asyncio.to_thread(self._query.cancel)
                await asyncio.wait([self._next], timeout=CANCEL_AGAIN_SECONDS)
            # Read here, or else asyncio would log it: the reader is gone.
            self._next.exception()
            await _in_thread(self._query.close)
        finally:
            self._ended()

    def _read(self) -> asyncio.Future[bytes | None]:
        return _in_thread(self._query.next_message)


def _in_thread(call: Callable[[], Result]) -> asyncio.Future[Result]:
    # ADBC blocks. In the loop's own threads, queries of a database that is silent would hold up all other work.
    return asyncio.get_running_loop().run_in_executor(_THREADS, call)


_THREADS: Final = ThreadPoolExecutor(STREAMS_MAX, thread_name_prefix="arrow")
_ENDING: Final[set[asyncio.Task[None]]] = set()
_FAILURES: Final = (adbc_driver_manager.Error, OSError, pa.ArrowException)


class _Query:
    """A query on a connection of its own. Each call blocks, and all but ``cancel`` are made one at a time."""

    def __init__(self, settings: SessionSettings, query: str, schema: pa.Schema) -> None:
        self._settings = settings
        self._query = query
        self._schema = schema
        self._open = contextlib.ExitStack()
        self._cursor: dbapi.Cursor | None = None
        self._batches: pa.RecordBatchReader | None = None

    def next_message(self) -> bytes | None:
        """The next batch as a message; None after the last."""
        if self._batches is None:
            self._batches = self._run()
        try:
            batch = self._batches.read_next_batch()
        except StopIteration:
            return None
        message: bytes = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema).serialize().to_pybytes()
        return message

    def _run(self) -> pa.RecordBatchReader:
        connection = dbapi.connect(self._settings.conninfo, autocommit=True)
        self._open.callback(connection.close)
        cursor = connection.cursor()
        self._open.callback(cursor.close)
        cursor.execute(self._settings.setting_up)
        cursor.fetchall()
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        cursor.adbc_statement.set_options(**hint)
        self._cursor = cursor
        cursor.execute(self._query)
        batches = cursor.fetch_record_batch()
        self._open.callback(batches.close)
        return batches

    def cancel(self) -> None:
        """Have the database stop, so that a reader that waits for a batch fails soon."""
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
