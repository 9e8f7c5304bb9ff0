"""The publisher in a process of its own, so that it never takes processor time that commands need.

The process has a lower priority than the server. Its standard input has the settings, then a line each time
that the server has executed commands; at the end of the input it ends. Its standard output has a line of counts
each time that they change. The server starts it again when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from chronolake_metastore import object_storage, telemetry
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.publication_execution import Counts
from chronolake_metastore.workers.publisher import ServerPublisher
from chronolake_metastore.workers.worker import Resources, Worker
from chronolake_model import decoding

NAME: Final = "publisher"
NICENESS: Final = 10
"""About a tenth of a processor for it, while the server and PostgreSQL want all of them."""
CONNECTIONS: Final = 4
"""To the database."""
ARCHIVE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The parts of the archive that are kept in memory."""
REST_SECONDS: Final = 0.05
"""The server's pause between two wake-ups of the process."""
RESTART_SECONDS: Final = 1.0
END_SECONDS_MAX: Final = 5.0
"""How long the server waits for the end of the process before it kills it."""
COUNT_SECONDS: Final = 0.5
"""How often the process checks whether its counts have changed."""
_WAKE_UP: Final = b"\n"
_LINE_BYTES_MAX: Final = 1024 * 1024

_log = telemetry.logger(__name__)


async def run(resources: Resources) -> None:
    """Keep the process running until cancelled."""
    publisher, metrics = ServerPublisher.new_name(), resources.metrics
    while True:
        try:
            async with _started(resources.settings, publisher) as process, asyncio.TaskGroup() as tasks:
                waking = tasks.create_task(_wake(process, resources.notifier))
                await _count(process, metrics)
                waking.cancel()
            _log.warning("the publisher's process has ended; it is started again", code=process.returncode)
        except Exception:
            # The edge of a worker: a failure must not end the server, and the next start may succeed.
            metrics.worker_failures.labels(NAME).inc()
            _log.exception("the publisher's process failed; it is started again")
        await asyncio.sleep(RESTART_SECONDS)


@asynccontextmanager
async def _started(settings: Settings, publisher: str) -> AsyncIterator[Process]:
    """The process, with its settings. At the end of the block it is made to end."""
    command = [sys.executable, "-P", "-m", __name__, publisher]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(settings, enc_hook=str) + b"\n")
        yield process
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _wake(process: Process, notifier: Notifier) -> None:
    """Pass the wake-ups of the server on. Of several in quick succession, one is passed on."""
    assert process.stdin is not None
    while True:
        notified = asyncio.ensure_future(notifier.wait(seconds_max=None))
        try:
            await asyncio.sleep(REST_SECONDS)
            await notified
        finally:
            notified.cancel()
        if process.stdin.transport.get_write_buffer_size() == 0:
            process.stdin.write(_WAKE_UP)


async def _count(process: Process, metrics: Metrics) -> None:
    """Add the counts of the process to the server's, until it ends."""
    assert process.stdout is not None
    before = Counts()
    while line := await process.stdout.readline():
        counts = decoding.decode(line, Counts)
        metrics.publication_steps.inc(counts.steps - before.steps)
        metrics.publication_failures.inc(counts.failures - before.failures)
        metrics.publication_foreign_files.inc(counts.foreign_files - before.foreign_files)
        before = counts


def main() -> None:
    """Be the process."""
    # Ctrl-C reaches it too, but the server says when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_publish(sys.argv[1]))


async def _publish(name: str) -> None:
    reader = asyncio.StreamReader(_LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    settings = decoding.decode_with(await reader.readline(), Settings, _decoded)
    telemetry.configure(settings.log_format, settings.log_level)
    database = Database(msgspec.structs.replace(settings, pool_size=CONNECTIONS), lambda: _archive_of(settings))
    notifier, counts = Notifier(), Counts()
    try:
        async with asyncio.TaskGroup() as tasks:
            publisher = ServerPublisher(database, notifier, counts, settings, name)
            working = [tasks.create_task(publisher.run()), tasks.create_task(_tell(counts))]
            while await reader.readline():
                notifier.notify()
            for task in working:
                task.cancel()
    finally:
        await database.close()


def _archive_of(settings: Settings) -> object:
    """The reader of the archive, for the first table whose old events are only there."""
    from chronolake_metastore.archive.reading import ArchiveReader  # noqa: PLC0415  # PyArrow
    from chronolake_metastore.archive.storage import ArchiveStorage  # noqa: PLC0415

    location = settings.archive
    storage = ArchiveStorage(object_storage.open_location(location)) if location else None
    return ArchiveReader(storage, ARCHIVE_BYTES_MAX, has_outcomes=False)


def _decoded(value_type: type, text: str) -> Any:
    assert value_type is Path
    return Path(text)


async def _tell(counts: Counts) -> None:
    """Write the counts when they have changed."""
    written = b""
    while True:
        line = msgspec.json.encode(counts)
        if line != written:
            # If the server was killed, its end of the pipe is closed; the end of the input follows.
            with contextlib.suppress(BrokenPipeError):
                os.write(sys.stdout.fileno(), line + b"\n")
            written = line
        await asyncio.sleep(COUNT_SECONDS)


WORKER: Final = Worker(
    name=NAME,
    does="publishes tables for Hudi's readers, in a process of its own with a lower priority",
    run=run,
    setting="publisher_seconds",
)


if __name__ == "__main__":
    main()
