"""Chronolake for Spark: tables as frames, written through PySpark and published by the timeline server.

    import chronolake_spark

    spark = chronolake_spark.session()
    orders = chronolake_spark.table(spark, "shop.orders")
    instant = orders.upsert(changes)
    orders.read(as_of=instant.completion_time).show()

or, with Spark's own methods, in another session after ``chronolake_spark.install()``::

    changes.write.format("chronolake").option("table", "shop.orders").mode("append").save()
    spark.read.format("chronolake").load("shop.orders").show()

Importing this package imports no Spark: executors run parts of it that know only Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronolake_spark.creating import create_table
    from chronolake_spark.sql.pyspark_methods import install, session
    from chronolake_spark.sql.views import views
    from chronolake_spark.stream.batch_writer import BatchWriter, writer
    from chronolake_spark.stream.task_files import StreamFiles
    from chronolake_spark.tables import SparkTable, table
    from chronolake_spark.write.counts import RowCounts, row_counts

__all__ = [
    "BatchWriter",
    "RowCounts",
    "SparkTable",
    "StreamFiles",
    "create_table",
    "install",
    "row_counts",
    "session",
    "table",
    "views",
    "writer",
]


_MODULE_OF = {
    "BatchWriter": "stream.batch_writer",
    "RowCounts": "write.counts",
    "SparkTable": "tables",
    "StreamFiles": "stream.task_files",
    "create_table": "creating",
    "install": "sql.pyspark_methods",
    "row_counts": "write.counts",
    "session": "sql.pyspark_methods",
    "table": "tables",
    "views": "sql.views",
    "writer": "stream.batch_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
