"""Streams and their buffers as projections of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.actions import begun_as
from chronolake_metastore.domain.changes import InstantKey
from chronolake_metastore.domain.conflicts import GROUPS_NAMED_MAX, ConcurrentInstant, change_of
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.promised_files import PromisedGroup, PromisedGroups
from chronolake_metastore.domain.streams import WAIT_SECONDS_DEFAULT, Checkpoint, Stream, StreamKey, TaskReports
from chronolake_metastore.store import instants
from chronolake_metastore.store.instants import FoundInstants
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, read
from chronolake_model import decoding
from chronolake_model.files import FileGroupName
from chronolake_model.names import split_table_name
from chronolake_model.times import MICROS_PER_SECOND, Micros
from chronolake_model.vocabulary import Action, Operation, State, Touch

_FIND: Final = statements.load("streams/find")
_FIND_OF_TABLES: Final = statements.load("streams/find_of_tables")
_FIND_INSTANTS: Final = statements.load("streams/find_instants")
_FIND_EXPIRED: Final = statements.load("streams/find_expired")
_FIND_PROMISED: Final = statements.load("streams/find_promised")
_TOTALS: Final = statements.load("streams/totals")
_PAGE: Final = statements.load("streams/page")
_SAVE: Final = statements.load("streams/save")
_SAVE_CHECKPOINTS: Final = statements.load("streams/save_checkpoints")
_DELETE_CHECKPOINTS: Final = """
    DELETE FROM stream_checkpoint c
    USING unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS ended (table_id, requested_time)
    WHERE c.table_id = ended.table_id AND c.requested_time = moment(ended.requested_time)
"""
_TASKS: Final = decoding.decoder(dict[str, TaskReports])
_ATTEMPTS: Final = decoding.decoder(dict[str, int])
_ENDED: Final = decoding.decoder(list[str])
_STREAM_COLUMNS: Final = 14

StreamName = tuple[str, str]
"""The name of a table, and that of one of its streams."""


class ExpiredStream(msgspec.Struct, frozen=True):
    """A stream whose lease has ended, with instants to roll back."""

    table: str
    stream: str
    writer: str


class Totals(msgspec.Struct, frozen=True):
    """Pending instants of streams, the bytes of their reported files, and the age of the oldest in seconds."""

    instants: int = 0
    size_bytes: int = 0
    oldest_seconds: float = 0.0


def find(named: Iterable[StreamName]) -> Query[dict[StreamKey, Stream]]:
    """Streams by the names of their tables and their own, with their buffers."""
    ordered = sorted(set(named))
    return Query(_FIND, _names(ordered), _streams) if ordered else Query.known({})


def find_of_tables(tables: Iterable[str]) -> Query[dict[StreamKey, Stream]]:
    """All streams of tables, with their buffers."""
    ordered = [split_table_name(table) for table in sorted(set(tables))]
    parameters = {
        "namespaces": [namespace for namespace, _ in ordered],
        "tables": [name for _, name in ordered],
    }
    return Query(_FIND_OF_TABLES, parameters, _streams) if ordered else Query.known({})


def find_instants(named: Iterable[StreamName]) -> Query[FoundInstants]:
    """The pending instants of streams, and their marks."""
    return Query(_FIND_INSTANTS, _names(sorted(set(named))), instants.decode)


def find_promised(table_id: UUID, named: Sequence[FileGroupName] | None) -> Query[PromisedGroups]:
    """The first hundred of the named file groups of a table that have promised files; None names all.

    Fetch it ``in_sets``.
    """
    parameters = {
        "table_id": table_id,
        "all_groups": named is None,
        "partition_paths": [name.partition_path for name in named or ()],
        "file_ids": [name.file_id for name in named or ()],
        "limit": GROUPS_NAMED_MAX,
    }
    return Query(_FIND_PROMISED, parameters, lambda rows: [_promised(table_id, row) for row in rows])


def _promised(table_id: UUID, row: tuple[Any, ...]) -> PromisedGroup:
    partition_path, file_id, kind, stream, checkpoint, action, operation, state, requested_time = row
    instant = ConcurrentInstant(
        change=change_of(begun_as(Action(action), Operation(operation)), Touch(kind)),
        action=Action(action),
        state=State(state),
        requested_time=Micros(requested_time),
    )
    return PromisedGroup(FileGroup(table_id, partition_path, file_id), stream, checkpoint, instant)


def save(streams: Iterable[tuple[UUID, Stream]]) -> Statement:
    """Save streams in their present state, without their buffers."""
    saved = list(streams)
    columns = ("name", "epoch", "writer", "opened_at", "is_open", "tasks", "lease_seconds", "lease_expires_at")
    return _SAVE, {
        "table_id": [table_id for table_id, _ in saved],
        **{column: [getattr(stream, column) for _, stream in saved] for column in columns},
        "acknowledged": [stream.acknowledged for _, stream in saved],
        "attempts": [_json(stream.attempts) for _, stream in saved],
        "ended": [_json(stream.ended) for _, stream in saved],
        "version": [stream.version for _, stream in saved],
        "lost": [stream.lost for _, stream in saved],
    }


def save_checkpoints(checkpoints: Mapping[tuple[StreamKey, int], Checkpoint]) -> Statement:
    """Save checkpoints of buffers in their present state."""
    keys = sorted(checkpoints)
    values = [checkpoints[key] for key in keys]
    return _SAVE_CHECKPOINTS, {
        "table_id": [table_id for (table_id, _), _ in keys],
        "stream": [stream for (_, stream), _ in keys],
        "checkpoint": [number for _, number in keys],
        "requested_time": [checkpoint.requested_time for checkpoint in values],
        "epoch": [checkpoint.epoch for checkpoint in values],
        "is_blocking": [checkpoint.is_blocking for checkpoint in values],
        "is_reported": [checkpoint.may_be_acknowledged for checkpoint in values],
        "size_bytes": [str(checkpoint.size_bytes) for checkpoint in values],
        "tasks": [_json(checkpoint.tasks) for checkpoint in values],
    }


def delete_checkpoints(ended: Iterable[InstantKey]) -> Statement:
    """Take the checkpoints of instants that have ended out of the buffers."""
    keys = sorted(ended)
    return _DELETE_CHECKPOINTS, {
        "table_id": [table_id for table_id, _ in keys],
        "requested_time": [requested_time for _, requested_time in keys],
    }


async def page(connection: Connection, table_id: UUID, after: str, limit: int) -> list[Stream]:
    """The first streams of a table after a name, by their names, with their buffers."""
    parameters = {"table_id": table_id, "after": after, "limit": limit}
    rows = await connection.execute(_PAGE, parameters)
    return list(_streams([tuple(row) for row in rows]).values())


async def promised_in(connection: Connection, table_id: UUID, named: Sequence[FileGroupName]) -> PromisedGroups:
    """The named file groups that have promised files, for reading."""
    return await read(connection, find_promised(table_id, named)) if named else []


async def expired(connection: Connection, limit: int) -> list[ExpiredStream]:
    """Streams whose lease has ended and of which ``domain.streams.expire`` rolls something back."""
    parameters = {"limit": limit, "wait_seconds": WAIT_SECONDS_DEFAULT}
    rows = await connection.execute(_FIND_EXPIRED, parameters)
    return [ExpiredStream(*row) for row in rows]


async def totals(connection: Connection) -> Totals:
    """The totals of the buffers of all streams."""
    instants_count, size_bytes, age_us = (await connection.execute(_TOTALS)).one()
    return Totals(instants_count, int(size_bytes), age_us / MICROS_PER_SECOND)


def _names(named: Sequence[StreamName]) -> dict[str, object]:
    tables = [split_table_name(table) for table, _ in named]
    return {
        "namespaces": [namespace for namespace, _ in tables],
        "tables": [name for _, name in tables],
        "streams": [stream for _, stream in named],
    }


def _streams(rows: Rows) -> dict[StreamKey, Stream]:
    return {
        (table_id, name): _stream(list(of_stream))
        for (table_id, name), of_stream in groupby(rows, key=lambda row: (row[0], row[1]))
    }


def _stream(rows: Sequence[tuple[Any, ...]]) -> Stream:
    _, name, epoch, writer, opened_at, is_open, tasks, lease_seconds, expires_at, *last = rows[0][
        :_STREAM_COLUMNS
    ]
    acknowledged, attempts, ended, version, lost = last
    checkpoints = [row[_STREAM_COLUMNS:] for row in rows if row[_STREAM_COLUMNS] is not None]
    return Stream(
        name=name,
        epoch=epoch,
        writer=writer,
        opened_at=Micros(opened_at),
        is_open=is_open,
        tasks=tasks,
        lease_seconds=lease_seconds,
        lease_expires_at=Micros(expires_at),
        acknowledged=acknowledged,
        attempts=_ATTEMPTS.decode(attempts),
        ended=_ENDED.decode(ended),
        version=version,
        lost=lost,
        checkpoints={
            number: Checkpoint(Micros(requested_time), epoch_then, is_blocking, _TASKS.decode(reports))
            for number, requested_time, epoch_then, is_blocking, reports in checkpoints
        },
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
