"""A table as Hudi leaves it, to be adopted: copy-on-write, version 8, each commit rewrites one file group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake_hudi import avro_schema, metadata, partition_metadata, properties, timeline_files
from chronolake_hudi.metadata import CommitMetadata, HudiWriteStat
from chronolake_hudi.partition_metadata import PartitionMetadata
from chronolake_hudi.properties import HudiMergeMode, TableConfig
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.meta_columns import META
from chronolake_model.tables import Field
from chronolake_model.times import Tick, format_time, from_datetime
from chronolake_model.vocabulary import Action, Operation, TableType

FILE_GROUPS = 16
_FIELDS = [Field("id", "bigint", nullable=False)]
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def write_file(path: Path, rows: int = 1) -> int:
    """Write a base file with the column ``id``: its size in bytes."""
    columns = {name: pa.array(["x"] * rows, pa.string()) for name in META}
    pq.write_table(pa.table(columns | {"id": pa.array(range(rows), pa.int64())}), path)
    return path.stat().st_size


def make(folder: Path, commits: int) -> None:
    """Write a table of a number of commits, with all of its files."""
    timeline = folder / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    schema = avro_schema.encode(avro_schema.of_table("adopted", _FIELDS, meta=False))
    first = folder / "first.parquet"
    size_bytes = write_file(first)
    for number in range(commits):
        requested, completed = _time(2 * number), _time(2 * number + 1)
        file_id = bucket_file_id(number % FILE_GROUPS)
        name = base_file_name(file_id, "0-0-0", requested)
        (folder / name).hardlink_to(first)
        stat = HudiWriteStat(
            file_id=file_id,
            path=name,
            file_size_in_bytes=size_bytes,
            prev_commit=_time(2 * (number - FILE_GROUPS)) if number >= FILE_GROUPS else metadata.NO_COMMIT,
            num_writes=1,
            num_inserts=1,
            total_write_bytes=size_bytes,
        )
        commit = CommitMetadata(
            {"": [stat]},
            extra_metadata={metadata.SCHEMA_KEY: schema},
            operation_type=metadata.operation_type(Operation.UPSERT),
        )
        name = timeline_files.completed_name(requested, completed, Action.COMMIT)
        (timeline / name).write_bytes(metadata.encode(commit))
    first.unlink()
    (folder / partition_metadata.FILE_NAME).write_bytes(
        partition_metadata.encode(PartitionMetadata(_time(0), 0))
    )
    config = TableConfig(
        name="adopted",
        type=TableType.COPY_ON_WRITE,
        record_key_fields=("id",),
        merge_mode=HudiMergeMode.COMMIT_TIME,
        others={"hoodie.table.keygenerator.type": "NON_PARTITION"},
    )
    (folder / properties.PATH).write_bytes(properties.encode(config))


def _time(seconds: int) -> str:
    return format_time(from_datetime(_FIRST + timedelta(seconds=seconds)), Tick.MILLISECOND)
