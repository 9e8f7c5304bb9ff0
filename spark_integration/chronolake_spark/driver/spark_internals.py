"""All private parts of PySpark and of Spark's own classes that this package relies on.

No other module names one, except ``pyspark_chronolake`` those of PySpark's daemon. ``pyproject.toml`` bounds
the versions of PySpark. ``tests/spark/test_spark_internals.py`` has a test for each part, which fails when the
part disappears. The SQL catalog needs few of them (docs/decisions/0105-sql-catalog.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers to which PySpark writes errors of queries before it raises them."""
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_CLASSIC: Final = "org.apache.spark.sql.classic"
_REPLACED: Final = "_chronolake_replaced"
_PRIVILEGES: Final = "__required_write_privileges__"
"""An option that Spark's parser adds to the target of a command that writes."""


def marked_as_replaced(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which takes the place of one of PySpark."""
    setattr(method, _REPLACED, True)
    return method


def is_replaced(method: Callable[..., Any]) -> bool:
    """Whether ``chronolake_spark.install`` has replaced this method of PySpark."""
    return hasattr(method, _REPLACED)


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
        # PySpark keeps the first session that it knows, and makes it the default one: so it is the default one.
        default = getattr(java.jvm, f"{_CLASSIC}.SparkSession").getDefaultSession()
        if default.isDefined():
            SparkSession(context, default.get())
    return SparkSession(context, session)


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


def source(caller: Any) -> str:
    """The format of a reader or a writer, of a batch or a stream."""
    return str(_setting(caller, "source"))


def options(caller: Any, path: str | None = None) -> dict[str, str]:
    """The options of a reader or a writer, with small letters."""
    entries = _setting(caller, "extraOptions").iterator()
    given = {}
    while entries.hasNext():
        entry = entries.next()
        given[str(entry._1()).lower()] = str(entry._2())
    return given if path is None else {**given, "path": path}


def columns(reader: Any) -> list[str] | None:
    """The names of the columns that ``schema`` has given to a reader of a batch."""
    given = reader._jreader.userSpecifiedSchema()
    return list(given.get().fieldNames()) if given.isDefined() else None


def save_mode(writer: Any) -> str:
    """The mode of a writer of a batch."""
    return str(writer._jwrite.curmode().toString())


def is_partitioned(writer: Any) -> bool:
    """Whether a writer was given ``partitionBy`` or ``clusterBy``."""
    return any(_setting(writer, f"{kind}Columns").isDefined() for kind in ("partitioning", "clustering"))


def output_mode(writer: Any) -> str:
    """The output mode of a writer of a stream, in small letters."""
    return str(_setting(writer, "outputMode").toString()).lower()


def trigger(writer: Any) -> str:
    """The name of the class of a stream's trigger."""
    return str(_setting(writer, "trigger").getClass().getSimpleName())


def frame_of(writer: Any) -> DataFrame:
    """The rows of a writer."""
    frame: DataFrame = writer._df
    return frame


def session_of(caller: Any) -> SparkSession:
    """The session of a reader or a writer of a batch."""
    spark: SparkSession = caller._spark
    return spark


@contextlib.contextmanager
def formatted(spark: SparkSession, query: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The query with the keyword arguments of ``sql`` in the place of their ``{names}``."""
    if not values:
        yield query
        return
    formatter = SQLStringFormatter(spark)
    try:
        yield formatter.format(query, **values)
    finally:
        formatter.clear()


def parsed(spark: SparkSession, query: str) -> JavaObject:
    """The plan that Spark's parser makes of a statement."""
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(query)


def arguments(node: JavaObject) -> dict[str, Any]:
    """The arguments of a node of a plan, by their names."""
    return {
        str(node.productElementName(index)): node.productElement(index) for index in range(node.productArity())
    }


def with_child(spark: SparkSession, node: JavaObject, child: JavaObject) -> JavaObject:
    """A node of a plan with another only child."""
    return node.withNewChildren(_sequence(spark, [child]))


def rows_of(
    spark: SparkSession, query: JavaObject, args: Mapping[str, Any] | Sequence[Any] | None
) -> DataFrame:
    """The frame of a parsed query; ``args`` are those of ``sql``, by name or by position."""
    if args:
        query = _with_arguments(spark, query, args)
    return DataFrame(_class(spark, f"{_CLASSIC}.Dataset").ofRows(spark._jsparkSession, query), spark)


def source_options(spark: SparkSession, view: str, source_name: str) -> dict[str, str] | None:
    """The options of a view that is no more than a table of this data source; None for another one.

    Raises the error of Spark if there is no such view.
    """
    plan = spark._jsparkSession.table(view).queryExecution().analyzed()
    while str(plan.nodeName()) in ("SubqueryAlias", "View"):
        plan = plan.child()
    if str(plan.nodeName()) != "DataSourceV2Relation" or str(plan.table().name()) != source_name:
        return None
    return java_options(plan)


def java_options(relation: JavaObject) -> dict[str, str]:
    """The options of a relation in a plan, but those of Spark."""
    given = dict(relation.options().asCaseSensitiveMap())
    return {str(name): str(value) for name, value in given.items() if name != _PRIVILEGES}


def _class(spark: SparkSession, name: str) -> Any:
    return getattr(spark._jvm, name)


def _sequence(spark: SparkSession, values: Iterable[Any]) -> JavaObject:
    return spark._jvm.PythonUtils.toSeq(list(values))


def _with_arguments(
    spark: SparkSession, query: JavaObject, args: Mapping[str, Any] | Sequence[Any]
) -> JavaObject:
    values = args.values() if isinstance(args, Mapping) else args
    literals = _sequence(spark, (spark._jsparkSession.expression(sf.lit(value)._jc) for value in values))
    if isinstance(args, Mapping):
        names = _sequence(spark, args)
        return _class(spark, f"{_CATALYST}.analysis.NameParameterizedQuery")(query, names, literals)
    return _class(spark, f"{_CATALYST}.analysis.PosParameterizedQuery")(query, literals)


def _setting(caller: Any, name: str) -> Any:
    """A setting of a reader or a writer: in the JVM a method for a batch, and a private field for a stream."""
    java = getattr(caller, "_jreader", None) or caller._jwrite
    if not isinstance(caller, DataStreamReader | DataStreamWriter):
        return getattr(java, name)()
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
