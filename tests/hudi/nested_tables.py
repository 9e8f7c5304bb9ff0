"""Hudi tables with nested columns: base files, and log files with Parquet blocks, with field ids or without."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import field_ids
from chronolake_hudi import avro_schema, log_blocks, log_files, metadata, partition_metadata, properties
from chronolake_hudi.metadata import CommitMetadata, HudiWriteStat
from chronolake_hudi.partition_metadata import PartitionMetadata
from chronolake_hudi.properties import HudiMergeMode, TableConfig, TableVersion
from chronolake_hudi.timeline_files import Layout, completed_name
from chronolake_model import file_names, meta_columns, nested_fields
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action, Operation, TableType

FIELDS: Final = [
    Field("id", "bigint", nullable=False),
    Field("ts", "bigint", nullable=False),
    Field("home", "struct<city:string,geo:struct<lat:double,lon:double>>"),
    Field("tags", "array<string>"),
    Field("points", "array<struct<x:int,y:int>>"),
    Field("attrs", "map<string,struct<n:int,s:string>>"),
]
_GEO: Final = pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
_LAYOUT: Final = pa.schema(
    [
        *((name, pa.string()) for name in meta_columns.META),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        ("home", pa.struct([("city", pa.string()), ("geo", _GEO)])),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("points", pa.list_(pa.field("element", pa.struct([("x", pa.int32()), ("y", pa.int32())])))),
        ("attrs", pa.map_(pa.string(), pa.struct([("n", pa.int32()), ("s", pa.string())]))),
    ]
)
FILE_ID: Final = file_names.bucket_file_id(0)
TIMES: Final = ("20260101000000001", "20260101000000003")
COMPLETION_TIMES: Final = ("20260101000000002", "20260101000000004")
_SCHEMA: Final = avro_schema.encode(avro_schema.of_table("t", FIELDS, meta=False))

Row = dict[str, Any]


def row(number: int, ts: int) -> Row:
    """A record; every third one has nulls for its nested columns."""
    if number % 3 == 2:
        return {"id": number, "ts": ts, "home": None, "tags": None, "points": None, "attrs": None}
    return {
        "id": number,
        "ts": ts,
        "home": {"city": f"c{ts}", "geo": {"lat": number / 2, "lon": None}},
        "tags": ["a", None, str(ts)],
        "points": [{"x": number, "y": ts}, {"x": None, "y": 1}],
        "attrs": [("k", {"n": ts, "s": "v"})],
    }


def write(folder: Path, table_type: TableType, *, base_has_ids: bool, second_has_ids: bool) -> list[Row]:
    """Write a table of two instants: six records, of which the second instant changes two. Gives its records.

    The second instant writes the whole base file, or a log file with a Parquet block.
    """
    config = TableConfig(
        name="t",
        type=table_type,
        version=TableVersion.EIGHT,
        record_key_fields=("id",),
        ordering_fields=("ts",),
        merge_mode=HudiMergeMode.EVENT_TIME,
    )
    _put(folder, properties.PATH, properties.encode(config))
    first = [row(number, 1) for number in range(6)]
    changed = [row(number, 2) for number in (1, 3)]
    now = {record["id"]: record for record in (*first, *changed)}
    _put(folder, partition_metadata.FILE_NAME, partition_metadata.encode(PartitionMetadata(TIMES[0], 0)))
    base_name = file_names.base_file_name(FILE_ID, "0-0-0", TIMES[0])
    is_log = table_type is TableType.MERGE_ON_READ
    action = Action.DELTACOMMIT if is_log else Action.COMMIT
    _publish(folder, 0, action, base_name, _parquet(first, 0, base_name, has_ids=base_has_ids))
    if is_log:
        schema = avro_schema.encode(avro_schema.of_table("t", FIELDS, meta=True))
        content = _parquet(changed, 1, FILE_ID, has_ids=second_has_ids)
        block = log_files.encode(log_blocks.parquet_block(TIMES[1], schema, content))
        _publish(folder, 1, action, f".{FILE_ID}_{TIMES[1]}.log.1_0-0-0", block)
    else:
        name = file_names.base_file_name(FILE_ID, "0-0-0", TIMES[1])
        _publish(folder, 1, action, name, _parquet(list(now.values()), 1, name, has_ids=second_has_ids))
    return list(now.values())


def _publish(folder: Path, index: int, action: Action, name: str, content: bytes) -> None:
    _put(folder, name, content)
    stat = HudiWriteStat(FILE_ID, name, "", len(content), total_write_bytes=len(content), num_writes=1)
    commit = CommitMetadata(
        {"": [stat]},
        extra_metadata={metadata.SCHEMA_KEY: _SCHEMA},
        operation_type=metadata.operation_type(Operation.UPSERT),
    )
    timeline_file = completed_name(TIMES[index], COMPLETION_TIMES[index], action)
    _put(folder, f"{Layout.TWO.folder}/{timeline_file}", metadata.encode(commit))


def _parquet(records: list[Row], index: int, file_name: str, *, has_ids: bool) -> bytes:
    layout = field_ids.with_field_ids(_LAYOUT, nested_fields.numbered_columns(FIELDS)[0])
    rows = [
        {
            meta_columns.COMMIT_TIME: TIMES[index],
            meta_columns.COMMIT_SEQNO: f"{TIMES[index]}_0_{number}",
            meta_columns.RECORD_KEY: str(record["id"]),
            meta_columns.PARTITION_PATH: "",
            meta_columns.FILE_NAME: file_name,
            **record,
        }
        for number, record in enumerate(records)
    ]
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, layout if has_ids else _LAYOUT), content)
    return content.getvalue()


def _put(folder: Path, path: str, content: bytes) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)
