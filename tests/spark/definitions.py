"""Definitions and slices of tables that no server has, for tests of executor code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from chronolake.slices.stored_slices import SliceFile, StoredSlice
from chronolake.writing.stored_groups import GroupNumber
from chronolake_model.file_names import FileKind, bucket_of, parse_file_name, relative_path
from chronolake_model.files import WriteStat
from chronolake_model.tables import BucketIndex, SchemaField, Table
from chronolake_model.times import Tick
from chronolake_model.vocabulary import TableType


def definition(
    types: Mapping[str, str],
    key: Sequence[str] = ("id",),
    partition: Sequence[str] = (),
    base_path: str = "/t",
) -> Table:
    """A copy-on-write table with these columns, by name and type."""
    return Table(
        name="shop.orders",
        table_id="table",
        base_path=base_path,
        type=TableType.COPY_ON_WRITE,
        schema=[SchemaField(name, type_, field_id=id_) for id_, (name, type_) in enumerate(types.items())],
        record_key_fields=list(key),
        partition_fields=list(partition),
        ordering_field=None,
        index=BucketIndex(),
        tick=Tick.MILLISECOND,
        properties={},
        created_at=datetime.now(UTC),
        schema_version=1,
        metastore_id="metastore",
    )


def slices_after(
    slices: Mapping[GroupNumber, StoredSlice], stats: Iterable[WriteStat], schema_version: int = 1
) -> dict[GroupNumber, StoredSlice]:
    """The slices by file group, after an instant has completed with these write stats."""
    after = dict(slices)
    for stat in stats:
        group = GroupNumber(stat.partition_path, bucket_of(stat.file_id))
        if parse_file_name(stat.file_name).kind is FileKind.LOG:
            before = after[group]
            after[group] = msgspec.structs.replace(
                before, logs=[*before.logs, stored_file(stat, schema_version)]
            )
        else:
            after[group] = StoredSlice(stat.partition_path, stat.file_id, stored_file(stat, schema_version))
    return after


def stored_file(stat: WriteStat, schema_version: int) -> SliceFile:
    """The file of a write stat."""
    path = relative_path(stat.partition_path, stat.file_name)
    has_field_ids = stat.has_field_ids is not UNSET and stat.has_field_ids
    return SliceFile(path, stat.size_bytes, schema_version, has_field_ids)
