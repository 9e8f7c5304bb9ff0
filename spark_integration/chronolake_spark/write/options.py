"""The options of a write, by which the driver configures the writer of the data source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from chronolake import ServerAccess
from chronolake.slices.merge import Existing
from chronolake.slices.stored_slices import NumberedGroup, StoredSlice
from chronolake.writing.choices import Replaces
from chronolake_model import decoding
from chronolake_model.files import FileGroupName
from chronolake_model.markers import MarkersType
from chronolake_model.streams import StreamInstant
from chronolake_model.tables import SchemaField, Table

WRITE_OPTION: Final = "write"


STREAM_TASK: Final = "spark"
"""The task of a stream: the committer of a write reports for all tasks of Spark."""


class Fetched(msgspec.Struct, frozen=True):
    """The slices of a table, as the driver has fetched them.

    ``new_groups`` are the file groups to open where they are not the first of their bucket. ``fields`` has the
    columns of each version of the schema with which files were written.
    """

    slices: list[StoredSlice]
    new_groups: list[FileGroupName]
    fields: dict[int, list[SchemaField]]


class BatchOptions(msgspec.Struct, frozen=True):
    """A batch of a stream: the instant that the stream gave for it, and the epoch of the stream."""

    instant: StreamInstant
    epoch: int


class WriteOptions(msgspec.Struct, frozen=True):
    """One write: its instant, and the table, which it reads as of the begin of the instant.

    ``writer`` is the writer of the instant, ``markers`` overrides where the table keeps markers.
    ``refuses_repeated_keys`` if two rows of one key are an error, ``is_based_on_reads`` if the rows depend on
    what the table has. ``replaces`` are the slices that the write replaces. Without a bucket index,
    ``numbered`` are the file groups that the rows name, and ``keys_looked_up`` if the keys were looked up in
    the table. ``fetched`` has the driver's facts about the table's files, None where tasks ask the server for
    their part of them. ``file_states`` are the states of the files that the rows come from, by path. With
    ``resizes_to`` the rows are all stored records of the table, which gets this number of buckets.
    ``is_in_order`` if the rows of a task come file group by file group; if not, the task brings them together.
    With a ``batch`` the files are reported to its stream, which completes the instant.
    ``records_per_group`` if the rows name no file groups: each task opens new ones, of at most this number of
    records.
    """

    access: ServerAccess
    table: Table
    requested_time: str
    writer: str
    markers: MarkersType | None
    existing: Existing
    refuses_repeated_keys: bool
    replaces: Replaces | None
    is_based_on_reads: bool
    kept_columns: list[str]
    numbered: list[NumberedGroup]
    keys_looked_up: bool
    fetched: Fetched | None
    extra_metadata: dict[str, str]
    file_states: dict[str, str]
    is_in_order: bool
    records_per_group: int | None = None
    resizes_to: int | None = None
    batch: BatchOptions | None = None

    def with_groups(
        self, numbered: Sequence[NumberedGroup], fields: Mapping[int, list[SchemaField]]
    ) -> WriteOptions:
        """The same write, of rows that name these file groups. ``fields`` are those of ``Fetched``."""
        fetched = Fetched(slices=[], new_groups=[], fields=dict(fields))
        return msgspec.structs.replace(self, numbered=list(numbered), fetched=fetched)

    def to_json(self) -> str:
        """The text of the option."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> WriteOptions:
        """The options in a text of ``to_json``."""
        return decoding.decode(text, cls)
