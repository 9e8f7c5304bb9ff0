"""Random workloads of a table, beside an oracle in plain Python that knows only the rules of the operations."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake.slices import columns
from chronolake.writing import conflict_retries, writable_tables
from chronolake.writing.choices import Duplicates, OnConflict
from chronolake_model.files import FileGroupName
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import SparkTable, errors
from chronolake_spark.catalogs import registering
from chronolake_spark.tables import Partitions
from tests.spark import hudi_reader
from tests.spark.oracle import Definition, Key, Oracle, Row, State

COLUMNS: Final = ("id long", "day string", "shop string", "ts long not null", "amount int", "note string")
DAYS: Final = ("2026-01-01", "2026-01-02", None)
SHOPS: Final = ("s t", "u")
IDS: Final = range(12)
RANGES: Final = int(os.environ.get("RANGES", "4"))
"""Ranges of completion times whose changes are compared for each history."""
Operation: TypeAlias = Callable[[], "Instant | None"]
Moment: TypeAlias = "tuple[str | None, State]"
"""A completion time, and the state as of it; no time before the first."""


class Writer(Protocol):
    """Writes frames into a table by one of the engines."""

    def upsert(self, df: DataFrame, *, on_conflict: OnConflict) -> Instant:
        """Insert new keys, and update others."""

    def insert(self, df: DataFrame, duplicates: Duplicates = "fail") -> Instant:
        """Insert new keys."""

    def delete(self, condition: DataFrame, *, on_conflict: OnConflict) -> Instant:
        """Delete the records of keys."""

    def overwrite(self, df: DataFrame, partitions: Partitions, *, on_conflict: OnConflict = "fail") -> Instant:
        """Replace partitions, or the table."""


class Workload:
    """A table, random operations on it, and the states that it must have had."""

    def __init__(
        self,
        spark: SparkSession,
        new_table: Callable[..., SparkTable],
        definition: Definition,
        draws: random.Random,
    ) -> None:
        self._spark = spark
        self._draws = draws
        self._definition = definition
        self.oracle = Oracle(definition)
        self.history: list[tuple[Instant, State]] = []
        """Each instant, and the state as of its completion."""
        self.log: list[str] = []
        """The operations so far, to find a failure again."""
        self._columns = list(COLUMNS)
        self._overlaps = False
        buckets = draws.randint(1, 3)
        self.table = new_table(
            self._frame([]),
            "id",
            index=definition.index,
            buckets=buckets if definition.index is IndexType.BUCKET else None,
            type=definition.type,
            partition_fields=definition.partition_fields,
            ordering_field=definition.ordering_field,
            properties=definition.properties,
        )

    def step(self) -> None:
        """One operation on the table and on the oracle, or two that overlap; then compare."""
        alone, first, within = self._operations()
        if self._draws.random() < 0.3:
            self._overlap(self._draws.choice(first), self._draws.choice(within))
        else:
            self._run(self._draws.choice([*alone, *first, self._upsert]))
        self._compare()

    def _compare(self) -> None:
        """The snapshot of now is that of the oracle."""
        self._assert_same(hudi_reader.rows_of(self.table.metastore).to_pylist(), self.oracle.state)

    def _operations(self) -> tuple[list[Operation], list[Operation], list[Operation]]:
        """Operations that run alone, those that another may overlap, and those that may run within another."""
        alone: list[Operation] = [
            self._insert,
            self._insert_new,
            self._bulk_insert,
            self._evolve,
        ]
        if registering.JAR.exists():
            alone.append(self._sql_insert)
        first: list[Operation] = [
            self._upsert,
            self._delete_keys,
            self._delete_where,
            self._merge,
            self._overwrite,
        ]
        within: list[Operation] = [self._upsert_only]
        if self._definition.type is TableType.MERGE_ON_READ:
            alone.append(self._compact)
            within.append(self._compact)
        if self._definition.index is IndexType.BUCKET:
            alone.append(self._resize)
            within.append(self._resize)
        if self._definition.partition_fields:
            alone.append(self._delete_partition)
        if self._definition.has_partial_updates:
            first.append(self._update_partially)
        if self._definition.has_unique_keys:
            # Keys that are written meanwhile may make it an error.
            alone.append(first.pop(first.index(self._overwrite)))
        return alone, first, within

    def _run(self, operation: Operation) -> None:
        instant = operation()
        if instant is not None:
            self._record(instant)

    def _record(self, instant: Instant) -> None:
        assert instant.completion_time is not None
        self.history.append((instant, dict(self.oracle.state)))

    def _overlap(self, outer: Operation, inner: Operation) -> None:
        """``inner`` runs from begin to end once ``outer`` has begun and has its snapshot.

        So ``outer`` completes last: after a conflict it is done again, and the oracle applies it last.
        """
        with pytest.MonkeyPatch.context() as patches:
            begun = writable_tables.refuse_another_schema

            def run_inner(*args: Any) -> None:
                patches.undo()
                begun(*args)
                self._note("within")
                self._run(inner)

            patches.setattr(writable_tables, "refuse_another_schema", run_inner)
            self._overlaps = True
            self._run(outer)
            self._overlaps = False

    def check_history(self) -> None:
        """Each state of the past, and the changes between two times, some of them as Spark reads them."""
        readable = self._readable_history()
        for instant, state in readable:
            rows = hudi_reader.rows_of(self.table.metastore, instant.completion_time)
            self._assert_same(rows.to_pylist(), state)
        for instant, state in self._draws.sample(readable, min(2, len(readable))):
            self._assert_same(rows_of(self.table.read(as_of=instant.completion_time)), state)
        for (since, before), (until, after) in self._ranges(readable):
            self._check_changes(rows_of(self.table.changes(since, until)), before, after)

    def _ranges(self, readable: Sequence[tuple[Instant, State]]) -> list[tuple[Moment, Moment]]:
        moments: list[Moment] = [(None, {})]
        moments += [(instant.completion_time, state) for instant, state in readable]
        pairs = list(itertools.combinations(moments, 2))
        return self._draws.sample(pairs, min(RANGES, len(pairs)))

    def _readable_history(self) -> list[tuple[Instant, State]]:
        """The history since the last clean."""
        cleaned_before = self.table.metastore.reload().definition.cleaned_before or ""
        return [
            (instant, state)
            for instant, state in self.history
            if instant.completion_time is not None and instant.completion_time >= cleaned_before
        ]

    def _check_changes(self, changes: list[Row], before: State, after: State) -> None:
        """Every difference of the states is a change; a change that is none wrote the record as it was."""
        before, after = self._own(before), self._own(after)
        kind = columns.CHANGE_TYPE
        upserts = self._by_key(row for row in changes if row[kind] == "upsert")
        deletes = self._by_key(row for row in changes if row[kind] == "delete")
        assert len(upserts) + len(deletes) == len(changes), self.log
        assert deletes == {key: row for key, row in before.items() if key not in after}, self.log
        assert {key for key, row in after.items() if before.get(key) != row} <= upserts.keys(), self.log
        assert all(after.get(key) == row for key, row in upserts.items()), self.log

    def _upsert(self) -> Instant:
        rows = self._rows(8, doubled=self._definition.ordering_field is not None)
        deleted = self._draws.choice([None, -1, 2])
        self._note("upsert", rows, deleted)
        condition = None if deleted is None else f"amount <= {deleted}"
        instant = self.table.upsert(self._frame(rows), delete_when=condition, on_conflict="retry")
        self.oracle.upsert(rows, lambda row: deleted is not None and row["amount"] <= deleted)
        return instant

    def _sql_insert(self) -> Instant | None:
        rows = self._rows(6)
        self._note("sql_insert", rows)
        url = self.table._client.url
        # A session keeps a catalog that it has used, and other modules have other servers.
        lake = f"lake{urlsplit(url).port}"
        registering.catalog(self._spark, lake, url)
        target = f"{lake}.{self.table.name} WITH (operation = 'upsert')"
        self._spark.sql(f"INSERT INTO {target} BY NAME SELECT * FROM {{rows}}", rows=self._frame(rows))
        self.oracle.upsert(rows)
        return self.table.metastore.timeline.completed().last()

    def _upsert_only(self) -> Instant:
        rows = self._rows(4)
        self._note("upsert_only", rows)
        instant = self._writer(rows).upsert(self._frame(rows), on_conflict="retry")
        self.oracle.upsert(rows)
        return instant

    def _update_partially(self) -> Instant:
        """An upsert of some of the columns; new keys only where the frame has those of order and conditions."""
        keys = ("id", *self._definition.partition_fields)
        lacking = [name for name in self._names() if name not in keys]
        lacking = self._draws.sample(lacking, self._draws.randint(1, len(lacking)))
        rows = self._rows(6)
        if "ts" in lacking or "amount" in lacking:
            rows = [row for row in rows if self._definition.key_of(row) in self.oracle.state]
        self._note("update_partially", rows, lacking)
        instant = self._writer(rows).upsert(self._frame(rows).drop(*lacking), on_conflict="retry")
        self.oracle.update_partially(rows, lacking)
        return instant

    def _evolve(self) -> Instant:
        self._columns.append(f"extra{len(self._columns)} int")
        rows = self._rows(3)
        self._note("evolve", rows)
        instant = self.table.upsert(self._frame(rows), merge_schema=True)
        self.oracle.upsert(rows)
        return instant

    def _compact(self) -> Instant | None:
        """Merge the log files of some slices into new base files; the records stay as they are."""
        table = self.table.metastore
        with_logs = [slice_ for slice_ in table.snapshot().slices if slice_.log_files]
        if not with_logs:
            return None
        chosen = self._draws.sample(with_logs, self._draws.randint(1, len(with_logs)))
        self._note("compact", [slice_.file_id for slice_ in chosen])
        groups = [FileGroupName(slice_.partition_path, slice_.file_id) for slice_ in chosen]
        return hudi_reader.compact(table, groups)

    def _resize(self) -> Instant:
        """Another number of buckets; the records stay as they are."""
        present = self.table.metastore.reload().definition.index.buckets
        buckets = self._draws.choice([number for number in range(1, 6) if number != present])
        self._note("resize", buckets)
        return self.table.resize_buckets(buckets)

    def _insert(self) -> Instant | None:
        rows, existing = self._rows(4), self.oracle.state
        drops = self._draws.random() < 0.5
        self._note("insert", rows, drops)
        new = [row for row in rows if self._definition.key_of(row) not in existing]
        if not drops and len(new) < len(rows):
            with pytest.raises(errors.DuplicateKeys):
                self._writer(rows).insert(self._frame(rows))
            return None
        instant = self._writer(rows).insert(self._frame(rows), duplicates="drop" if drops else "fail")
        self.oracle.upsert(new)
        return instant

    def _insert_new(self) -> Instant:
        rows = self._new_rows()
        self._note("insert_new", rows)
        instant = self._writer(rows).insert(self._frame(rows))
        self.oracle.upsert(rows)
        return instant

    def _bulk_insert(self) -> Instant:
        rows = self._new_rows()
        self._note("bulk_insert", rows)
        instant = self.table.bulk_insert(
            self._frame(rows), sort=self._draws.choice([None, "global", ["amount"]])
        )
        self.oracle.upsert(rows)
        return instant

    def _delete_keys(self) -> Instant:
        rows, has_order = self._rows(4), self._draws.random() < 0.5
        if self._overlaps:
            # A key that does not exist is not deleted from a file group, so that no later insert conflicts.
            rows = [row for row in rows if self._definition.key_of(row) in self.oracle.state]
        self._note("delete", rows, has_order)
        names = [name for name in self._names() if has_order or name != "ts"]
        instant = self._writer(rows).delete(self._frame(rows).select(*names), on_conflict="retry")
        for row in rows:
            self.oracle.delete(self._definition.key_of(row), row["ts"] if has_order else None)
        return instant

    def _delete_where(self) -> Instant:
        limit, begun_with = self._draws.randint(0, 9), dict(self.oracle.state)
        self._note("delete_where", limit)
        instant = self.table.delete(f"amount > {limit} and note is not null", on_conflict="retry")
        with self._in_order(instant, begun_with):
            for key, row in list(self.oracle.state.items()):
                if row["amount"] > limit and row["note"] is not None:
                    self.oracle.delete(key, None)
        return instant

    @contextlib.contextmanager
    def _in_order(self, instant: Instant, begun_with: State) -> Iterator[None]:
        """Apply an operation that reads the table to the state that it read.

        After a conflict it was done again. Otherwise what was written meanwhile lies in other file groups.
        """
        if conflict_retries.RETRIES in instant.extra_metadata:
            yield
            return
        meanwhile = {key: row for key, row in self.oracle.state.items() if begun_with.get(key) is not row}
        self.oracle.state = begun_with
        yield
        self.oracle.state |= meanwhile

    def _merge(self) -> Instant:
        rows, limit = self._rows(6), self._draws.randint(0, 9)
        self._note("merge", rows, limit)
        merge = self.table.merge(self._frame(rows), on_conflict="retry")
        merge = merge.when_matched_delete(condition=f"source.amount > {limit}")
        merge = merge.when_matched_update({"note": "source.note", "ts": "source.ts"}).when_not_matched_insert()
        instant = merge.execute()
        for row in rows:
            key = self._definition.key_of(row)
            stored = self.oracle.state.get(key)
            if stored is None or self._definition.partition_of(stored) != self._definition.partition_of(row):
                self.oracle.upsert([row])
            elif row["amount"] > limit:
                self.oracle.delete(key, None)
            else:
                self.oracle.upsert([{**stored, "note": row["note"], "ts": row["ts"]}])
        return instant

    def _overwrite(self) -> Instant | None:
        rows = self._rows(5)
        partitions: Partitions = self._draws.choice(["dynamic", "dynamic", "all"])
        begun_with = dict(self.oracle.state)
        self._note("overwrite", rows, partitions)
        if partitions == "dynamic" and self._has_keys_elsewhere(rows):
            with pytest.raises(errors.DuplicateKeys):
                self._writer(rows).overwrite(self._frame(rows), partitions)
            return None
        instant = self._writer(rows).overwrite(self._frame(rows), partitions, on_conflict="retry")
        with self._in_order(instant, begun_with):
            self.oracle.overwrite(rows, partitions)
        return instant

    def _has_keys_elsewhere(self, rows: Sequence[Row]) -> bool:
        """Whether a partition that no row belongs to has one of the keys."""
        partition_of = self._definition.partition_of
        stored = [self.oracle.state.get(self._definition.key_of(row)) for row in rows]
        partitions = {partition_of(row) for row in rows}
        return any(row is not None and partition_of(row) not in partitions for row in stored)

    def _delete_partition(self) -> Instant:
        day = self._draws.choice(DAYS)
        self._note("delete_partition", day)
        instant = self.table.delete_partitions({"day": day})
        self.oracle.state = {key: row for key, row in self.oracle.state.items() if row["day"] != day}
        return instant

    def _writer(self, rows: Sequence[Row]) -> Writer:
        """The writer of these rows."""
        return self.table

    def _rows(self, most: int, *, doubled: bool = False) -> list[Row]:
        """Rows of different keys; some keys a second time, with another ordering value, if ``doubled``."""
        rows: dict[Key, Row] = {}
        for _ in range(self._draws.randint(0, most)):
            row = self._row(self._draws.choice(IDS))
            rows[self._definition.key_of(row)] = row
        again = [
            {**row, "ts": row["ts"] + 1, "amount": self._draws.randint(0, 9)}
            for row in rows.values()
            if doubled and self._draws.random() < 0.2
        ]
        return [*rows.values(), *again]

    def _new_rows(self) -> list[Row]:
        return [row for row in self._rows(5) if self._definition.key_of(row) not in self.oracle.state]

    def _row(self, id: int) -> Row:
        row: Row = {
            "id": id,
            "day": self._draws.choice(DAYS),
            "shop": self._draws.choice(SHOPS),
            "ts": self._draws.randint(0, 9),
            "amount": self._draws.randint(0, 9),
            "note": self._draws.choice([None, "a", "b"]),
            **{name: self._draws.choice([None, 1]) for name in self._names()[len(COLUMNS) :]},
        }
        least = self.oracle.least.get(self._definition.key_of(row), 0)
        return {**row, "ts": max(row["ts"], least)}

    def _names(self) -> list[str]:
        return [column.split()[0] for column in self._columns]

    def _frame(self, rows: Sequence[Row]) -> DataFrame:
        values = [tuple(row[name] for name in self._names()) for row in rows]
        return self._spark.createDataFrame(values, ", ".join(self._columns))

    def _note(self, *operation: object) -> None:
        self.log.append(repr(operation))

    def _assert_same(self, rows: list[Row], expected: State) -> None:
        by_key = self._by_key(rows)
        assert len(by_key) == len(rows), self.log
        assert by_key == self._own(expected), self.log

    def _by_key(self, rows: Iterable[Row]) -> State:
        return self._own({self._definition.key_of(row): row for row in rows})

    def _own(self, state: State) -> State:
        """The columns of the table; those that were added later are null."""
        return {key: {name: row.get(name) for name in self._names()} for key, row in state.items()}


def rows_of(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
