"""The SQL commands on views of tables that Spark does not offer to Python data sources, refused with advice.

Spark's own parser finds them. Every other command goes to Spark.
"""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chronolake_spark import errors
from chronolake_spark.common import column_names
from chronolake_spark.common.format_options import FORMAT
from chronolake_spark.driver import spark_failures

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


def refuse_unsupported(session: SparkSession, query: str) -> None:
    """Raise ``InvalidOption`` for DELETE, UPDATE, MERGE and INSERT … PARTITION on a view of this format.

    And for an INSERT that names columns and not all of them, and for INSERT OVERWRITE of a view of CREATE
    TEMPORARY VIEW by a query that reads this view: the query sees the state of the view's first query, and what
    was written since would be lost.
    """
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
        name = str(plan.nodeName())
        if name in _METHODS:
            command, attribute, method = _METHODS[name]
            if view := _view(session, getattr(plan, attribute)()):
                _refuse(
                    f"{command} does not exist in SQL for {view}: use chronolake_spark.table(spark, "
                    f"'namespace.table'){method}"
                )
        elif name == "InsertIntoStatement" and (view := _view(session, plan.table())):
            _check_insert(session, plan, view)
    except (Py4JError, PySparkException):
        # Spark decides about what its parser refuses.
        return


def _check_insert(session: SparkSession, plan: Any, view: str) -> None:
    if not plan.partitionSpec().isEmpty():
        _refuse(
            f"INSERT … PARTITION does not exist for {view}: leave PARTITION out, and give the partition "
            "columns as columns of the query. To replace only the partitions of the rows, INSERT OVERWRITE a "
            "view with the option partitions 'dynamic'"
        )
    _refuse_missing_columns(session, plan, view)
    names = "|".join(map(re.escape, (view, column_names.quoted(view))))
    reads_itself = re.search(rf"'UnresolvedRelation \[({names})\]", str(plan.query()), re.IGNORECASE)
    if plan.overwrite() and reads_itself and _is_of_source(session, view):
        _refuse(
            f"the query reads {view}, a view that keeps the state of its first query: what was written since "
            "would be lost. Make the view with chronolake_spark.views(spark, 'namespace'), or use "
            "chronolake_spark.table(spark, 'namespace.table').overwrite"
        )


def _refuse_missing_columns(session: SparkSession, plan: Any, view: str) -> None:
    """Spark would give null to the columns that the statement does not name, also in records that exist."""
    state = session._jsparkSession.sessionState()
    if plan.byName():
        with spark_failures.unlogged():
            query = state.executePlan(plan.query(), getattr(state, "executePlan$default$2")())
            given = _names(query.analyzed().output(), "name")
    elif not (given := _names(plan.userSpecifiedCols())):
        return
    known = {name.lower() for name in given}
    own = session.table(column_names.quoted(view)).columns
    if missing := [name for name in own if name.lower() not in known]:
        _refuse(
            f"INSERT INTO {view} does not name the columns {', '.join(missing)}, which would become null also "
            "in records that exist: name all columns, and give NULL to those that have no value; or use "
            "df.write, or a method of chronolake_spark.table(spark, 'namespace.table')"
        )


def _names(sequence: Any, attribute: str | None = None) -> list[str]:
    """The items of a sequence of Scala, or an attribute of each, as texts."""
    items = [sequence.apply(index) for index in range(sequence.size())]
    return [str(item if attribute is None else getattr(item, attribute)()) for item in items]


def _view(session: SparkSession, relation: Any) -> str | None:
    """The name of the view of this format that a relation of the parser names."""
    while relation.nodeName() == "SubqueryAlias":
        relation = relation.child()
    parts = relation.multipartIdentifier()
    if parts.size() != 1:
        return None
    name = str(parts.head())
    return name if is_view(session, name) else None


def is_view(session: SparkSession, name: str) -> bool:
    """Whether it is a view of ``views`` or of CREATE TEMPORARY VIEW. Raises Spark's error for no view."""
    from chronolake_spark.sql import views  # noqa: PLC0415  # it imports the tables

    return views.is_view(session, name) or _is_of_source(session, name)


def _is_of_source(session: SparkSession, name: str) -> bool:
    """Whether it is a view of CREATE TEMPORARY VIEW … USING chronolake."""
    with spark_failures.unlogged():
        plan = session._jsparkSession.table(column_names.quoted(name)).queryExecution().analyzed()
    return re.search(rf"RelationV2\[[^\]]*\]\s+{FORMAT}\b", str(plan)) is not None


def _refuse(message: str) -> None:
    raise errors.InvalidOption(message)
