"""A session of Spark as if it had no Java part of Chronolake, for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession


@contextlib.contextmanager
def python_only(spark: SparkSession) -> Iterator[None]:
    """A block in which this thread finds no data source of the jar, so the one of Python."""
    thread = spark._jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(spark._jvm.java.lang.ClassLoader.getSystemClassLoader())
    try:
        yield
    finally:
        thread.setContextClassLoader(loader)
