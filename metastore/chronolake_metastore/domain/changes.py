"""The changes of a group of commands: what is appended to the log, and the rows of its projections."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.domain.schemas import Schema
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros

InstantKey = tuple[UUID, Micros]
"""The id of a table, and the requested time of one of its instants."""


class ListKey(msgspec.Struct, frozen=True):
    """Names a list of an event, which belongs to the instant with this requested time."""

    table_id: UUID
    instant: Micros
    version: int
    name: ListName


class ListOfEvent(msgspec.Struct, frozen=True):
    """A list of an event, with its entries: rows beside the event."""

    key: ListKey
    entries: Sequence[ListEntry]


class WrittenFiles(msgspec.Struct, frozen=True):
    """The write stats that the event of this ``version`` staged or published."""

    table_id: UUID
    version: int
    write_stats: Sequence[WriteStat]


class ReportedFiles(msgspec.Struct, frozen=True):
    """The deleted files that the event of this ``version`` reported; ``marked_by`` had marked them."""

    table_id: UUID
    version: int
    marked_by: Micros
    files: Sequence[DeletedFile]


class BufferedVersion(msgspec.Struct, frozen=True):
    """An event that staged files for a stream's instant."""

    table_id: UUID
    version: int
    requested_time: Micros


class PublishedFiles(msgspec.Struct, frozen=True):
    """An event that published the files of an instant."""

    table_id: UUID
    version: int
    requested_time: Micros
    completion_time: Micros


class ReplacingInstant(msgspec.Struct, frozen=True):
    """An instant whose completion removes file groups: rows beside its completion."""

    table_id: UUID
    requested_time: Micros
    completion_time: Micros


class Restored(msgspec.Struct, frozen=True):
    """A restore that completed: the table has the state that its savepoint pins."""

    table_id: UUID
    requested_time: Micros


class PlannedGroups(msgspec.Struct, frozen=True):
    """An instant whose plan names file groups: rows beside its request. It may be a table service."""

    table_id: UUID
    requested_time: Micros
    is_service: bool


class CleanedFiles(msgspec.Struct, frozen=True):
    """The files that the plan of a clean names, requested by the event of this version."""

    table_id: UUID
    requested_time: Micros
    version: int

    @property
    def files(self) -> ListKey:
        """The list of the files."""
        return ListKey(self.table_id, self.requested_time, self.version, ListName.PLAN_FILES)


class SchemaOfTable(msgspec.Struct, frozen=True):
    """A version of the schema of a table."""

    table_id: UUID
    schema: Schema
