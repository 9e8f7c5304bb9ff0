"""Random histories of published tables: after each step both readers of Hudi return the rows of the table."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import chronolake
from chronolake_model.publication import PublicationState
from chronolake_model.vocabulary import TableType
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.keyed_table import KeyedTable, assert_base_files_agree, assert_readers_agree, partition_path
from tests.hudi.written_tables import Blocks
from tests.published import Row

pytestmark = pytest.mark.hudi_spark
EXAMPLES: Final = int(os.environ.get("HUDI_EXAMPLES", "3"))
Step = tuple[Any, ...]
_QUICK: Final = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
# A smaller example takes minutes to find, and the steps are printed.
_PHASES: Final = [Phase.explicit, Phase.reuse, Phase.generate]

days = st.sampled_from(["a", "b"])
rows = st.builds(
    lambda number, ts, name: {"id": number, "day": "ab"[number % 2], "ts": ts, "name": name},
    st.integers(0, 5),
    st.integers(1, 4),
    st.sampled_from("xyz"),
)
batches = st.lists(rows, min_size=1, max_size=4, unique_by=lambda row: row["id"])
steps = st.one_of(
    st.tuples(st.just("upsert"), batches, st.sampled_from(Blocks)),
    st.tuples(st.just("delete"), batches),
    st.tuples(st.just("begin"), batches),
    st.just(("end", True)),
    st.just(("end", False)),
    st.just(("plan",)),
    st.just(("compact",)),
    st.tuples(st.just("cluster"), days),
    st.tuples(st.just("overwrite"), days, st.booleans()),
    st.just(("savepoint",)),
    st.just(("restore",)),
    st.just(("clean",)),
)


class History:
    """A table, and what is pending in it."""

    def __init__(self, table: KeyedTable) -> None:
        self.table = table
        self.written: tuple[chronolake.Write, list[Any]] | None = None
        self.plan: str | None = None
        self.savepoint: str | None = None

    def apply(self, step: Step) -> None:
        """One step; those that are not possible now do nothing."""
        match step:
            case ("upsert", batch, blocks):
                self.table.upsert(*batch, blocks=blocks)
            case ("delete", batch) if present := self._present(batch):
                self.table.delete(*present)
            case ("begin", batch):
                self._begin(batch)
            case ("end", completes):
                self._end(completes=completes)
            case ("cluster" | "overwrite", day, *given) if self._is_free(day):
                self._replace(day, *given)
            case _:
                self._serve(step)

    def _replace(self, day: str, has_rows: bool | None = None) -> None:
        if has_rows is None:
            self.table.cluster(day)
            return
        row: Row = {"id": "ab".index(day), "day": day, "ts": 2, "name": "over"}
        self.table.overwrite(day, *([row] if has_rows else []))

    def _serve(self, step: Step) -> None:
        match step:
            case ("plan",) if self.plan is None:
                self.plan = self.table.plan_compaction()
                if self.table.table.publication().state is PublicationState.PAUSED:
                    # Until the compaction is completed: an undone one has the same file groups.
                    self.table.compact(self.plan)
                    self.plan = None
            case ("compact",):
                self.table.compact(self.plan)
                self.plan = None
            case ("savepoint",) if self.savepoint is None and self.table.requested_times:
                self.savepoint = self.table.table.savepoint().requested_time
            case ("restore",) if self.savepoint is not None and self.written is None and self.plan is None:
                self.table.table.restore(self.savepoint)
                self.table.table.release_savepoint(self.savepoint)
                self.savepoint = None
            case ("clean",):
                self.table.publish()
                self.table.table.clean(retain_commits=1)
            case _:
                pass

    def _present(self, batch: list[Row]) -> list[Row]:
        places = set(self.table.slices())
        return [row for row in batch if (partition_path(row["day"]), row["id"] % 2) in places]

    def _is_free(self, day: str) -> bool:
        """Whether a day has file groups, and nothing pending would conflict."""
        path = partition_path(day)
        return self.written is None and self.plan is None and any(own == path for own, _ in self.table.slices())

    def _begin(self, batch: list[Row]) -> None:
        """Leave a write pending whose file groups exist: it appends log files, or rewrites base files."""
        present = self._present(batch)
        if self.written is not None or not present:
            return
        write = self.table.table.begin()
        stats = self.table.upserted(write.requested_time, present)
        write.mark(*self.table.markers(stats))
        self.written = write, stats

    def _end(self, *, completes: bool) -> None:
        if self.written is None:
            return
        write, stats = self.written
        self.written = None
        if completes:
            try:
                self.table.complete(write, stats)
            except chronolake.errors.WriteConflict:
                write.rollback()
        else:
            write.rollback()


@pytest.mark.parametrize("table_type", TableType)
@settings(max_examples=EXAMPLES, suppress_health_check=_QUICK, phases=_PHASES, deadline=None)
@given(version=st.sampled_from([8, 9]), played=st.lists(steps, min_size=6, max_size=14))
def test_both_readers_follow_random_histories(
    hudi_spark: HudiSpark, client: chronolake.Client, table_type: TableType, version: int, played: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = KeyedTable(client, Path(folder) / "lake", table_type, ordering="bigint", version=version)
        history = History(table)
        for step in played:
            history.apply(step)
            assert_readers_agree(hudi_spark, table)
        assert_base_files_agree(hudi_spark, table)
