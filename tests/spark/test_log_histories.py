"""Random histories of merge-on-read tables, with overlapping writes and compactions, as hudi-rs reads them.

The files are written as on executors, without Spark.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chronolake
from chronolake import Field
from chronolake.slices import arrow_types, columns, stored_slices
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.stored_groups import GroupNumber
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.publication import PublicationState
from chronolake_model.vocabulary import TableType
from tests.spark import hudi_reader

GROUP = GroupNumber("", 0)
KEYS = range(5)
# In the type int, a delete of the ordering value 0 holds against all: negative values would be exceptions.
ORDERINGS: Mapping[str, list[Any]] = {
    "bigint": [-1, 0, 1, 2],
    "int": [0, 1, 2],
    "double": [-0.5, 0.0, 1.0, 2.5],
    "string": list("abcd"),
}
_NUMBERS = itertools.count(1)


@dataclass
class History:
    """A table with one file group, and its pending writes."""

    table: chronolake.Table
    draws: random.Random
    orderings: list[Any]
    pending: list[tuple[chronolake.Write, tuple[WriteStat, ...]]] = field(default_factory=list)

    def begin(self, existing: Existing = Existing.MERGE) -> None:
        """Begin a write and write its files, from what is there now."""
        write = self.table.begin()
        definition = self.table.definition
        layout = arrow_types.file_layout(definition.schema)
        job = WriteJob(
            base_path=definition.base_path,
            requested_time=write.requested_time,
            schema=pa.schema([layout.field(of.name) for of in definition.schema]),
            fields=definition.schema,
            required=(),
            ordering_fields=definition.ordering_fields,
            existing=existing,
            stored=dict(zip([GROUP], map(stored_slices.of, self.table.snapshot().slices), strict=False)),
            versions={1: definition.schema},
            log_format=LogFormat.of(
                definition.name,
                definition.schema,
                has_avro_blocks=definition.properties.get("hudi.log-blocks") == "avro",
            ),
        )
        control = [(columns.RECORD_KEY, pa.string()), (columns.PARTITION_PATH, pa.string())]
        control += [(columns.BUCKET, pa.int32()), (columns.DELETE, pa.bool_())]
        rows = [self.row(key, can_delete=existing is Existing.MERGE) for key in self.some_keys()]
        batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([*control, *job.schema]))
        token = f"{next(_NUMBERS)}-0-0"
        markers = self.table.markers_of(write.requested_time, writer=write.instant.writer)
        written = bucket_writer.write([batch], job, TaskAttempt(0, token), markers)
        self.pending.append((write, written.stats))

    def some_keys(self) -> list[int]:
        """Distinct keys."""
        return self.draws.sample(KEYS, self.draws.randint(1, 3))

    def row(self, key: int, *, can_delete: bool) -> dict[str, Any]:
        """An upsert, or a delete with or without ordering value."""
        is_delete = can_delete and self.draws.random() < 0.4
        ordering = self.draws.choice(self.orderings)
        if is_delete and self.draws.random() < 0.5:
            ordering = None
        control = {columns.RECORD_KEY: str(key), columns.PARTITION_PATH: "", columns.BUCKET: 0}
        row = {"id": key, "value": self.draws.randint(0, 99), "ts": ordering}
        return {**control, columns.DELETE: is_delete, **row}

    def complete(self) -> None:
        """Complete one of the pending writes."""
        write, stats = self.pending.pop(self.draws.randrange(len(self.pending)))
        write.complete(stats)
        self.compare()

    def compact(self) -> None:
        """Compact the group; a pending write may complete after the plan."""
        [slice_] = self.table.snapshot().slices

        def complete_pending() -> None:
            if self.pending:
                self.complete()

        hudi_reader.compact(self.table, [FileGroupName("", slice_.file_id)], complete_pending)
        self.compare()

    def compare(self) -> None:
        """hudi-rs reads what our reader reads."""
        publication = self.table.publish()
        assert publication.state is PublicationState.PUBLISHING
        assert not publication.lag_versions
        hudi_reader.assert_same_rows(hudi_reader.rows_of_hudi(self.table), hudi_reader.rows_of(self.table))


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("histories", if_not_exists=True)
        yield client


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))]
)
def test_hudi_reads_the_same_rows_in_each_state(client: chronolake.Client, tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    type_text = draws.choice(list(ORDERINGS))
    table = client.create_table(
        f"histories.t{next(_NUMBERS)}",
        base_path=str(tmp_path / "t"),
        schema=[Field("id", "bigint", False), Field("value", "smallint"), Field("ts", type_text, False)],
        record_key_fields=["id"],
        type=TableType.MERGE_ON_READ,
        ordering_field="ts" if seed % 3 else None,
        properties={"hudi.log-blocks": "avro" if type_text == "string" else draws.choice(["avro", "parquet"])},
    )
    table.claim_storage()
    history = History(table, draws, ORDERINGS[type_text])
    while not table.snapshot().slices:
        history.begin()
        history.complete()
    for _ in range(12):
        match draws.randrange(10):
            case 0:
                history.compact()
            case 1:
                history.begin(Existing.DROP)
            case 2 | 3 | 4 | 5 if history.pending:
                history.complete()
            case _:
                history.begin()
    while history.pending:
        history.complete()
