"""Bodies of the REST API for namespaces and tables."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from chronolake_model import merge_modes
from chronolake_model.columns import (
    BUCKETS_MAX,
    COLUMNS_MAX,
    NAME_CHARACTERS_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTIES_MAX,
    SCHEMA_BYTES_MAX,
    TYPE_CHARACTERS_MAX,
    BucketIndex,
    Buckets,
    ColumnName,
    ColumnType,
    Field,
    FieldId,
    NestedField,
    SchemaField,
    refuse_larger,
)
from chronolake_model.names import NAME_PATTERN, TABLE_NAME_PATTERN, decoder_pattern
from chronolake_model.times import Tick
from chronolake_model.vocabulary import IndexType, TableType

__all__ = [
    "BUCKETS_MAX",
    "COLUMNS_MAX",
    "NAME_CHARACTERS_MAX",
    "PROPERTIES_BYTES_MAX",
    "PROPERTIES_MAX",
    "SCHEMA_BYTES_MAX",
    "TYPE_CHARACTERS_MAX",
    "BucketIndex",
    "Buckets",
    "ColumnName",
    "ColumnType",
    "Field",
    "FieldId",
    "NestedField",
    "SchemaField",
    "refuse_larger",
]
"""Words of the vocabulary that these bodies have."""

Name = Annotated[
    str,
    Meta(pattern=decoder_pattern(NAME_PATTERN), description="Letters, digits, `_` and `-`; 128 at most."),
]
TableName = Annotated[
    str,
    Meta(
        pattern=decoder_pattern(TABLE_NAME_PATTERN),
        description="`namespace.table`.",
        examples=["shop.orders"],
    ),
]
SCHEMA_VERSION_MAX = 2**31 - 1
PropertyName = Annotated[str, Meta(min_length=1, max_length=16_384)]
PropertyText = Annotated[str, Meta(max_length=16_384)]
Properties = Annotated[dict[PropertyName, PropertyText], Meta(max_length=PROPERTIES_MAX)]


class CreateNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create a namespace."""

    name: Name
    properties: Properties = {}

    def __post_init__(self) -> None:
        refuse_larger("properties", self.properties, PROPERTIES_BYTES_MAX)


class Namespace(msgspec.Struct, frozen=True):
    """A group of tables."""

    name: str
    properties: dict[str, str]
    created_at: datetime


class NamespacePage(msgspec.Struct, frozen=True):
    """Namespaces in the order of their names."""

    namespaces: list[Namespace]
    next_cursor: str | None


# What an answer holds beside what a request holds comes in two forms: a newer server may say more of a column
# than this release knows, and a request that does is misspelt.


class NewField(Field, frozen=True, forbid_unknown_fields=True):
    """A column of a new table."""

    @classmethod
    def of(cls, field: Field) -> NewField:
        """The same column."""
        return cls(field.name, field.type, field.nullable)


SchemaVersion = Annotated[int, Meta(ge=1, le=SCHEMA_VERSION_MAX, description="Dense from 1, per table.")]


def index_of(type: IndexType, buckets: int | None) -> BucketIndex:
    """The index of this type. Raises ``ValueError`` for a number of buckets of an index without buckets."""
    if buckets is None:
        return BucketIndex(type)
    if type is not IndexType.BUCKET:
        raise ValueError(
            f"a number of buckets is for the index bucket, and a table with the index {type} has none: leave "
            "it out, or choose the index bucket"
        )
    return BucketIndex(type, buckets)


class NewBucketIndex(BucketIndex, frozen=True, forbid_unknown_fields=True):
    """The index of a new table."""

    @classmethod
    def of(cls, index: BucketIndex) -> NewBucketIndex:
        """The same index."""
        return cls(index.type, index.buckets)


class FormerBuckets(msgspec.Struct, frozen=True):
    """An earlier number of buckets of a table.

    It holds as of completion times before ``until``, at which the instant ``changed_by`` (its requested time)
    has completed: a clustering that resized the table, or a restore.
    """

    buckets: int
    until: str
    changed_by: str


class CreateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Make a table."""

    name: TableName
    base_path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4_096,
            description="The URI, or absolute local path, of the table's folder, which overlaps with no other "
            "table's.",
        ),
    ]
    schema: Annotated[list[NewField], Meta(min_length=1, max_length=COLUMNS_MAX)]
    record_key_fields: Annotated[
        list[ColumnName],
        Meta(max_length=100, description="None only in a table that is adopted from Hudi."),
    ]
    type: TableType = TableType.COPY_ON_WRITE
    partition_fields: Annotated[list[ColumnName], Meta(max_length=100)] = []
    ordering_field: ColumnName | None = None
    index: NewBucketIndex = NewBucketIndex()
    tick: Tick = Tick.MILLISECOND
    properties: Properties = {}
    reuse_base_path: Annotated[
        bool,
        Meta(
            description=(
                "Take the folder over from dropped tables whose base path is the same or overlaps. From then "
                "on nothing of these tables is deleted there."
            )
        ),
    ] = False

    def __post_init__(self) -> None:
        refuse_larger("properties", self.properties, PROPERTIES_BYTES_MAX)
        refuse_larger("schema", self.schema, SCHEMA_BYTES_MAX)


class AlterTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rename a table, set properties and remove others: all of it, or nothing.

    ``name`` may be in another namespace. To remove a property that the table does not have changes nothing.
    """

    other_fields: ClassVar[str] = (
        "properties are changed by set and unset, columns at /v1/tables/{table}/schema, and the number of "
        "buckets by a clustering of all file groups; all else of a table is fixed when it is created: create "
        "another table, and write the records into it"
    )

    name: TableName | None = None
    set: Properties = {}
    unset: Annotated[list[PropertyName], Meta(max_length=PROPERTIES_MAX)] = []

    def __post_init__(self) -> None:
        refuse_larger("set", self.set, PROPERTIES_BYTES_MAX)
        refuse_larger("unset", self.unset, PROPERTIES_BYTES_MAX)


class Table(msgspec.Struct, frozen=True):
    """A table as the metastore knows it. ``table_id`` never comes back, not even for the same name.

    ``metastore_id`` is the identity of the metastore's database; it changes when the database is moved.
    ``schema`` is the present one, ``schema_version`` its version. ``cleaned_before`` is the first completion
    time that the table is served as of; null if it was never cleaned. ``took_over`` are the ids of the dropped
    tables whose base paths it took over; only the answer for a single table has it. ``former_buckets`` are the
    earlier numbers of buckets, oldest first; ``index`` has the present one.
    """

    name: str
    table_id: str
    metastore_id: str
    base_path: str
    type: TableType
    schema: list[SchemaField]
    record_key_fields: list[str]
    partition_fields: list[str]
    ordering_field: str | None
    index: BucketIndex
    tick: Tick
    properties: dict[str, str]
    created_at: datetime
    schema_version: int
    cleaned_before: str | None = None
    took_over: list[str] = []
    former_buckets: list[FormerBuckets] = []

    def buckets_as_of(self, completion_time: str | None) -> int:
        """The number of buckets as of a completion time in digits; None stands for now."""
        for former in self.former_buckets:
            if completion_time is not None and completion_time < former.until:
                return former.buckets
        return self.index.buckets

    def with_buckets(self, buckets: int) -> Table:
        """The table with another number of buckets."""
        return msgspec.structs.replace(self, index=BucketIndex(self.index.type, buckets))

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering fields. Of several, which only an adopted table has, the first that differs decides."""
        return merge_modes.ordering_fields(self.ordering_field, self.properties)

    @property
    def merge_fields(self) -> tuple[str, ...]:
        """The fields whose larger values win against stored records; none if the later write wins."""
        return merge_modes.merge_fields(self.ordering_field, self.properties)


class DroppedTable(msgspec.Struct, frozen=True):
    """A dropped table that published files; nobody else may delete them."""

    table_id: str
    name: str
    """Its last name, which another table may have now."""
    base_path: str
    """The normal form of its base path."""


class DroppedTablePage(msgspec.Struct, frozen=True):
    """Dropped tables in the order of their ids."""

    tables: list[DroppedTable]
    next_cursor: str | None


class TablePage(msgspec.Struct, frozen=True):
    """Tables in the order of their names."""

    tables: list[Table]
    next_cursor: str | None
