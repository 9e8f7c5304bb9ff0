"""The oracle of random workloads: plain Python that knows only the rules of the operations."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from chronolake_model import partition_paths
from chronolake_model.vocabulary import IndexType, TableType


class Key(NamedTuple):
    """A record key and the values of its partition; without them where keys are unique in the table."""

    id: int
    partition: tuple[str | None, ...]


Row: TypeAlias = dict[str, Any]
State: TypeAlias = dict[Key, Row]


@dataclass(frozen=True)
class Definition:
    """The table of a workload."""

    type: TableType
    index: IndexType
    partition_fields: tuple[str, ...]
    ordering_field: str | None
    properties: dict[str, str]

    @classmethod
    def drawn(cls, draws: random.Random, type: TableType, index: IndexType) -> Definition:
        """Any definition of this type and index."""
        properties = {partition_paths.HIVE_STYLE_PROPERTY: draws.choice(["true", "false"])}
        if type is TableType.MERGE_ON_READ:
            properties["hudi.log-blocks"] = draws.choice(["parquet", "avro"])
        if index is not IndexType.BUCKET:
            # Files of three records are full, so that several are filled and opened.
            properties |= draws.choice(
                [{}, {"files.max-file-size": "9000", "files.record-size-estimate": "1000"}]
            )
        fields: list[tuple[str, ...]] = [(), ("day",), ("day", "shop")]
        ordering_field = draws.choice([None, "ts"])
        modes = ["", "partial-update", *(["commit-time"] if ordering_field else [])]
        if mode := draws.choice(modes):
            properties["merge.mode"] = mode
        return cls(type, index, draws.choice(fields), ordering_field, properties)

    @property
    def has_partial_updates(self) -> bool:
        """Whether upserts may lack columns."""
        return self.properties.get("merge.mode") == "partial-update"

    @property
    def compares_with_stored(self) -> bool:
        """Whether a stored record with a larger ordering value stays."""
        return self.ordering_field is not None and self.properties.get("merge.mode") != "commit-time"

    @property
    def has_unique_keys(self) -> bool:
        """Whether a key is unique over all partitions."""
        return self.index is IndexType.RECORD

    def key_of(self, row: Row) -> Key:
        """The key of a row."""
        return Key(row["id"], () if self.has_unique_keys else self.partition_of(row))

    def partition_of(self, row: Row) -> tuple[str | None, ...]:
        """The values of the partition of a row."""
        return tuple(row[name] for name in self.partition_fields)


@dataclass
class Oracle:
    """The records that the table must have, after each of its instants.

    ``least`` has the least ordering values of new rows of keys that were deleted. Whether a table keeps a trace
    of a delete depends on its type and on its compactions. Workloads do without rows for which that matters.
    """

    definition: Definition
    state: State = field(default_factory=dict)
    least: dict[Key, int] = field(default_factory=dict)

    def upsert(self, rows: Iterable[Row], deletes: Callable[[Row], bool] = lambda row: False) -> None:
        """The latest row of each key counts, unless the stored one has a larger ordering value."""
        for row in self.latest(rows):
            key = self.definition.key_of(row)
            if deletes(row):
                self.delete(key, row["ts"])
            elif self._is_late(key, row["ts"]):
                continue
            else:
                self.state[key] = row

    def update_partially(self, rows: Iterable[Row], lacking: Sequence[str]) -> None:
        """An upsert of rows that lack columns: these keep their values, and are null in new records."""
        for row in rows:
            stored = self.state.get(self.definition.key_of(row), {})
            self.upsert([{**row, **{name: stored.get(name) for name in lacking}}])

    def latest(self, rows: Iterable[Row]) -> list[Row]:
        """One row of each key: that with the largest ordering value."""
        by_key: dict[Key, Row] = {}
        for row in rows:
            key = self.definition.key_of(row)
            if key not in by_key or by_key[key]["ts"] < row["ts"]:
                by_key[key] = row
        return list(by_key.values())

    def delete(self, key: Key, ts: int | None) -> None:
        """Delete a record, unless it has a larger ordering value; None deletes in any case."""
        stored = self.state.get(key)
        self.least[key] = max(self.least.get(key, 0), ts or 0, stored["ts"] if stored is not None else 0)
        if stored is not None and (ts is None or not self._is_late(key, ts)):
            del self.state[key]

    def overwrite(self, rows: Iterable[Row], partitions: str) -> None:
        """Replace the partitions of the rows (``dynamic``), or the whole table (``all``)."""
        latest = self.latest(rows)
        replaced = {self.definition.partition_of(row) for row in latest}
        self.state = {
            key: row
            for key, row in self.state.items()
            if partitions != "all" and self.definition.partition_of(row) not in replaced
        }
        self.state |= {self.definition.key_of(row): row for row in latest}

    def _is_late(self, key: Key, ts: int) -> bool:
        stored = self.state.get(key)
        return self.definition.compares_with_stored and stored is not None and ts < stored["ts"]
