"""Random workloads whose rows Spark writes, and the client without Spark, into one table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from typing_extensions import override

import chronolake
from chronolake.writing.choices import Duplicates, OnConflict
from chronolake_model.instants import Instant
from chronolake_spark.tables import Partitions
from tests.spark.oracle import Row
from tests.spark.workloads import Workload, Writer, rows_of


class ClientWriter:
    """Writes the rows of frames by the client."""

    def __init__(self, table: chronolake.Table) -> None:
        self._table = table

    def upsert(self, df: DataFrame, *, on_conflict: OnConflict) -> Instant:
        """As ``Writer.upsert``."""
        return self._table.upsert(df.toArrow(), on_conflict=on_conflict).instant

    def insert(self, df: DataFrame, duplicates: Duplicates = "fail") -> Instant:
        """As ``Writer.insert``."""
        return self._table.insert(df.toArrow(), duplicates).instant

    def delete(self, condition: DataFrame, *, on_conflict: OnConflict) -> Instant:
        """As ``Writer.delete``."""
        return self._table.delete(condition.toArrow(), on_conflict=on_conflict).instant

    def overwrite(self, df: DataFrame, partitions: Partitions, *, on_conflict: OnConflict = "fail") -> Instant:
        """As ``Writer.overwrite``."""
        return self._table.overwrite(df.toArrow(), partitions, on_conflict=on_conflict).instant


class MixedWorkload(Workload):
    """A workload in which the client reads the history, and writes about half of what it can write."""

    @override
    def _writer(self, rows: Sequence[Row]) -> Writer:
        # The client refuses a write without rows.
        if not rows or self._draws.random() < 0.5:
            return super()._writer(rows)
        self._note("by the client")
        return ClientWriter(self.table.metastore)

    @override
    def check_history(self) -> None:
        """Each state of the past, and the changes between two times, as the client reads them."""
        table, readable = self.table.metastore, self._readable_history()
        for instant, state in readable:
            self._assert_same(table.to_arrow(instant.completion_time).to_pylist(), state)
        for (since, before), (until, after) in self._ranges(readable):
            self._check_changes(table.changes_to_arrow(since, until).to_pylist(), before, after)
        self._assert_same(rows_of(self.table.read()), self.oracle.state)
