"""The columns that a write adds to its rows, as Spark expressions: record key, partition path and bucket.

PySpark looks up the caller of each operation on a column, for its error messages. This takes about half a
millisecond, so the expressions of a table are made once, and kept.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, functions as sf

from chronolake.slices import columns
from chronolake.writing import partition_lengths
from chronolake_model.partition_paths import Spelling
from chronolake_model.tables import Field, Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark.driver import spark_internals
from chronolake_spark.write import keys

_TABLES_MAX = 64


def of(table: Table) -> Sequence[Column]:
    """The three columns, by their names."""
    key_fields, path_fields = _fields(table, table.record_key_fields), _fields(table, table.partition_fields)
    bytes_max = partition_lengths.path_bytes_max(table)
    java, spelling = spark_internals.gateway(), Spelling.of(table.properties)
    return (
        *_key_and_path(java, key_fields, path_fields, spelling, bytes_max),
        bucket(table),
    )


def bucket(table: Table) -> Column:
    """The bucket of a record; null with another index, which finds its file group later (``locating``)."""
    buckets = table.index.buckets if table.index.type is IndexType.BUCKET else None
    return _bucket(spark_internals.gateway(), _fields(table, table.record_key_fields), buckets)


@functools.lru_cache(maxsize=_TABLES_MAX)
def _key_and_path(
    _java: object,
    key_fields: tuple[Field, ...],
    path_fields: tuple[Field, ...],
    spelling: Spelling,
    bytes_max: int,
) -> tuple[Column, Column]:
    return (
        keys.record_key(key_fields).alias(columns.RECORD_KEY),
        keys.written_partition_path(path_fields, spelling, bytes_max).alias(columns.PARTITION_PATH),
    )


@functools.lru_cache(maxsize=_TABLES_MAX)
def _bucket(_java: object, fields: tuple[Field, ...], buckets: int | None) -> Column:
    number = sf.lit(None).cast("int") if buckets is None else keys.bucket(fields, buckets)
    return number.alias(columns.BUCKET)


def _fields(table: Table, names: Sequence[str]) -> tuple[Field, ...]:
    by_name = {field.name: Field(field.name, field.type, field.nullable) for field in table.schema}
    return tuple(by_name[name] for name in names)


def in_buckets(rows: DataFrame, table: Table) -> DataFrame:
    """Tagged rows, in the buckets of the table.

    The rows may have been tagged by an earlier definition. Spark computes the bucket of a row only once.
    """
    return rows.withColumn(columns.BUCKET, bucket(table))
