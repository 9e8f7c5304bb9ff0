"""The methods of PySpark that ``install`` replaces, for tables of Chronolake only.

Spark cannot shuffle rows for a data source in Python, and does not tell it which columns a query needs. So
``load`` and ``save`` go to ``format_frames``, ``start`` of a stream to ``stream.starts``, and INSERT to
``commands``. ``sql`` and ``table`` first refresh the views of ``views``. All other calls go to PySpark
unchanged. The SQL catalog (docs/decisions/0105-sql-catalog.md) needs none of this.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery

from chronolake_spark import errors
from chronolake_spark.common.format_options import FORMAT
from chronolake_spark.driver import sessions, spark_internals
from chronolake_spark.sql import advice, commands, format_frames, views
from chronolake_spark.stream import read_options, starts


def session(
    app_name: str = sessions.NAME,
    *,
    master: str = sessions.MASTER,
    memory: str = sessions.MEMORY,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, or the one that runs already, after ``install``.

    ``memory`` is the driver's, in Java's notation; ``settings`` go over those that Chronolake needs.
    Raises ``JavaNotFound``.
    """
    install()
    return sessions.local(app_name, master, memory, settings or {})


def install() -> None:
    """Give PySpark's own methods the tables of Chronolake: ``format("chronolake")``, SQL and streams.

    It replaces methods of PySpark's classes in this process, and may be repeated. ``session`` calls it.
    """
    for owner, name, replacement in _REPLACED:
        original = getattr(owner, name)
        if not spark_internals.is_replaced(original):
            setattr(owner, name, _replaced(original, replacement))


def _replaced(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, self, *args, **kwargs)

    return spark_internals.marked_as_replaced(call)


def _load(
    original: Any,
    reader: Any,
    /,  # A stream has an option reader.
    path: Any = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    if not _is_ours(reader, format):
        frame: DataFrame = original(reader, path, format, schema, **options)
        return frame
    if format is not None:
        reader.format(format)
    if schema is not None:
        reader.schema(schema)
    reader.options(**options)
    if path is not None and not isinstance(path, str):
        raise errors.InvalidOption('a read is of one table: load("namespace.table")')
    given = spark_internals.options(reader, path)
    if isinstance(reader, DataStreamReader):
        # Spark asks the source only for the columns here; the query would fail when it has started. And the
        # source cannot tell a stream from a batch when it is asked.
        read_options.parse({"view": "changes", **given})
        streamed: DataFrame = original(reader.option("view", "changes"), path)
        return streamed
    return format_frames.load(spark_internals.session_of(reader), given, spark_internals.columns(reader))


def _save(  # PySpark's own parameters
    original: Any,
    writer: Any,
    /,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,
    **options: Any,
) -> None:
    if not _is_ours(writer, format):
        original(writer, path, format, mode, partitionBy, **options)
        return
    writer.mode(mode).options(**options)
    if partitionBy is not None or spark_internals.is_partitioned(writer):
        raise errors.InvalidOption(
            "leave partitionBy out: a table has the partition fields that it was made with "
            "(partition_fields of chronolake_spark.create_table)"
        )
    given = spark_internals.options(writer, path)
    format_frames.save(spark_internals.frame_of(writer), given, spark_internals.save_mode(writer))


def _start(  # PySpark's own parameters
    original: Any,
    writer: Any,
    /,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> StreamingQuery:
    if not _is_ours(writer, format):
        return original(writer, path, format, outputMode, partitionBy, queryName, **options)
    writer.options(**options)
    if outputMode is not None:
        writer.outputMode(outputMode)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    starts.prepare(writer, path)
    return original(writer, queryName=queryName)


def _to_table(
    original: Any, writer: Any, /, tableName: str, format: str | None = None, *args: Any, **kwargs: Any
) -> StreamingQuery:
    if _is_ours(writer, format):
        raise errors.InvalidOption(
            "toTable would make an entry in Spark's catalog that keeps no options: write the stream with "
            '.option("table", "namespace.table") and .start()'
        )
    return original(writer, tableName, format, *args, **kwargs)


def _insert_into(original: Any, writer: Any, tableName: str, overwrite: bool | None = None) -> None:
    if not commands.insert_frame(writer, tableName, overwrite):
        original(writer, tableName, overwrite)


def _read_table(original: Any, reader: Any, tableName: str) -> DataFrame:
    session = spark_internals.session_of(reader)
    with _current_views(session, tableName):
        frame: DataFrame = original(reader, tableName)
    return frame


def _table(original: Any, session: SparkSession, tableName: str) -> DataFrame:
    with _current_views(session, tableName):
        frame: DataFrame = original(session, tableName)
    return frame


def _sql(original: Any, session: SparkSession, /, sqlQuery: Any, args: Any = None, **kwargs: Any) -> DataFrame:
    if not isinstance(sqlQuery, str):
        return original(session, sqlQuery, args, **kwargs)
    with (
        spark_internals.formatted(session, sqlQuery, kwargs) as query,
        _current_views(session, query, query),
    ):
        done = commands.run(session, query, args)
        return original(session, query, args) if done is None else done


@contextlib.contextmanager
def _current_views(session: SparkSession, names: str, query: str = "") -> Iterator[None]:
    """Refresh the views that ``names`` may have, and if Spark refuses the query, say what to call instead."""
    views.refresh(session, names)
    try:
        yield
    except Exception as exc:
        advice.give(session, query, exc)
        raise


def _is_ours(caller: Any, format: str | None) -> bool:
    return (spark_internals.source(caller) if format is None else format).lower() == FORMAT


_REPLACED: Final = (
    (DataFrameReader, "load", _load),
    (DataFrameReader, "table", _read_table),
    (DataFrameWriter, "save", _save),
    (DataFrameWriter, "insertInto", _insert_into),
    (DataStreamReader, "load", _load),
    (DataStreamWriter, "start", _start),
    (DataStreamWriter, "toTable", _to_table),
    (SparkSession, "sql", _sql),
    (SparkSession, "table", _table),
)
