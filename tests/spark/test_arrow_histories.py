"""Random histories of writes, services, savepoints, restores and cleans, by Arrow, against a dictionary."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import chronolake
from chronolake import Action, Field
from chronolake_model import service_properties as names
from chronolake_model.files import FileGroupName
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableService, TableType
from chronolake_spark import services
from chronolake_spark.services import executing, jobs
from tests.examples import examples
from tests.spark import hudi_reader
from tests.spark.arrow_writes import Row, group_of, row, upsert, write_rows
from tests.spark.test_services import assert_no_orphans, digest, publish

SCHEMA: Final = [
    Field("id", "bigint"),
    Field("value", "string"),
    Field("ts", "bigint", nullable=False),
    Field("day", "string"),
]
EXAMPLES: Final = int(os.environ.get("ARROW_EXAMPLES", "12"))
# A smaller example takes minutes to find, and the steps are printed.
_PHASES: Final = [Phase.explicit, Phase.reuse, Phase.generate]
NewTable = Callable[..., chronolake.Table]
Step = tuple[Any, ...]
Change = tuple[int, int, bool]
"""Key, ordering value, whether it deletes."""

_CHANGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda change: change[0],
)
_STEPS = st.one_of(
    st.tuples(st.just("write"), _CHANGES),
    st.tuples(st.just("write"), _CHANGES),
    st.tuples(st.just("begin"), _CHANGES),
    st.tuples(st.just("end"), st.sampled_from(["complete", "roll back"])),
    st.tuples(st.just("overwrite"), st.integers(0, 1), st.integers(0, 1)),
    st.tuples(st.just("plan"), st.sampled_from([service for service in TableService if service != "clean"])),
    st.just(("execute",)),
    st.just(("execute",)),
    st.tuples(st.just("write while executed"), _CHANGES),
    st.just(("give up",)),
    st.just(("savepoint or release",)),
    st.just(("restore",)),
    st.tuples(st.just("clean"), st.integers(1, 3)),
)


class History:
    """A table, and the ordering value and the value of each of its records.

    No two changes have one ordering value, so the order of overlapping writes does not matter. Whether a table
    keeps a trace of a delete depends on its compactions, so no change of a deleted key is late.
    """

    def __init__(self, table: chronolake.Table, *, is_ordered: bool) -> None:
        self.table = table
        self.is_ordered = is_ordered
        self.records: dict[int, tuple[int, str]] = {}
        self.least: dict[int, int] = {}
        self.states: dict[str, dict[int, str]] = {}
        """The values as of completion times."""
        self._numbers = itertools.count(1)
        self._pending: tuple[chronolake.Write, list[Any], list[Change]] | None = None
        self._saved: tuple[str, dict[int, tuple[int, str]]] | None = None

    def apply(self, step: Step) -> None:
        """One step; those that are not possible now do nothing."""
        name, *given = step
        getattr(self, "_" + name.replace(" ", "_"))(*given)
        self._check()

    def check_history(self) -> None:
        """Execute what is pending; then compare each time that can be read, and look for orphans."""
        self._end("complete")
        self._execute()
        self._check()
        cleaned_before = self.table.reload().definition.cleaned_before or ""
        readable = [time for time in self.states if time >= cleaned_before]
        for time in readable:
            assert self._values(time) == self.states[time], time
        for start, end in itertools.pairwise(readable):
            self._check_changes(start, end)
        self.table.finish_rollbacks()
        assert_no_orphans(self.table)

    def _check(self) -> None:
        values = {key: value for key, (_, value) in self.records.items()}
        assert self._values() == values
        hudi_reader.publish_and_compare(self.table)
        if (as_of := self.table.snapshot().as_of) is not None:
            self.states[as_of] = values

    def _check_changes(self, start: str, end: str) -> None:
        rows = self.table.changes_to_arrow(start, end).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        changed = {row["id"]: row["value"] for row in rows if row["_change_type"] == "upsert"}
        before, after = self.states[start], self.states[end]
        assert changed == {key: value for key, value in after.items() if key in changed}
        assert {key for key in after if before.get(key) != after[key]} <= changed.keys()
        deleted = {row["id"]: row["value"] for row in rows if row["_change_type"] == "delete"}
        assert deleted == {key: value for key, value in before.items() if key not in after}

    def _values(self, as_of: str | None = None) -> dict[int, str]:
        rows = hudi_reader.rows_of(self.table, as_of).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["value"] for row in rows}

    def _write(self, changes: list[Change]) -> None:
        changes = self._possible(changes)
        if changes:
            upsert(self.table, *self._rows(changes))
            self._take(changes)

    def _begin(self, changes: list[Change]) -> None:
        """Write the files of an instant, which stays pending."""
        if self._pending is None and (changes := self._possible(changes)):
            write = self.table.begin()
            self._pending = write, list(write_rows(self.table, write, self._rows(changes)).stats), changes

    def _end(self, how: str) -> None:
        if self._pending is None:
            return
        write, stats, changes = self._pending
        self._pending = None
        if how == "roll back":
            write.rollback()
            return
        try:
            write.complete(stats)
        except chronolake.errors.InstantRolledBack:
            # A restore has rolled it back.
            return
        except chronolake.errors.WriteConflict:
            write.rollback()
            return
        self._take(changes)

    def _overwrite(self, parity: int, rows_written: int) -> None:
        """Replace the file groups of a partition, by a new one or by none."""
        path = f"day={parity}"
        slices = [of for of in self.table.snapshot().slices if of.partition_path == path]
        if not slices or self._pending is not None:
            return
        changes = self._possible([(parity, 3, False)] * rows_written)
        rows = self._rows(changes, places={})
        with self.table.begin(action=Action.REPLACECOMMIT) as write:
            for of in slices:
                write.replace(FileGroupName(path, of.file_id))
            for stat in write_rows(self.table, write, rows).stats if rows else ():
                write.add(stat)
        for key in [key for key in self.records if key % 2 == parity]:
            self.least[key] = max(self.least.get(key, 0), self.records.pop(key)[0])
        self._take(changes)

    def _plan(self, service: TableService) -> None:
        details = {names.LOG_BLOCKS_THRESHOLD: "2", names.CLUSTERING_TARGET_BYTES: "3000"}
        self.table.services.plan(service, force=True, details=details)

    def _waiting(self) -> list[str]:
        publish(self.table)
        return [plan.requested_time for plan in executing.waiting(self.table, list(jobs.SERVICES))]

    def _execute(self) -> None:
        for plan in self._waiting():
            before = digest(self.table)
            with contextlib.suppress(*executing.OF_OTHERS):
                services.execute(self.table, plan)
            assert digest(self.table) == before

    def _write_while_executed(self, changes: list[Change]) -> None:
        """A write between the files of a plan and its completion."""
        for plan in self._waiting()[:1]:
            with pytest.MonkeyPatch.context() as patches, contextlib.suppress(*executing.OF_OTHERS):
                complete = executing.complete

                def write_and_complete(*arguments: Any) -> None:
                    patches.undo()  # called before the next round
                    self._write(changes)
                    complete(*arguments)  # noqa: B023

                patches.setattr(executing, "complete", write_and_complete)
                services.execute(self.table, plan)

    def _give_up(self) -> None:
        for plan in self._waiting()[:1]:
            self.table.rollback(plan)

    def _savepoint_or_release(self) -> None:
        if self._saved is not None:
            self.table.release_savepoint(self._saved[0])
            self._saved = None
        elif self.least:
            self._saved = self.table.savepoint().requested_time, dict(self.records)

    def _restore(self) -> None:
        if self._saved is not None:
            self.table.restore(self._saved[0])
            self.records = dict(self._saved[1])

    def _clean(self, commits: int) -> None:
        before = digest(self.table)
        self.table.clean(retain_commits=commits)
        assert digest(self.table) == before

    def _possible(self, changes: list[Change]) -> list[Change]:
        """The changes with ordering values of their own, without those of keys that a pending write has."""
        pending = set() if self._pending is None else {key for key, _, _ in self._pending[2]}
        possible = []
        for key, ts, is_delete in changes:
            number = ts * 1_000 + next(self._numbers)
            least = 0 if key in self.records else self.least.get(key, 0) + 1
            if key not in pending:
                possible.append((key, max(number, least), is_delete))
        return possible

    def _rows(self, changes: list[Change], places: Mapping[int, int] | None = None) -> list[Row]:
        """Rows in the file groups that have their keys; new keys are in any, or in new ones."""
        places = self._places() if places is None else places
        rows = []
        for key, ts, is_delete in changes:
            day = str(key % 2)
            group = places.get(key, 1_000_000 + next(self._numbers) if key % 3 == 0 else 2_000_000 + key % 2)
            values = {"id": key, "value": _value(key, ts), "ts": ts, "day": day}
            rows.append(row(key, group=group, path=f"day={day}", delete=is_delete, **values))
        return rows

    def _places(self) -> dict[int, int]:
        """The number of the file group of each key, also of the first group of each partition for others."""
        places: dict[int, int] = {}
        for of in self.table.snapshot().slices:
            number = group_of(of).bucket
            for key in range(int(of.partition_path[-1]), 8, 2):
                places.setdefault(key, number)
            for key in hudi_reader.rows_of_slices(self.table, [of])["id"].to_pylist():
                places[key] = number
        return places

    def _take(self, changes: list[Change]) -> None:
        for key, ts, is_delete in changes:
            stored = self.records.get(key)
            if stored is not None and self.is_ordered and ts < stored[0]:
                continue
            self.least[key] = max(self.least.get(key, 0), ts)
            if is_delete:
                self.records.pop(key, None)
            else:
                self.records[key] = ts, _value(key, ts)


def _value(key: int, ts: int) -> str:
    return f"{key} at {ts}"


@pytest.fixture(scope="module")
def new_table(shared_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewTable]:
    numbers = itertools.count(1)
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("histories", if_not_exists=True)

        def make(**definition: Any) -> chronolake.Table:
            name = f"histories.t{next(numbers)}"
            table = client.create_table(
                name,
                base_path=str(tmp_path_factory.mktemp("tables") / name),
                schema=SCHEMA,
                record_key_fields=["id"],
                partition_fields=["day"],
                ordering_field="ts",
                **definition,
            )
            table.claim_storage()
            return table

        yield make


@pytest.mark.parametrize(
    ("type_", "index", "mode"),
    [
        (TableType.MERGE_ON_READ, IndexType.SIMPLE, "event-time"),
        (TableType.COPY_ON_WRITE, IndexType.BLOOM, "event-time"),
        pytest.param(TableType.MERGE_ON_READ, IndexType.BLOOM, "commit-time", marks=pytest.mark.slow),
    ],
)
def test_a_table_has_the_records_of_its_history(
    new_table: NewTable, type_: TableType, index: IndexType, mode: str
) -> None:
    @given(st.lists(_STEPS, min_size=4, max_size=14))
    @settings(
        max_examples=examples(EXAMPLES), phases=_PHASES, deadline=None, suppress_health_check=list(HealthCheck)
    )
    def check(steps: list[Step]) -> None:
        table = new_table(type=type_, index=BucketIndex(index), properties={"merge.mode": mode})
        history = History(table, is_ordered=mode == "event-time")
        for step in steps:
            history.apply(step)
        history.check_history()

    check()
