"""Tables made from the schema of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import chronolake
from chronolake.writing import choices, movable_keys
from chronolake_model.merge_modes import MERGE_MODE_PROPERTY, MergeMode
from chronolake_model.names import split_table_name
from chronolake_model.tables import index_of
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_failures

Schema: TypeAlias = StructType | DataFrame | str
_NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"


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

    Raises ``SchemaMismatch`` for columns that data files cannot hold, and for an ordering field with which
    records cannot move between partitions, ``ValueError`` for an argument that is none of its choices,
    ``TableExists``, ``BasePathTaken``, ``NamespaceNotFound``, ``InvalidTable``.
    """
    split_table_name(name)
    fields = schema.fields_of(_struct(struct))
    type_, index_type = choices.of("type", type, TableType), choices.of("index", index, IndexType)
    mode = (properties or {}).get(MERGE_MODE_PROPERTY)  # The server refuses one that it does not know.
    ordering = [] if ordering_field is None or mode == MergeMode.COMMIT_TIME else [ordering_field]
    movable_keys.check(name, fields, type_, index_type, partition_fields, ordering)
    return client.create_table(
        name,
        base_path=base_path,
        schema=fields,
        record_key_fields=record_key_fields,
        type=type_,
        partition_fields=partition_fields,
        ordering_field=ordering_field,
        index=index_of(index_type, buckets),
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
        if exc.getCondition() == _NO_SESSION:
            raise errors.SchemaMismatch(
                f"the schema {given!r} is text, which Spark parses: start a session before, as with "
                "chronolake_spark.session(), or give a StructType"
            ) from exc
        raise errors.SchemaMismatch(
            f"{given!r} is no schema: give df.schema, a frame, or DDL like 'id long, price double'"
        ) from exc
