"""The shuffle of rows to write: each file group goes to exactly one task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from pyspark.sql import DataFrame, functions as sf

from chronolake.slices import columns
from chronolake_model.tables import Table
from chronolake_spark.driver import schema, spark_failures, spark_internals

_TASKS_PER_CORE: Final = 2
SMALL_BYTES = 2**20
"""Rows that take no more, as Spark estimates them, go to one task: each takes 30 ms, also without rows."""
_MAKES_ROWS: Final = re.compile(r"Generate|In(Pandas|Arrow)|Python")
"""Nodes of a logical plan that may make many rows of one."""
_IN_MEMORY: Final = ("LocalRelation", "InMemoryRelation", "Range", "OneRowRelation")
"""Leaves of a logical plan that no storage is asked for."""
Sort: TypeAlias = Literal["partition", "global"] | Sequence[str] | None
"""How a bulk insert orders the rows of each file."""


def sort_columns(sort: Sort, rows: DataFrame) -> Sequence[str]:
    """The columns that order the rows of each file. Raises ``ValueError`` for others than the table's."""
    if sort in (None, "partition"):
        return ()
    if sort == "global":
        return (columns.RECORD_KEY,)
    names = [sort] if isinstance(sort, str) else list(sort or ())
    if not names or any(name not in rows.columns for name in names):
        raise ValueError(f"sort is 'partition', 'global', columns of the table, or None; not {sort!r}")
    return names


def by_file_group(rows: DataFrame, table: Table, sort: Sequence[str] = ()) -> DataFrame:
    """``rows`` with each file group whole in one task.

    With columns ``sort``, they come file group by file group, and in the order of these columns. Otherwise the
    task brings them together (``task_rows``).
    """
    groups = None if table.partition_fields else table.index.buckets
    task = f"pmod(hash({columns.PARTITION_PATH}), {{tasks}}) + {columns.BUCKET}"
    return _in_order(_shuffled(rows, task, groups), sort)


def by_number(rows: DataFrame, groups: int, sort: Sequence[str]) -> DataFrame:
    """As ``by_file_group``, for rows that name one of ``groups`` file groups by its number."""
    return _in_order(_shuffled(rows, columns.BUCKET, max(1, groups)), sort)


def _shuffled(rows: DataFrame, task: str, groups: int | None) -> DataFrame:
    """``rows`` in partitions by the number ``task``, an SQL expression: no more of them than ``groups``."""
    if _is_small(rows):
        return rows.coalesce(1) if _is_in_memory(rows) else rows.repartition(1)
    spark = rows.sparkSession
    most = _TASKS_PER_CORE * int(spark.sparkContext.defaultParallelism)
    tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions")), most, groups or most)
    # In SQL, because PySpark takes half a millisecond for each operation on a column.
    return rows.repartitionById(tasks, sf.expr(f"pmod({task.format(tasks=tasks)}, {tasks})"))


def _is_small(rows: DataFrame) -> bool:
    """Whether Spark can say that the rows take few bytes."""
    plan = spark_internals.with_cached_data(rows)
    try:
        size_bytes = spark_internals.size_bytes(plan)
    except spark_failures.EXCEPTIONS:
        # A node that is estimated only after it is optimised.
        return False
    return size_bytes <= SMALL_BYTES and not _MAKES_ROWS.search(str(plan.toString()))


def _is_in_memory(rows: DataFrame) -> bool:
    """Whether few rows are computed from such in memory: one task takes less time for it than a shuffle."""
    plan = spark_internals.with_cached_data(rows)
    if spark_internals.has_pattern(rows, plan, "PLAN_EXPRESSION"):
        # A subquery may read much, and Spark may make a join of it.
        return False
    return all(str(leaf.nodeName()) in _IN_MEMORY for leaf in spark_internals.leaves(plan))


def _in_order(shuffled: DataFrame, sort: Sequence[str]) -> DataFrame:
    if not sort:
        return shuffled
    return shuffled.sortWithinPartitions(
        columns.PARTITION_PATH, columns.BUCKET, *(sf.col(schema.quoted(name)) for name in sort)
    )
