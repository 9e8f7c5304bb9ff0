"""/v1/tables/{table}/streams"""

from __future__ import annotations

import re
from typing import Final

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, TableInPath
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import checkpoints, streams
from chronolake_metastore.queries import streams as queries
from chronolake_model import operations
from chronolake_model.names import decoder_pattern
from chronolake_model.streams import (
    STREAM_NAME_PATTERN,
    AbortCheckpoint,
    CloseStream,
    CompleteCheckpoints,
    CompletedCheckpoints,
    OpenStream,
    RenewStream,
    ReportedWriteMetadata,
    ReportWriteMetadata,
    RequestInstant,
    RestartedTask,
    RestartTask,
    Stream,
    StreamInstant,
    StreamPage,
)

StreamInPath = FromPath[str]
_STREAM_NAME: Final = re.compile(decoder_pattern(STREAM_NAME_PATTERN))


@route(operations.streams.OPEN_STREAM)
async def open_stream(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[OpenStream],
    keyed_caller: NamedDependency[Caller],
) -> Response[Stream]:
    """Give a streaming writer the next epoch of its stream, and its buffer as it stands.

    Every request with an earlier epoch is refused from then on. The first opening makes the stream. A job that
    continues from a checkpoint names it in `restored_checkpoint`, and then says that it is complete: its
    instants complete if they have not. The instants of later checkpoints are rolled back.
    """
    return await keyed_caller.execute(
        streams.OpenStream(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.RENEW_STREAM)
async def renew_stream(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[RenewStream],
    keyed_caller: NamedDependency[Caller],
) -> Response[Stream]:
    """Renew the lease from now on. It holds all pending instants of the stream."""
    return await keyed_caller.execute(
        streams.RenewStream(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.REQUEST_STREAM_INSTANT)
async def request_stream_instant(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[RequestInstant],
    keyed_caller: NamedDependency[Caller],
) -> Response[StreamInstant]:
    """The instant that the files of a checkpoint belong to; the first request for a checkpoint begins it.

    The status is 201 then, and 200 for later requests. A new instant begins although earlier ones are pending.
    `instant-not-yet` is not recorded as an outcome: send the same request again a little later.
    """
    return await keyed_caller.execute(
        checkpoints.RequestInstant(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.REPORT_WRITE_METADATA)
async def report_write_metadata(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[ReportWriteMetadata],
    keyed_caller: NamedDependency[Caller],
) -> Response[ReportedWriteMetadata]:
    """Report files that a task has written for a checkpoint. They are invisible until it is complete.

    The reports of a task are merged, and a file that comes again counts once. A file with which the checkpoint
    could never complete is refused: it has no marker and needs one, another task has reported it, or another
    file of its file group excludes it.
    """
    text = data.requested_time
    time = None if text is None else time_in_body("requested_time", text)
    return await keyed_caller.execute(
        checkpoints.ReportWriteMetadata(
            parameters.table(table), _stream(stream), **asdict(data) | {"requested_time": time}
        )
    )


@route(operations.streams.COMPLETE_CHECKPOINTS)
async def complete_checkpoints(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[CompleteCheckpoints],
    keyed_caller: NamedDependency[Caller],
) -> Response[CompletedCheckpoints]:
    """Acknowledge checkpoint n: the instants of all ids below n complete, in their order, in one transaction.

    An acknowledgement that comes again changes nothing, and one that never came is covered by the next. If an
    instant cannot complete, no later one does, and the problem names it in its `context`; those before it
    have completed. With `unreconciled-markers`, make sure that all tasks have passed the barrier: a slow one
    may still write such a file. Then delete the files, report the deletions, and acknowledge again.
    """
    return await keyed_caller.execute(
        checkpoints.CompleteCheckpoints(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.ABORT_CHECKPOINT)
async def abort_checkpoint(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[AbortCheckpoint],
    keyed_caller: NamedDependency[Caller],
) -> Response[Stream]:
    """Keep in the log that a checkpoint was aborted. The buffer stays: the next checkpoint completes it."""
    return await keyed_caller.execute(
        checkpoints.AbortCheckpoint(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.RESTART_TASK)
async def restart_task(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[RestartTask],
    keyed_caller: NamedDependency[Caller],
) -> Response[RestartedTask]:
    """Drop the reports of a task after a checkpoint, because the task restarts alone from this checkpoint.

    The other tasks go on. The answer has the task's `attempt` for its requests; earlier attempts are refused.
    """
    return await keyed_caller.execute(
        checkpoints.RestartTask(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.CLOSE_STREAM)
async def close_stream(
    table: TableInPath,
    stream: StreamInPath,
    data: JSONBody[CloseStream],
    keyed_caller: NamedDependency[Caller],
) -> Response[Stream]:
    """Close a stream that has no pending instant, because its job has ended. It can be opened again."""
    return await keyed_caller.execute(
        streams.CloseStream(parameters.table(table), _stream(stream), **asdict(data))
    )


@route(operations.streams.GET_STREAM)
async def get_stream(table: TableInPath, stream: StreamInPath, caller: NamedDependency[Caller]) -> Stream:
    """One stream, with the reports of its tasks."""
    return await caller.read(queries.get, parameters.table(table), _stream(stream))


@route(operations.streams.LIST_STREAMS)
async def list_streams(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> StreamPage:
    """The streams of a table by their names, page by page, without the reports of their tasks."""
    return await caller.read(queries.page, parameters.table(table), limit, cursor)


def _stream(name: str) -> str:
    if not _STREAM_NAME.fullmatch(name):
        raise errors.InvalidParameter(
            "a stream is named by 1 to 255 letters, digits and _ . : @ = ~ -, a letter or digit first; not "
            f"{name[:100]!r}",
            parameter="stream",
        )
    return name
