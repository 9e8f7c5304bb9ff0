"""Chronolake for Spark: tables as frames, written through PySpark and published by the timeline server.

    import chronolake_spark

    spark = chronolake_spark.session()
    orders = chronolake_spark.table(spark, "shop.orders")
    instant = orders.upsert(changes)
    orders.read(as_of=instant.completion_time).show()

or, with Spark's own methods, once this package is imported::

    changes.write.format("chronolake").option("table", "shop.orders").mode("append").save()
    spark.read.format("chronolake").load("shop.orders").show()

Importing this package imports no Spark: executors run parts of it that know only Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from chronolake_spark import pyspark_methods

if TYPE_CHECKING:
    from chronolake_spark.batch_writer import BatchWriter, writer
    from chronolake_spark.creating import create_table
    from chronolake_spark.sessions import session
    from chronolake_spark.sql_views import views
    from chronolake_spark.stream_files import StreamFiles
    from chronolake_spark.tables import SparkTable, table
    from chronolake_spark.write_counts import RowCounts, row_counts

__all__ = [
    "BatchWriter",
    "RowCounts",
    "SparkTable",
    "StreamFiles",
    "create_table",
    "row_counts",
    "session",
    "table",
    "views",
    "writer",
]


_MODULE_OF = {
    "BatchWriter": "batch_writer",
    "RowCounts": "write_counts",
    "SparkTable": "tables",
    "StreamFiles": "stream_files",
    "create_table": "creating",
    "row_counts": "write_counts",
    "session": "sessions",
    "table": "tables",
    "views": "sql_views",
    "writer": "batch_writer",
}

pyspark_methods.install()


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
