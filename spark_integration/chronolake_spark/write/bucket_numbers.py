"""The number of buckets by which a write places its rows: that of the table when its instant began.

A resize may change the number at any time, also after the driver has read the table's definition.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from chronolake_model.instants import Instant
from chronolake_model.tables import Table
from chronolake_spark.common import columns
from chronolake_spark.write import control_columns


def present(definition: Table, instant: Instant) -> Table:
    """The definition with the number of buckets that the table had when the instant began."""
    if instant.buckets is None:
        return definition
    return definition.with_buckets(instant.buckets)


def placed(rows: DataFrame, table: Table) -> DataFrame:
    """Tagged rows, in the buckets of the table.

    The rows may have been tagged by an earlier definition. Spark computes the bucket of a row only once.
    """
    return rows.withColumn(columns.BUCKET, control_columns.bucket(table))
