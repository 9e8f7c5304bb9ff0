"""Tables made from the schema of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql.types import StructType

import chronolake
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import schema


def create_table(  # noqa: PLR0913  # one keyword per part of a table's definition
    client: chronolake.Client,
    name: str,
    struct: StructType,
    *,
    base_path: str,
    record_key_fields: Sequence[str],
    partition_fields: Sequence[str] = (),
    ordering_field: str | None = None,
    buckets: int = 4,
    index: IndexType | Literal["bucket", "simple", "bloom", "record"] = IndexType.BUCKET,
    type: TableType = TableType.COPY_ON_WRITE,
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
    reuse_base_path: bool = False,
) -> chronolake.Table:
    """Make a table for frames of this schema (``df.schema``); ``base_path`` as for ``Client.create_table``.

    ``buckets`` is for the bucket index, which is the default ``index``.

    Raises ``SchemaMismatch`` for columns that data files cannot hold, ``TableExists``, ``BasePathTaken``,
    ``NamespaceNotFound``, ``InvalidTable``.
    """
    return client.create_table(
        name,
        base_path=base_path,
        schema=schema.fields_of(struct),
        record_key_fields=record_key_fields,
        type=type,
        partition_fields=partition_fields,
        ordering_field=ordering_field,
        index=BucketIndex(IndexType(index), buckets),
        properties=properties,
        if_not_exists=if_not_exists,
        reuse_base_path=reuse_base_path,
    )
