"""Tables with a partition column, written as Chronolake's writers do, and the values that readers return."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import _keys
from chronolake_hudi import avro_schema, metadata, partition_metadata, properties, timeline_files
from chronolake_hudi.metadata import CommitMetadata, HudiWriteStat
from chronolake_hudi.partition_metadata import PartitionMetadata
from chronolake_hudi.properties import TableConfig
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.meta_columns import META
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action, TableType

REQUESTED: Final = "20260101000000001"
COMPLETED: Final = "20260101000000002"
ARROW: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(38,10)": pa.decimal128(38, 10),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
MICROS: Final = [
    1_767_225_607_000_000,
    1_767_225_607_123_456,
    1_767_225_607_100_000,
    -1,
    # 1900, 1582, 1, 9999
    -2_208_988_800_000_000,
    -12_219_681_600_000_000,
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
]
BEYOND_PYTHON: Final = [327_403_382_400_000_000, -63_549_360_000_000_000, 2**63 - 1, -(2**63)]
"""Instants of the years 12345 and -44, and the first and the last."""
VALUES: Final[dict[str, list[Any]]] = {
    "boolean": [True, False, None],
    "int": [0, -1, 2**31 - 1, -(2**31), None],
    "bigint": [0, 2**63 - 1, -(2**63), None],
    "decimal(38,10)": [
        Decimal("0.0000000000"),
        Decimal("-1.5000000000"),
        Decimal(f"{10**28 - 1}.9999999999"),
        None,
    ],
    "date": [date(2026, 1, 1), date(1969, 12, 31), date(1582, 10, 10), date(1, 1, 1), date(9999, 12, 31), None],
    "timestamp": [*MICROS, None],
    "string": [
        *"%/= :}{[]^\"'#*?\\~!$&()+,;<>|@`-_\t\n\x01\x7f",
        *("a", "%2F", "%20", "a/b=c%d", "k=v", "  lead", "trail ", "a.", ".", "..", ".hidden", "_hidden"),
        *("Zürich", "Zu\u0308rich", "東京/🗼", "\u200b", "\ufeff", "x" * 200, "é" * 100),
        *("null", "NULL", "None", "default", "__null__", "true", "007", "1.50", "1e3", "NaN", "2026-01-01"),
        None,
    ],
}


def write(folder: Path, type_: str, values: list[Any]) -> None:
    """A copy-on-write table with the ids of the values in their order, and the partition column ``k``.

    Timestamps are microseconds.
    """
    fields = [Field("id", "bigint", False), Field("k", type_)]
    column = column_of(type_, values)
    paths = _keys.partition_paths(["k"], [_keys.partition_texts(column, type_)]).to_pylist()
    stats: dict[str, list[HudiWriteStat]] = {}
    for path in dict.fromkeys(paths):
        ids = [number for number, own in enumerate(paths) if own == path]
        stats[path] = [_file(folder, path, ids, column.take(ids))]
    config = TableConfig(
        name="t",
        type=TableType.COPY_ON_WRITE,
        record_key_fields=("id",),
        partition_fields=("k",),
        url_encode_partitioning=True,
        key_generator_class=properties.GUARD_CLASS,
    )
    schema = avro_schema.encode(avro_schema.of_table("t", fields, meta=False))
    commit = CommitMetadata(stats, extra_metadata={metadata.SCHEMA_KEY: schema})
    timeline = folder / timeline_files.Layout.TWO.folder
    timeline.mkdir(parents=True)
    (folder / properties.PATH).write_bytes(properties.encode(config))
    name = timeline_files.completed_name(REQUESTED, COMPLETED, Action.COMMIT)
    (timeline / name).write_bytes(metadata.encode(commit))


def column_of(type_: str, values: list[Any]) -> pa.Array:
    """The values in an Arrow column of the type."""
    if type_ == "timestamp":
        return pa.array(values, pa.int64()).cast(ARROW[type_])
    return pa.array(values, ARROW[type_])


def text_of(value: Any) -> str | None:
    """A value as Spark casts it to a string; timestamps are microseconds."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _file(folder: Path, path: str, ids: list[int], column: pa.Array) -> HudiWriteStat:
    name = base_file_name(bucket_file_id(0), "0-0-0", REQUESTED)
    meta = [REQUESTED, "0", "0", path, name]
    table = pa.table(
        {
            **{name: pa.array([text] * len(ids), pa.string()) for name, text in zip(META, meta, strict=True)},
            "id": pa.array(ids, pa.int64()),
            "k": column,
        }
    )
    (folder / path).mkdir(parents=True)
    pq.write_table(table, folder / path / name)
    content = partition_metadata.encode(PartitionMetadata(REQUESTED, 1))
    (folder / path / partition_metadata.FILE_NAME).write_bytes(content)
    size = (folder / path / name).stat().st_size
    return HudiWriteStat(bucket_file_id(0), f"{path}/{name}", path, size)
