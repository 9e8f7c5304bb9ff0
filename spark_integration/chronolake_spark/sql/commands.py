"""The SQL statements that Chronolake runs in the place of Spark, or refuses with advice; others go to Spark.

Spark's own parser finds them. INSERT into a view of a table writes the rows of its query as ``df.write`` does.
Spark does not offer to data sources in Python DELETE, UPDATE and MERGE of views, and CREATE TABLE: they work on
the tables of ``chronolake_spark.catalog``, whose statements all go to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from chronolake.writing import column_names
from chronolake_spark import errors
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FORMAT
from chronolake_spark.driver import spark_failures, spark_internals
from chronolake_spark.sql import format_frames, views

_COMMANDS: Final = re.compile(r"\b(create|replace|insert|delete|update|merge)\b", re.IGNORECASE)
_METHODS: Final = {
    "DeleteFromTable": ("DELETE", "table", '.delete("condition")'),
    "UpdateTable": (
        "UPDATE",
        "table",
        '.merge(source).when_matched_update({"column": "value"}).execute()',
    ),
    "MergeIntoTable": (
        "MERGE",
        "targetTable",
        ".merge(source).when_matched_update().when_not_matched_insert().execute()",
    ),
}
"""By the node of the parser: the command, the node's target, and the method that does the same."""
_INSERT: Final = "InsertIntoStatement"
_OF_INSERT: Final = {"table", "partitionSpec", "userSpecifiedCols", "query", "overwrite", "byName"}
"""The arguments of an INSERT that are taken into account. Others are of clauses that do not exist here."""
_OWN_CATALOG: Final = "spark_catalog"
_NOTHING: Final = ("false", "none")
Arguments = Mapping[str, Any] | Sequence[Any] | None


def run(session: SparkSession, query: str, args: Arguments) -> DataFrame | None:
    """Run an INSERT into a view of a table, and give a frame without columns, as Spark; None for all others.

    ``args`` are those of ``sql``. Raises ``InvalidOption`` for DELETE, UPDATE, MERGE and clauses of INSERT that
    do not exist for a view, and for CREATE TABLE; and what the write raises.
    """
    if not _COMMANDS.search(query):
        return None
    try:
        plan = spark_internals.parsed(session, query)
        command = plan.child() if plan.nodeName() == "UnresolvedWith" else plan
        name = str(command.nodeName())
        if name == _INSERT:
            target = _target(session, command.table())
        else:
            _refuse_unsupported(session, command, name)
            return None
    except (Py4JError, PySparkException):
        # Spark decides about what its parser refuses, and about targets that it does not know.
        return None
    if target is None:
        return None
    _Insert(session, *target).run(plan, command, args)
    return session.range(0).select()


def insert_frame(writer: Any, name: str, overwrite: bool | None) -> bool:
    """Run ``insertInto`` of a writer, if it is into a view of a table; returns whether it is."""
    rows = spark_internals.frame_of(writer)
    view = name.strip("`")
    try:
        options = _options(rows.sparkSession, view)
    except (Py4JError, PySparkException):
        return False
    if options is None:
        return False
    mode = spark_internals.save_mode(writer) if overwrite is None else "overwrite" if overwrite else "append"
    insert = _Insert(rows.sparkSession, view, {**options, **spark_internals.options(writer)})
    insert.write(insert.named(rows, ()), overwrite=mode.lower() == "overwrite")
    return True


def is_view(session: SparkSession, name: str) -> bool:
    """Whether it is a view of a table. Raises Spark's error for no view."""
    return _options(session, name) is not None


def is_in_catalog(session: SparkSession, names: Sequence[str]) -> bool:
    """Whether a name in parts is that of a table in another catalog than Spark's own."""
    if len(names) > 1 and session.conf.get(f"spark.sql.catalog.{names[0]}", None) is not None:
        return names[0] != _OWN_CATALOG
    return str(session.catalog.currentCatalog()) != _OWN_CATALOG


class _Insert:
    """An INSERT into a view whose table is written with these options."""

    def __init__(self, session: SparkSession, view: str, options: Mapping[str, str]) -> None:
        self._session = session
        self._view = view
        self._options = options

    def run(self, plan: Any, command: Any, args: Arguments) -> None:
        """Write the rows of the statement ``plan``, whose INSERT is ``command``."""
        given = spark_internals.arguments(command)
        self._refuse_clauses(given)
        query = given["query"]
        if plan.nodeName() != _INSERT:
            query = spark_internals.with_child(self._session, plan, query)
        if given["overwrite"]:
            self._refuse_old_state(str(query))
        rows = spark_internals.rows_of(self._session, query, args)
        if not given["byName"]:
            rows = self.named(rows, [str(name) for name in spark_internals.items(given["userSpecifiedCols"])])
        own = spark_internals.java_options(given["table"])
        self.write(rows, overwrite=bool(given["overwrite"]), **own)

    def named(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows with these names of columns, by default those of the view: SQL goes by position."""
        own = names or self._session.table(column_names.quoted(self._view)).columns
        if len(own) != len(rows.columns):
            raise errors.InvalidOption(
                f"{len(rows.columns)} values are inserted into the {len(own)} columns of {self._view}: "
                f"{', '.join(own)}"
            )
        return rows.toDF(*own)

    def write(self, rows: DataFrame, *, overwrite: bool, **options: str) -> None:
        """Write the rows as ``df.write`` does."""
        format_frames.save(rows, {**self._options, **options}, "overwrite" if overwrite else "append")

    def _refuse_clauses(self, given: Mapping[str, Any]) -> None:
        if not given["partitionSpec"].isEmpty():
            _refuse(
                f"INSERT … PARTITION does not exist for {self._view}: leave PARTITION out, and give the "
                "partition columns as columns of the query. To replace only the partitions of the rows, "
                "INSERT OVERWRITE a view with the option partitions 'dynamic'"
            )
        others = [name for name in given.keys() - _OF_INSERT if str(given[name]).lower() not in _NOTHING]
        if others:
            _refuse(
                f"this INSERT INTO {self._view} has a clause that does not exist for tables of Chronolake "
                f"({', '.join(sorted(others))}): use df.write, or a method of chronolake_spark.table(spark, "
                "'namespace.table')"
            )

    def _refuse_old_state(self, query: str) -> None:
        names = "|".join(map(re.escape, (self._view, column_names.quoted(self._view))))
        reads_itself = re.search(rf"'UnresolvedRelation \[({names})\]", query, re.IGNORECASE)
        if reads_itself and views.options_of(self._session, self._view) is None:
            _refuse(
                f"the query reads {self._view}, a view that keeps the state of its first query: what was "
                "written since would be lost. Make the view with chronolake_spark.views(spark, 'namespace'), "
                "or use chronolake_spark.table(spark, 'namespace.table').overwrite"
            )


def _target(session: SparkSession, relation: Any) -> tuple[str, dict[str, str]] | None:
    """The view that a relation of the parser names, and the options of its table; None for no such view."""
    while relation.nodeName() == "SubqueryAlias":
        relation = relation.child()
    parts = relation.multipartIdentifier()
    if parts.size() != 1:
        return None
    name = str(parts.head())
    options = _options(session, name)
    return None if options is None else (name, options)


def _options(session: SparkSession, name: str) -> dict[str, str] | None:
    """The options of the table of a view: one of ``views``, or of CREATE TEMPORARY VIEW … USING chronolake."""
    options = views.options_of(session, name)
    if options is not None:
        return options
    with spark_failures.unlogged():
        return spark_internals.source_options(session, column_names.quoted(name), FORMAT)


def _refuse_unsupported(session: SparkSession, command: Any, name: str) -> None:
    if name in _METHODS:
        label, attribute, method = _METHODS[name]
        if target := _target(session, getattr(command, attribute)()):
            _refuse(
                f"{label} does not exist for the view {target[0]}: use chronolake_spark.table(spark, "
                f"'namespace.table'){method}, or the tables of chronolake_spark.catalog(spark, 'lake')"
            )
    elif name.startswith(("CreateTable", "ReplaceTable")):
        provider = command.tableSpec().provider()
        if provider.isDefined() and provider.get().lower() == FORMAT:
            names = [str(part) for part in spark_internals.items(command.name().nameParts())]
            if not is_in_catalog(session, names):
                _refuse(format_options.NO_TABLE)


def _refuse(message: str) -> None:
    raise errors.InvalidOption(message)
