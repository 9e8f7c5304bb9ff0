"""The files in the buffers of streams, as a projection of the log, and the facts about files of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from chronolake_metastore.domain.changes import BufferedVersion, InstantKey
from chronolake_metastore.domain.reported_files import BufferedFile, touch_of
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Statement
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Touch

_INSERT: Final = statements.load("buffered_files/insert")
_FIND: Final = statements.load("buffered_files/find")
_FIND_UNMARKED: Final = statements.load("buffered_files/find_unmarked")
_DELETE_VERSIONS: Final = """
    DELETE FROM buffered_file b
    USING unnest(%(table_id)s::uuid[], %(version)s::bigint[], %(requested_time)s::bigint[])
        AS dropped (table_id, version, requested_time)
    WHERE b.table_id = dropped.table_id
        AND b.requested_time = moment(dropped.requested_time)
        AND b.version = dropped.version
"""
_DELETE_INSTANTS: Final = """
    DELETE FROM buffered_file b
    USING unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS ended (table_id, requested_time)
    WHERE b.table_id = ended.table_id AND b.requested_time = moment(ended.requested_time)
"""


def find(table_id: UUID, stats: Sequence[WriteStat]) -> Query[list[BufferedFile]]:
    """The files in buffers of a table's streams that these files have to do with, some of them twice.

    They are the same files, and those of the same file groups if one of both is a base file.
    """
    parameters = {
        "table_id": table_id,
        "partition_paths": [stat.partition_path for stat in stats],
        "file_ids": [stat.file_id for stat in stats],
        "file_names": [stat.file_name for stat in stats],
        "are_base": [touch_of(stat) is Touch.BASE for stat in stats],
    }
    return Query(_FIND, parameters, lambda rows: [_buffered(row) for row in rows])


def _buffered(row: tuple[Any, ...]) -> BufferedFile:
    partition_path, file_id, file_name, kind, requested_time, version, *counts = row[:-3]
    stream, checkpoint, is_blocking = row[-3:]
    return BufferedFile(
        partition_path,
        file_id,
        file_name,
        Touch(kind),
        Micros(requested_time),
        version,
        tuple(counts),
        stream,
        checkpoint,
        is_blocking,
    )


def find_unmarked(
    instant: InstantKey, stats: Sequence[WriteStat], *, are_required: bool
) -> Query[list[DeletedFile]]:
    """The files without a marker; none if the markers of the instant are not compared when it completes."""
    table_id, requested_time = instant
    parameters = {
        "table_id": table_id,
        "requested_time": requested_time,
        "partition_paths": [stat.partition_path for stat in stats],
        "file_names": [stat.file_name for stat in stats],
        "are_required": are_required,
    }
    return Query(_FIND_UNMARKED, parameters, lambda rows: [DeletedFile(*row) for row in rows])


def project(
    buffered: Sequence[BufferedVersion], dropped: Sequence[BufferedVersion], ended: Iterable[InstantKey]
) -> list[Statement]:
    """Put the files of events into the buffers; take out dropped ones, and those of ended instants."""
    gone, over = set(dropped), set(ended)
    staying = [
        staged
        for staged in buffered
        if staged not in gone and (staged.table_id, staged.requested_time) not in over
    ]
    written: list[Statement] = []
    if staying:
        written.append((_INSERT, _versions(staying)))
    if dropped:
        written.append((_DELETE_VERSIONS, _versions(dropped)))
    if over:
        keys = sorted(over)
        written.append(
            (
                _DELETE_INSTANTS,
                {"table_id": [key[0] for key in keys], "requested_time": [key[1] for key in keys]},
            )
        )
    return written


def _versions(versions: Sequence[BufferedVersion]) -> dict[str, object]:
    return {
        "table_id": [version.table_id for version in versions],
        "version": [version.version for version in versions],
        "requested_time": [version.requested_time for version in versions],
    }
