"""Tables as temporary views for SQL, which show the newest state at each call of ``SparkSession.sql``.

A view is the frame of ``SparkTable.read``: Spark's own Parquet reader, which reads the columns and row groups
that a query needs. Before each query the driver asks the server, in one request, which tables have changed
since, and makes their views again. Spark itself would show the state of the first query for good.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

import chronolake
from chronolake import ServerAccess
from chronolake.errors import ConnectionFailed, TableNotFound
from chronolake_spark import errors, tables
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json
from chronolake_spark.driver import schema, spark_internals

_EVENTS_MAX = 1_000
_RETRY_SECONDS = 30.0
_LOG = logging.getLogger("chronolake.spark")
_LOCK = threading.RLock()


@dataclass(slots=True)
class _Namespace:
    """The views of a namespace in a session. ``cursor`` is of the last event of the log that they show."""

    name: str
    access: ServerAccess
    storage_options: Mapping[str, str]
    cursor: str
    tables: set[str] = field(default_factory=set)

    @property
    def options(self) -> dict[str, str]:
        """The options of the format that lead to its tables."""
        secrets = {SECRETS_OPTION: secrets_to_json(self.storage_options)} if self.storage_options else {}
        return self.access.settings() | secrets

    def connect(self, retry_seconds: float = _RETRY_SECONDS) -> chronolake.Client:
        options = self.storage_options or None
        return chronolake.connect(self.access, retry_seconds=retry_seconds, storage_options=options)


_NAMESPACES: dict[tuple[str, str], _Namespace] = {}
"""By the id of the session and the name of the namespace."""


def views(
    spark: SparkSession,
    namespace: str,
    url: str | ServerAccess | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[str]:
    """Make a temporary view of each table of a namespace, under the table's own name; returns the names.

    ``spark.sql`` and ``spark.table`` then show the newest state of these tables, and of tables that are made
    later in the namespace. A frame keeps the state that it was made of. INSERT INTO a view upserts. A view of
    the same name is replaced. ``url`` and ``storage_options`` are those of ``chronolake.connect``. Raises
    ``NamespaceNotFound``, and ``InvalidOption`` without ``install``. While the server is unavailable, queries
    that name a view raise ``ConnectionFailed``.
    """
    if not spark_internals.is_replaced(SparkSession.sql):
        raise errors.InvalidOption(
            "spark.sql must refresh the views before each query: call chronolake_spark.install() before"
        )
    with _LOCK, chronolake.connect(url, storage_options=storage_options) as client:
        client.namespace(namespace)
        made = _Namespace(namespace, client.access, dict(storage_options or {}), client.end_of_log())
        for table in client.tables(namespace):
            _make(spark, made, client, table.name)
        _NAMESPACES[spark_internals.session_id(spark), namespace] = made
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


def options_of(spark: SparkSession, view: str) -> dict[str, str] | None:
    """The options with which the table of a view of ``views`` is read and written; None for no such view."""
    for namespace, name in _tables_of(spark):
        if _short(name).lower() == view.lower():
            return {"table": name, **namespace.options}
    return None


def is_table(spark: SparkSession, name: str) -> bool:
    """Whether ``views`` made a view of this table, called ``namespace.table``."""
    return any(table.lower() == name.lower() for _, table in _tables_of(spark))


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


def _tables_of(spark: SparkSession) -> list[tuple[_Namespace, str]]:
    with _LOCK:
        return [(namespace, name) for namespace in _of_session(spark) for name in namespace.tables]


def _of_session(spark: SparkSession) -> list[_Namespace]:
    if not _NAMESPACES:
        return []
    session_id = spark_internals.session_id(spark)
    return [namespace for (owner, _), namespace in _NAMESPACES.items() if owner == session_id]


def _short(name: str) -> str:
    return name.partition(".")[2]
