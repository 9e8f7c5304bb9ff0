"""Calls of streams."""

from __future__ import annotations

import re
from typing import Final

from chronolake.calls import base
from chronolake.calls.base import Call, post, query, table_path
from chronolake_model import patterns
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

_NAME: Final = re.compile(patterns.of_decoder(STREAM_NAME_PATTERN))


def stream_path(table: str, stream: str) -> str:
    """The path of a stream. Raises ``ValueError`` for a name that no stream has."""
    if not _NAME.fullmatch(stream):
        raise ValueError(
            "a stream is named by 1 to 255 letters, digits and _ . : @ = ~ -, a letter or digit first; not "
            f"{stream[:100]!r}"
        )
    return f"{table_path(table)}/streams/{stream}"


def open_stream(table: str, stream: str, body: OpenStream) -> Call[Stream]:
    """Open a stream."""
    return post(f"{stream_path(table, stream)}/open", Stream, body)


def renew(table: str, stream: str, body: RenewStream) -> Call[Stream]:
    """Renew the lease of a stream."""
    return post(f"{stream_path(table, stream)}/heartbeat", Stream, body)


def request_instant(table: str, stream: str, body: RequestInstant) -> Call[StreamInstant]:
    """Ask for the instant of a checkpoint."""
    return post(f"{stream_path(table, stream)}/instants", StreamInstant, body)


def report(table: str, stream: str, body: ReportWriteMetadata) -> Call[ReportedWriteMetadata]:
    """Report files that a task has written."""
    return post(f"{stream_path(table, stream)}/write-metadata", ReportedWriteMetadata, body)


def complete(table: str, stream: str, body: CompleteCheckpoints) -> Call[CompletedCheckpoints]:
    """Acknowledge a checkpoint."""
    return post(f"{stream_path(table, stream)}/complete", CompletedCheckpoints, body)


def abort(table: str, stream: str, body: AbortCheckpoint) -> Call[Stream]:
    """Say that a checkpoint was aborted."""
    return post(f"{stream_path(table, stream)}/abort", Stream, body)


def restart_task(table: str, stream: str, body: RestartTask) -> Call[RestartedTask]:
    """Say that a task restarts alone."""
    return post(f"{stream_path(table, stream)}/restart-task", RestartedTask, body)


def close(table: str, stream: str, body: CloseStream) -> Call[Stream]:
    """Close a stream."""
    return post(f"{stream_path(table, stream)}/close", Stream, body)


def get(table: str, stream: str) -> Call[Stream]:
    """One stream."""
    return Call("GET", stream_path(table, stream), Stream)


def list_all(table: str) -> Call[StreamPage]:
    """The streams of a table."""
    return Call("GET", f"{table_path(table)}/streams", StreamPage, query(limit=base.LIMIT_MAX))
