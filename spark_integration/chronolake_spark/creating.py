"""Tables made from the schema of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import chronolake
from chronolake_model.names import split_table_name
from chronolake_model.tables import index_of
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import choices, errors, schema, spark_failures

Schema: TypeAlias = StructType | DataFrame | str


def create_table(  # noqa: PLR0913  # one keyword per part of a table's definition
    client: chronolake.Client,
    name: str,
    struct: Schema,
    *,
    base_path: str,
    record_key_fields: Sequence[str],
    partition_fields: Sequence[str] = (),
    ordering_field: str | None = None,
    buckets: int | None = None,
    index: IndexType | Literal["bucket", "simple", "bloom", "record"] = IndexType.BUCKET,
    type: TableType | Literal["copy_on_write", "merge_on_read"] = TableType.COPY_ON_WRITE,
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
    reuse_base_path: bool = False,
) -> chronolake.Table:
    """Make a table for frames of this schema; ``base_path`` as for ``Client.create_table``.

    The schema is ``df.schema``, the frame itself, or Spark's DDL (``"id long, price double"``), which needs a
    session. ``buckets`` is for the bucket index, which is the default ``index``: 4 unless given.

    Raises ``SchemaMismatch`` for columns that data files cannot hold, ``ValueError`` for an argument that is
    none of its choices, ``TableExists``, ``BasePathTaken``, ``NamespaceNotFound``, ``InvalidTable``.
    """
    split_table_name(name)
    return client.create_table(
        name,
        base_path=base_path,
        schema=schema.fields_of(_struct(struct)),
        record_key_fields=record_key_fields,
        type=choices.of("type", type, TableType),
        partition_fields=partition_fields,
        ordering_field=ordering_field,
        index=index_of(choices.of("index", index, IndexType), buckets),
        properties=properties,
        if_not_exists=if_not_exists,
        reuse_base_path=reuse_base_path,
    )


def _struct(given: Schema) -> StructType:
    if isinstance(given, StructType):
        return given
    if isinstance(given, DataFrame):
        return given.schema
    try:
        with spark_failures.unlogged():
            return StructType.fromDDL(given)
    except PySparkException as exc:
        raise errors.SchemaMismatch(
            f"{given!r} is no schema: give df.schema, a frame, or DDL like 'id long, price double'"
        ) from exc
