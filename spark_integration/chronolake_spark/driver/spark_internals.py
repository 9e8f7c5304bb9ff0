"""All private parts of PySpark and of Spark's own classes that this package relies on.

No other module names one, except ``pyspark_chronolake`` those of PySpark's daemon. ``pyproject.toml`` bounds
the versions of PySpark. ``tests/spark/test_spark_internals.py`` has a test for each part, which fails when the
part disappears. The SQL catalog needs few of them (docs/decisions/0105-sql-catalog.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.sql import Column, DataFrame, SparkSession

QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers to which PySpark writes errors of queries before it raises them."""
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_CLASSIC: Final = "org.apache.spark.sql.classic"


def gateway() -> object:
    """The connection to the JVM, in which all objects of Java live."""
    return SparkContext._gateway


def java_object(java: JavaGateway, name: str) -> JavaObject:
    """The object that the JVM at the other end of a connection calls so."""
    return JavaObject(name, java._gateway_client)


def attached(java: JavaGateway, session: JavaObject) -> SparkSession:
    """A session of an application that another process runs, for the whole life of this process."""
    context = SparkContext._active_spark_context
    if context is None:
        java_context = java.jvm.JavaSparkContext(session.sparkContext())
        conf = SparkConf(_jvm=java.jvm, _jconf=session.sparkContext().getConf())
        context = SparkContext(gateway=java, jsc=java_context, conf=conf)
        # Java closes the connection when the application ends, for which PySpark prints a trace.
        context._accumulatorServer.handle_error = _ignored
        # PySpark makes functions in the first session that it knows, and makes it the default one: so it is the
        # default one, or a second name of this one, because Java lets go of the first.
        default = getattr(java.jvm, f"{_CLASSIC}.SparkSession").getDefaultSession()
        SparkSession(context, default.get() if default.isDefined() else session.sqlContext().sparkSession())
    return SparkSession(context, session)


def let_go(session: SparkSession) -> None:
    """Let PySpark forget an attached session, which makes functions since it has last made a frame."""
    active = SparkSession._activeSession
    if active is not None and active._jsparkSession._target_id == session._jsparkSession._target_id:
        SparkSession._activeSession = SparkSession._instantiatedSession


def _ignored(*_: object) -> None:
    pass


def set_local_properties(spark: SparkSession, properties: JavaObject) -> None:
    """Give the thread of Java that belongs to this one these local properties."""
    spark.sparkContext._jsc.sc().setLocalProperties(properties)


def set_if_missing(spark: SparkSession, name: str, text: str) -> None:
    """Give the application a setting: only in its own ones Spark finds what its event log hides."""
    spark.sparkContext._jsc.sc().conf().setIfMissing(name, text)


def session_id(spark: SparkSession) -> str:
    """The id of the session: another Python object may be the same session."""
    return str(spark._jsparkSession.sessionUUID())


def activate(spark: SparkSession) -> None:
    """Make it the session of this thread: in it Spark looks for data sources, and new threads have none."""
    _class(spark, f"{_CLASSIC}.SparkSession").setActiveSession(spark._jsparkSession)


@contextlib.contextmanager
def activated(spark: SparkSession) -> Iterator[None]:
    """``activate`` for a while: Spark looks for the names of data sources in the active session too."""
    sessions = _class(spark, f"{_CLASSIC}.SparkSession")
    before = sessions.getActiveSession()
    activate(spark)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def trackers(spark: SparkSession) -> tuple[JavaObject, JavaObject]:
    """Spark's states of jobs, by their tags, and of the attempts of stages."""
    context = spark.sparkContext._jsc.sc()
    return context.statusTracker(), context.statusStore()


@contextlib.contextmanager
def unlogged(spark: SparkSession, name: str) -> Iterator[None]:
    """Let a logger of the JVM log nothing for a while, and only errors afterwards."""
    levels = spark._jvm.org.apache.logging.log4j.Level
    configurator = spark._jvm.org.apache.logging.log4j.core.config.Configurator
    configurator.setLevel(name, levels.OFF)
    try:
        yield
    finally:
        configurator.setLevel(name, levels.ERROR)


def planned_ms(spark: SparkSession, query_id: str, batch_id: int) -> int:
    """The time when Spark planned a batch of a streaming query, in milliseconds since 1970."""
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query = queries.get(spark._jvm.java.util.UUID.fromString(query_id))
    return int(query.offsetLog().offsetSeqMetadataForBatchId(batch_id).get().batchTimestampMs())


def expression(spark: SparkSession, text: str) -> Column:
    """A column of SQL. ``functions.expr`` looks up the caller, which takes half a millisecond."""
    return Column(spark._jvm.org.apache.spark.sql.functions.expr(text))


def analyzed(frame: DataFrame) -> JavaObject:
    """The plan of the frame with names and types resolved."""
    return frame._jdf.queryExecution().analyzed()


def optimized(frame: DataFrame) -> JavaObject:
    """The plan of the frame after Spark's optimizer."""
    return frame._jdf.queryExecution().optimizedPlan()


def with_cached_data(frame: DataFrame) -> JavaObject:
    """The analyzed plan, with what is cached in it. Unlike the optimized one, Spark does not make it twice."""
    return frame._jdf.queryExecution().withCachedData()


def has_pattern(frame: DataFrame, plan: JavaObject, pattern: str) -> bool:
    """Whether the plan of the frame has such a node or expression: a name of Spark's ``TreePattern``."""
    patterns = _class(frame.sparkSession, f"{_CATALYST}.trees.TreePattern")
    return bool(plan.containsPattern(getattr(patterns, pattern)()))


def leaves(plan: JavaObject) -> list[JavaObject]:
    """The leaves of a plan."""
    return items(plan.collectLeaves())


def size_bytes(plan: JavaObject) -> int:
    """The size of the rows of a plan, as Spark estimates it."""
    return int(str(plan.stats().sizeInBytes()))


def items(sequence: JavaObject) -> list[Any]:
    """The items of a sequence of Scala."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _class(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)
