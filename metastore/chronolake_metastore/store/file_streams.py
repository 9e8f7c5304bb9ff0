"""The files of a table as Arrow: a row for each data file, the files of a slice together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import pyarrow as pa
from psycopg import sql

from chronolake_metastore.domain.partition_pruning import PartitionSet
from chronolake_metastore.store import scans
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.arrow import ArrowStream
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import Micros

_SNAPSHOT: Final = statements.load("file_streams/snapshot")
_CHANGES: Final = statements.load("file_streams/changes")
_PUBLISHED: Final = statements.load("file_streams/published")
_TIME: Final = pa.timestamp("us", tz="UTC")
_FILE: Final = (
    pa.field("partition_path", pa.string(), nullable=False),
    pa.field("file_id", pa.string(), nullable=False),
    pa.field("base_instant_time", _TIME, nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size_bytes", pa.int64(), nullable=False),
    pa.field("records", pa.int64(), nullable=False),
    pa.field("requested_time", _TIME, nullable=False),
    pa.field("completion_time", _TIME, nullable=False),
    pa.field("schema_version", pa.int32(), nullable=False),
    pa.field("has_field_ids", pa.bool_(), nullable=False),
)
_OF_A_PUBLISHED_FILE: Final = ("path", "size_bytes", "requested_time", "completion_time")
SNAPSHOT: Final = pa.schema(_FILE)
"""``path`` is relative to the base path, ``kind`` is base or log; the first three columns name the slice."""
PUBLISHED: Final = pa.schema([field for field in _FILE if field.name in _OF_A_PUBLISHED_FILE])
"""A row for each published file, also of superseded and replaced slices."""
CHANGES: Final = pa.schema([*_FILE, pa.field("side", pa.string(), nullable=False)])
"""``side`` is before or after: the slice as of the start of the range, or as of its end."""


def snapshot(
    database: Database, table_id: UUID, as_of: Micros, sets: Sequence[PartitionSet], metadata: dict[str, str]
) -> ArrowStream:
    """The files of the slices that were live as of a completion time and could match.

    ``metadata`` goes into the schema.
    """
    query = statements.with_literals(
        _SNAPSHOT,
        {"table_id": table_id, "as_of": as_of},
        wanted=_in(scans.partition_paths(sets)),
        could_match=scans.could_match(sets),
    )
    return ArrowStream(database, query, SNAPSHOT.with_metadata(metadata))


def changes(
    database: Database, table_id: UUID, between: tuple[Micros, Micros], metadata: dict[str, str]
) -> ArrowStream:
    """The slices, before and after, of the file groups that changed in a range (from, to]."""
    after, until = between
    query = statements.with_literals(_CHANGES, {"table_id": table_id, "after": after, "until": until})
    return ArrowStream(database, query, CHANGES.with_metadata(metadata))


def published(database: Database, table_id: UUID, as_of: Micros, metadata: dict[str, str]) -> ArrowStream:
    """Every file that was published by a completion time, in no order."""
    query = statements.with_literals(_PUBLISHED, {"table_id": table_id, "as_of": as_of})
    return ArrowStream(database, query, PUBLISHED.with_metadata(metadata))


def _in(partition_paths: Sequence[str] | None) -> sql.Composable:
    match partition_paths:
        case None:
            return sql.SQL("true")
        case [only]:
            # An index gives what is equal in its order, and what is any of several not.
            return sql.SQL("partition_path = {}").format(only)
        case _:
            return sql.SQL("partition_path = ANY ({}::text[])").format(list(partition_paths))
