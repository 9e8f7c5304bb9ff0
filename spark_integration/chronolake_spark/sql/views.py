"""Tables as temporary views for SQL, which show the newest state at each call of ``SparkSession.sql``.

A view is the frame of ``SparkTable.read``: Spark's own Parquet reader, which reads the columns and row groups
that a query needs. Before each query the driver asks the server, in one request, which tables have changed
since, and makes their views again. Spark itself would show the state of the first query for good.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake.errors import ConnectionFailed, TableNotFound
from chronolake_spark import tables
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json
from chronolake_spark.driver import schema
from chronolake_spark.index import record_locating

_EVENTS_MAX = 1_000
_RETRY_SECONDS = 30.0
_LOG = logging.getLogger("chronolake.spark")
_LOCK = threading.RLock()


@dataclass(slots=True)
class _Namespace:
    """The views of a namespace in a session. ``cursor`` is of the last event of the log that they show."""

    name: str
    url: str
    storage_options: Mapping[str, str]
    cursor: str
    tables: set[str] = field(default_factory=set)

    def connect(self, retry_seconds: float = _RETRY_SECONDS) -> chronolake.Client:
        options = self.storage_options or None
        return chronolake.connect(self.url, retry_seconds=retry_seconds, storage_options=options)


_NAMESPACES: dict[tuple[str, str], _Namespace] = {}
"""By the id of the session and the name of the namespace."""


def views(
    spark: SparkSession,
    namespace: str,
    url: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[str]:
    """Make a temporary view of each table of a namespace, under the table's own name; returns the names.

    ``spark.sql`` and ``spark.table`` then show the newest state of these tables, and of tables that are made
    later in the namespace. A frame keeps the state that it was made of. INSERT INTO a view upserts. A view of
    the same name is replaced. ``url`` and ``storage_options`` are those of ``chronolake.connect``. Raises
    ``NamespaceNotFound``. While the server is unavailable, queries that name a view raise ``ConnectionFailed``.
    """
    with _LOCK, chronolake.connect(url, storage_options=storage_options) as client:
        client.namespace(namespace)
        made = _Namespace(namespace, client.url, dict(storage_options or {}), client.end_of_log())
        for table in client.tables(namespace):
            _make(spark, made, client, table.name)
        _NAMESPACES[_session_id(spark), namespace] = made
    return sorted(map(_short, made.tables))


def refresh(spark: SparkSession, query: str) -> None:
    """Make the views of changed tables again, for this query.

    Raises ``ConnectionFailed`` if the query names a view. Other queries run while a server is unavailable.
    """
    with _LOCK:
        for namespace in _of_session(spark):
            is_named = any(_short(name).lower() in query.lower() for name in namespace.tables)
            try:
                with namespace.connect(_RETRY_SECONDS if is_named else 0) as client:
                    _refresh(spark, namespace, client)
            except ConnectionFailed as failure:
                if is_named:
                    raise
                _LOG.warning("the views of %s may show an old state: %s", namespace.name, failure)


def is_view(spark: SparkSession, name: str) -> bool:
    """Whether ``views`` made a view of this name."""
    with _LOCK:
        return any(
            _short(table).lower() == name.lower()
            for namespace in _of_session(spark)
            for table in namespace.tables
        )


def is_table(spark: SparkSession, name: str) -> bool:
    """Whether ``views`` made a view of this table, called ``namespace.table``."""
    with _LOCK:
        tables = [table for namespace in _of_session(spark) for table in namespace.tables]
        return name.lower() in map(str.lower, tables)


@contextlib.contextmanager
def as_target(spark: SparkSession, view: str) -> Iterator[None]:
    """Let Spark insert into a view: for as long it is of the data source, to which Spark can write."""
    with _LOCK:
        for namespace in _of_session(spark):
            name = next((name for name in namespace.tables if _short(name).lower() == view.lower()), None)
            if name is not None:
                _of_data_source(spark, namespace, name).createOrReplaceTempView(schema.quoted(_short(name)))
                try:
                    yield
                    with namespace.connect() as client:
                        # The data source takes in no more than one process can.
                        record_locating.follow(spark, client.table(name))
                finally:
                    with namespace.connect() as client:
                        _make(spark, namespace, client, name)
                return
    yield


def _refresh(spark: SparkSession, namespace: _Namespace, client: chronolake.Client) -> None:
    events = list(client.events(namespace.cursor, limit=_EVENTS_MAX))
    if not events:
        return
    namespace.cursor = events[-1].cursor if len(events) < _EVENTS_MAX else client.end_of_log()
    names = {event.table for event in events if event.table is not None}
    changed = {name for name in names if name.startswith(f"{namespace.name}.")}
    if len(events) == _EVENTS_MAX or not changed <= namespace.tables:
        # Too many events, or a table is new or has another name: look at all tables.
        changed |= namespace.tables | {table.name for table in client.tables(namespace.name)}
    for name in sorted(changed):
        _make(spark, namespace, client, name)


def _make(spark: SparkSession, namespace: _Namespace, client: chronolake.Client, name: str) -> None:
    try:
        table = tables.table(spark, name, client=client)
    except TableNotFound:
        namespace.tables.discard(name)
        spark.catalog.dropTempView(_short(name))
        return
    # Quoted, because a table's name may have a hyphen, or begin with a digit.
    table.read().createOrReplaceTempView(schema.quoted(_short(name)))
    namespace.tables.add(name)


def _of_data_source(spark: SparkSession, namespace: _Namespace, name: str) -> DataFrame:
    reader = spark.read.format(format_options.FORMAT).options(table=name, url=namespace.url)
    if namespace.storage_options:
        reader.option(SECRETS_OPTION, secrets_to_json(namespace.storage_options))
    # By the JVM's reader: ``load`` gives a frame of files.
    return DataFrame(reader._jreader.load(), spark)


def _of_session(spark: SparkSession) -> list[_Namespace]:
    if not _NAMESPACES:
        return []
    session_id = _session_id(spark)
    return [namespace for (owner, _), namespace in _NAMESPACES.items() if owner == session_id]


def _session_id(spark: SparkSession) -> str:
    return str(spark._jsparkSession.sessionUUID())


def _short(name: str) -> str:
    return name.partition(".")[2]
