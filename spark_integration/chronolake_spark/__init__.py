"""Chronolake for Spark: tables as frames, written through PySpark and published by the timeline server.

    import chronolake_spark

    spark = chronolake_spark.session()
    orders = chronolake_spark.table(spark, "shop.orders")
    instant = orders.upsert(changes)
    orders.read(as_of=instant.completion_time).show()

or, with SQL and Spark's own methods::

    spark.sql("SELECT * FROM lake.shop.orders").show()
    changes.write.format("chronolake").option("table", "shop.orders").mode("append").save()
    spark.read.format("chronolake").load("shop.orders").show()

Importing this package imports no Spark: executors run parts of it that know only Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronolake.writing.counts import RowCounts, row_counts
    from chronolake_spark.catalogs.registering import catalog, session
    from chronolake_spark.creating import create_table
    from chronolake_spark.stream.batch_writer import BatchWriter, writer
    from chronolake_spark.tables import SparkTable, table

__all__ = [
    "BatchWriter",
    "RowCounts",
    "SparkTable",
    "catalog",
    "create_table",
    "row_counts",
    "session",
    "table",
    "writer",
]


_MODULE_OF = {
    "BatchWriter": "chronolake_spark.stream.batch_writer",
    "RowCounts": "chronolake.writing.counts",
    "SparkTable": "chronolake_spark.tables",
    "catalog": "chronolake_spark.catalogs.registering",
    "create_table": "chronolake_spark.creating",
    "row_counts": "chronolake.writing.counts",
    "session": "chronolake_spark.catalogs.registering",
    "table": "chronolake_spark.tables",
    "writer": "chronolake_spark.stream.batch_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
