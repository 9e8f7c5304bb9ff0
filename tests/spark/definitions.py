"""Definitions of tables that no server has, for tests of executor code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

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
