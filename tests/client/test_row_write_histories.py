"""Random histories of writes by the client, against the oracle of workloads, and hudi-rs as another reader."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pytest

import chronolake
from chronolake import Field
from chronolake.slices.errors import DuplicateKeys
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from tests.spark import hudi_reader
from tests.spark.oracle import Definition, Key, Oracle, Row

SCHEMA: Final = [
    Field("id", "bigint"),
    Field("day", "string"),
    Field("shop", "string"),
    Field("ts", "bigint", nullable=False),
    Field("value", "string"),
]
LAYOUT: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("shop", pa.string()),
        ("ts", pa.int64()),
        ("value", pa.string()),
    ]
)
STEPS: Final = int(os.environ.get("ROW_WRITE_STEPS", "8"))
SEEDS: Final = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
NewTable = Callable[[Definition], chronolake.Table]


@pytest.fixture(scope="module")
def new_table(shared_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewTable]:
    numbers = itertools.count(1)
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("row_histories", if_not_exists=True)

        def make(definition: Definition) -> chronolake.Table:
            name = f"row_histories.t{next(numbers)}"
            folder: Path = tmp_path_factory.mktemp("tables") / name
            return client.create_table(
                name,
                base_path=str(folder),
                schema=SCHEMA,
                record_key_fields=["id"],
                partition_fields=list(definition.partition_fields),
                ordering_field=definition.ordering_field,
                type=definition.type,
                index=BucketIndex(definition.index),
                properties=definition.properties,
            )

        yield make


class History:
    """A table, and the records that it must have."""

    def __init__(self, draws: random.Random, table: chronolake.Table, definition: Definition) -> None:
        self.draws = draws
        self.table = table
        self.oracle = Oracle(definition)
        self._ts = itertools.count(1_000)

    def step(self) -> None:
        """One write of some kind."""
        has_partial_updates = self.oracle.definition.has_partial_updates
        match self.draws.choice(["upsert", "upsert", "upsert", "insert", "delete", "partial", "overwrite"]):
            case "upsert":
                rows = self.rows(self.draws.randint(1, 6))
                self.table.upsert(pa.Table.from_pylist(rows, LAYOUT))
                self.oracle.upsert(rows)
            case "insert":
                rows = self.rows(self.draws.randint(1, 4))
                new = [row for row in rows if self.oracle.definition.key_of(row) not in self.oracle.state]
                result = self.table.insert(rows, "drop")
                assert (result.counts.inserted, result.counts.unchanged) == (len(new), len(rows) - len(new))
                self.oracle.upsert(new)
            case "delete":
                self.delete()
            case "partial" if has_partial_updates:
                rows = [{**row, "value": None} for row in self.rows(2) if not self.has_keys_elsewhere([row])]
                if not rows:
                    return
                lacking = [{name: row[name] for name in row if name != "value"} for row in rows]
                self.table.upsert(lacking)
                self.oracle.update_partially(rows, ["value"])
            case "overwrite":
                rows = self.rows(self.draws.randint(1, 3))
                partitions: Literal["dynamic", "all"] = self.draws.choice(["dynamic", "all"])
                if partitions == "dynamic" and self.has_keys_elsewhere(rows):
                    with pytest.raises(DuplicateKeys, match="which is not replaced"):
                        self.table.overwrite(rows, partitions)
                else:
                    self.table.overwrite(rows, partitions)
                    self.oracle.overwrite(rows, partitions)
            case _:
                pass

    def has_keys_elsewhere(self, rows: list[Row]) -> bool:
        """Whether a key of the rows is in a partition that they do not replace, and is unique in the table."""
        oracle = self.oracle
        replaced = {oracle.definition.partition_of(row) for row in rows}
        stored = [oracle.state.get(oracle.definition.key_of(row)) for row in rows]
        others = [row for row in stored if row and oracle.definition.partition_of(row) not in replaced]
        return oracle.definition.has_unique_keys and bool(others)

    def delete(self) -> None:
        """Delete some records, with an ordering value or without."""
        definition = self.oracle.definition
        chosen = self.draws.sample(sorted(self.oracle.state, key=str), min(2, len(self.oracle.state)))
        if not chosen:
            return
        rows = [self.oracle.state[key] for key in chosen]
        names = ["id", *definition.partition_fields]
        has_ts = bool(definition.ordering_field) and self.draws.random() < 0.5
        ts = next(self._ts)
        self.table.delete(
            [{name: row[name] for name in names} | ({"ts": ts} if has_ts else {}) for row in rows]
        )
        for key, row in zip(chosen, rows, strict=True):
            self.oracle.delete(key, ts if has_ts else None)
            self.oracle.least[key] = max(self.oracle.least[key], row["ts"])

    def rows(self, count: int) -> list[Row]:
        """Rows of distinct records; some are later than what is stored, some earlier."""
        by_key: dict[Key, Row] = {}
        for _ in range(count):
            row: dict[str, Any] = {
                "id": self.draws.randint(0, 9),
                "day": self.draws.choice(["1", "2", None]),
                "shop": self.draws.choice(["a", "b"]),
                "ts": next(self._ts) - self.draws.choice([0, 0, 500]),
                "value": f"v{next(self._ts)}",
            }
            key = self.oracle.definition.key_of(row)
            row["ts"] = max(row["ts"], self.oracle.least.get(key, -1) + 1)
            by_key[key] = row
        return list(by_key.values())

    def check(self) -> None:
        """The table has the records of the oracle."""
        rows = self.table.to_arrow().to_pylist()
        found = {self.oracle.definition.key_of(row): row for row in rows}
        assert len(found) == len(rows)
        assert found == self.oracle.state


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", [IndexType.BUCKET, IndexType.SIMPLE, IndexType.BLOOM])
@pytest.mark.parametrize("type_", TableType)
def test_a_table_has_the_records_that_were_written(
    new_table: NewTable, type_: TableType, index: IndexType, seed: int
) -> None:
    draws = random.Random(f"{type_} {index} {seed}")
    definition = Definition.drawn(draws, type_, index)
    history = History(draws, new_table(definition), definition)
    for _ in range(STEPS):
        history.step()
        history.check()
    hudi_reader.publish_and_compare(history.table)
    assert list(history.table.instants(pending=True)) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", TableType)
def test_a_table_with_a_record_index_has_the_records_that_were_written(
    new_table: NewTable, type_: TableType, seed: int
) -> None:
    draws = random.Random(f"{type_} {seed}")
    definition = Definition.drawn(draws, type_, IndexType.RECORD)
    history = History(draws, new_table(definition), definition)
    for _ in range(STEPS):
        history.step()
        history.check()
    hudi_reader.publish_and_compare(history.table)
