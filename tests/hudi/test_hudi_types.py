"""hudi-rs returns the values of all types, and of files with field ids and without."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronolake_hudi import avro_schema, log_blocks, log_files, metadata, properties, timeline_files
from chronolake_hudi.metadata import CommitMetadata, HudiWriteStat
from chronolake_hudi.properties import HudiMergeMode, TableConfig
from chronolake_model import meta_columns
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action, TableType
from tests.hudi import nested_tables
from tests.hudi.written_tables import Blocks

# tinyint and smallint are int32 in files: hudi-rs fails on narrower ones in log files. hudi-rs 0.5.0 panics on
# timestamp_ntz.
COLUMNS: dict[str, tuple[str, pa.DataType, Any]] = {
    "key": ("string", pa.string(), None),
    "ts": ("bigint", pa.int64(), None),
    "tiny": ("tinyint", pa.int32(), 1),
    "small": ("smallint", pa.int32(), -2),
    "float": ("float", pa.float32(), 1.5),
    "double": ("double", pa.float64(), 2.5),
    "decimal": ("decimal(10,2)", pa.decimal128(10, 2), Decimal("-1.25")),
    "wide": ("decimal(38,10)", pa.decimal128(38, 10), Decimal("1.2500000000")),
    "boolean": ("boolean", pa.bool_(), True),
    "binary": ("binary", pa.binary(), b"\0x"),
    "date": ("date", pa.date32(), date(1969, 1, 1)),
    "timestamp": ("timestamp", pa.timestamp("us", tz="UTC"), datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)),
    "array": ("array<string>", pa.list_(pa.string()), ["a", None]),
    "map": ("map<string,int>", pa.map_(pa.string(), pa.int32()), {"a": 1}),
    "struct": (
        "struct<p:int,q:struct<r:decimal(5,1)>>",
        pa.struct([("p", pa.int32()), ("q", pa.struct([("r", pa.decimal128(5, 1))]))]),
        {"p": 1, "q": {"r": Decimal("0.5")}},
    ),
}
FIELDS = [Field(name, column[0], name not in ("key", "ts")) for name, column in COLUMNS.items()]
FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def row(key: str, ts: int, *, is_null: bool) -> dict[str, Any]:
    """A row whose other columns have their values, or are all null."""
    values = {name: None if is_null else column[2] for name, column in COLUMNS.items()}
    return dict.fromkeys(meta_columns.META, "") | {"_hoodie_record_key": key} | values | {"key": key, "ts": ts}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """The rows as a Parquet file."""
    columns = [pa.field(name, pa.string()) for name in meta_columns.META]
    columns += [pa.field(field.name, COLUMNS[field.name][1], field.nullable) for field in FIELDS]
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), content)
    return content.getvalue()


def commit(folder: Path, requested: str, completion: str, file_name: str, content: bytes) -> None:
    """A delta commit with one file."""
    (folder / file_name).write_bytes(content)
    schema = avro_schema.encode(avro_schema.of_table("t", FIELDS, meta=False))
    stat = HudiWriteStat(FILE_ID, file_name, "", len(content))
    name = timeline_files.completed_name(requested, completion, Action.DELTACOMMIT)
    written = CommitMetadata({"": [stat]}, extra_metadata={metadata.SCHEMA_KEY: schema})
    (folder / ".hoodie/timeline" / name).write_bytes(metadata.encode(written, "deflate"))


@pytest.mark.parametrize("blocks", Blocks)
def test_hudi_returns_the_values_of_all_types_from_base_and_log_files(tmp_path: Path, blocks: Blocks) -> None:
    in_base, in_log = "20260101000000001", "20260101000000003"
    (tmp_path / ".hoodie/timeline").mkdir(parents=True)
    config = TableConfig(
        name="t",
        type=TableType.MERGE_ON_READ,
        record_key_fields=("key",),
        ordering_fields=("ts",),
        merge_mode=HudiMergeMode.EVENT_TIME,
    )
    (tmp_path / properties.PATH).write_bytes(properties.encode(config))
    rows = [row("a", 1, is_null=False), row("b", 1, is_null=True)]
    commit(tmp_path, in_base, "20260101000000002", f"{FILE_ID}_0-0-0_{in_base}.parquet", parquet(rows))

    changed = [row("b", 2, is_null=False), row("c", 2, is_null=True)]
    schema = avro_schema.encode(avro_schema.of_table("t", FIELDS, meta=True))
    if blocks is Blocks.AVRO:
        block = log_blocks.avro_block(in_log, schema, changed)
    else:
        block = log_blocks.parquet_block(in_log, schema, parquet(changed))
    commit(tmp_path, in_log, "20260101000000004", f".{FILE_ID}_{in_log}.log.1_0-0-0", log_files.encode(block))

    batches = hudi.HudiTable(str(tmp_path)).read()
    read_rows = [values for batch in batches for values in batch.to_pylist(maps_as_pydicts="strict")]
    assert sorted(read_rows, key=lambda values: str(values["key"])) == [rows[0], *changed]


@pytest.mark.parametrize("table_type", TableType)
@pytest.mark.parametrize("base_has_ids", [True, False])
@pytest.mark.parametrize("second_has_ids", [True, False])
def test_hudi_reads_files_with_field_ids_as_those_without(
    tmp_path: Path, table_type: TableType, base_has_ids: bool, second_has_ids: bool
) -> None:
    expected = nested_tables.write(
        tmp_path, table_type, base_has_ids=base_has_ids, second_has_ids=second_has_ids
    )

    rows = [row for batch in hudi.HudiTable(str(tmp_path)).read() for row in batch.to_pylist()]

    names = [field.name for field in nested_tables.FIELDS]
    own = [{name: row[name] for name in names} for row in sorted(rows, key=lambda row: int(row["id"]))]
    assert own == expected
