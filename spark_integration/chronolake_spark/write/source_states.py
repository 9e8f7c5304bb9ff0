"""The table as the source of an overwrite of itself: it must not change before the write completes.

An overwrite by a frame that is computed from the table would lose all writes since. A frame of the newest state
carries a mark in its plan: the table, and the completion time of the state.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import DataFrame

import chronolake
from chronolake.writing.choices import OnConflict
from chronolake_model.tables import Table
from chronolake_spark import errors
from chronolake_spark.driver import spark_internals

NOTHING_YET: Final = "0"
"""The state before the first completion."""


def marked(rows: DataFrame, table: Table, as_of: str | None) -> DataFrame:
    """A frame of the table's records as of a completion time, with the mark, which changes nothing else."""
    return rows.alias(f"{_prefix(table)}{as_of or NOTHING_YET}")


def state_of(df: DataFrame, table: Table, on_conflict: OnConflict) -> str | None:
    """The completion time of the oldest state of the table that ``df`` is computed from; None if of none.

    Raises ``ValueError`` for a retry: it would compute the frame from the same state again.
    """
    plan = str(spark_internals.analyzed(df).toString())
    states = re.findall(rf"{_prefix(table)}(\d+)", plan)
    if states and on_conflict == "retry":
        raise ValueError(
            f'an overwrite of {table.name} by a frame that reads {table.name} cannot have on_conflict="retry": '
            "the frame would keep the records from before the conflict. Read the table again, and write again"
        )
    return min(states, default=None)


def refuse_older(table: chronolake.Table, state: str | None, begin: str) -> None:
    """Raise ``FrameOutdated`` if the table has changed between ``state`` and the begin of the write."""
    if state is None:
        return
    since = table.changes(None if state == NOTHING_YET else state, begin)
    if since.file_groups:
        raise errors.FrameOutdated(
            f"the frame that is to overwrite {table.name} reads {table.name} as of {state}, and "
            f"{len(since.file_groups)} of its file groups have changed since: what was written would be lost. "
            f'Make the frame again, or read with as_of="{state}" if it is to be lost',
            {"as_of": state, "changed_file_groups": len(since.file_groups)},
        )


def _prefix(table: Table) -> str:
    return f"chronolake_{table.table_id.replace('-', '')}_"
