"""Adopted merge-on-read tables with several ordering fields: real Hudi reads what Chronolake writes there."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import chronolake
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from chronolake.slices import arrow_types, columns, stored_slices
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.stored_groups import GroupNumber
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.stored_tables import rows_by_slices, rows_of_hudi, unpacked

pytestmark = pytest.mark.hudi_spark
GROUP: Final = GroupNumber("", 0)
CONTROL: Final = [
    (columns.RECORD_KEY, pa.string()),
    (columns.PARTITION_PATH, pa.string()),
    (columns.BUCKET, pa.int32()),
    (columns.DELETE, pa.bool_()),
]
_TOKENS = itertools.count(1)
Row = dict[str, Any]


def append(table: chronolake.Table, rows: list[Row], *, has_avro_blocks: bool) -> None:
    """Complete a delta commit that appends a log file with these rows to the only file group."""
    definition = table.definition
    write = table.begin()
    job = WriteJob(
        base_path=definition.base_path,
        requested_time=write.requested_time,
        schema=arrow_types.own_layout(definition.schema),
        fields=definition.schema,
        required=(),
        ordering_fields=definition.merge_fields,
        existing=Existing.MERGE,
        stored={GROUP: stored_slices.of(table.snapshot().slices[0])},
        versions={1: definition.schema},
        log_format=LogFormat.of(definition.name, definition.schema, has_avro_blocks=has_avro_blocks),
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([*CONTROL, *job.schema]))
    markers = table.markers_of(write.requested_time, writer=write.instant.writer)
    written = bucket_writer.write([batch], job, TaskAttempt(0, f"{next(_TOKENS)}-0-0"), markers)
    write.complete(written.stats)


def row(draws: random.Random, key: int) -> Row:
    """An upsert, or a delete with ordering values or without."""
    is_delete = draws.random() < 0.4
    has_values = not is_delete or draws.random() < 0.6
    return {
        columns.RECORD_KEY: str(key),
        columns.PARTITION_PATH: "",
        columns.BUCKET: 0,
        columns.DELETE: is_delete,
        "id": key,
        "name": f"written {next(_TOKENS)}",
        "price": draws.choice([0.5, 1.0, 50.0, 200.0]) if has_values else None,
        "day": "2026-01-01",
        "ts": draws.choice([4, 5, 6, 7]) if has_values else None,
    }


@pytest.mark.parametrize("has_avro_blocks", [False, True], ids=["parquet", "avro"])
def test_hudi_reads_upserts_and_deletes_by_several_ordering_fields(
    hudi_spark: HudiSpark, client: chronolake.Client, namespace: str, tmp_path: Path, has_avro_blocks: bool
) -> None:
    path = unpacked("orderedmor9", tmp_path)
    adopted = adopting.adopt(client, Options(name=f"{namespace}.ordered", base_path=str(path)))
    table = client.table(adopted.table)
    assert hudi_spark.rows(path) == rows_by_slices(table) == rows_of_hudi("orderedmor9")
    draws = random.Random(26)
    for _ in range(6):
        for _ in range(4):
            rows = [row(draws, key) for key in draws.sample(range(8), 4)]
            append(table, rows, has_avro_blocks=has_avro_blocks)
        table.publish()
        assert hudi_spark.rows(path) == rows_by_slices(table)
