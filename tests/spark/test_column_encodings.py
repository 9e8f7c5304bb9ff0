"""The encodings of the columns of data files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from chronolake.slices import base_files, column_encodings
from tests.fix_stores import Store

_RANDOM = np.random.default_rng(1)
_NOISE = _RANDOM.random(10_000)


def columns_of(table: pa.Table, *, is_local: bool = False) -> list[pq.ColumnChunkMetaData]:
    """The columns of a file with these rows, which are read back."""
    sink = pa.BufferOutputStream()
    base_files.write_rows(sink, table.schema, [table], is_local=is_local)
    stored = pq.ParquetFile(sink.getvalue())
    assert stored.read().to_pylist() == table.to_pylist()
    group = stored.metadata.row_group(0)
    return [group.column(number) for number in range(group.num_columns)]


def codecs_of(table: pa.Table, *, is_local: bool = False) -> dict[str, str]:
    """The compression of each column of a file with these rows."""
    return {column.path_in_schema: column.compression for column in columns_of(table, is_local=is_local)}


@pytest.mark.parametrize(
    ("values", "codec"),
    [
        (pa.array(_NOISE), "UNCOMPRESSED"),
        (pa.array(_NOISE, mask=_NOISE < 0.5), "UNCOMPRESSED"),
        (pa.array([_RANDOM.bytes(16) for _ in range(1_000)]), "UNCOMPRESSED"),
        (pa.array(np.arange(100)), "ZSTD"),
        (pa.array([f"text {number}" for number in range(1_000)]), "ZSTD"),
        (pa.array(_RANDOM.integers(-128, 128, 1_000), pa.int8()), "ZSTD"),
        (pa.array(_NOISE[:50]).take(pa.array([0] * 1_000)), "ZSTD"),
        (pa.array(np.append(_NOISE[:4_000], np.arange(6_000.0) // 100)), "ZSTD"),
        (pa.nulls(10, pa.float64()), "ZSTD"),
    ],
)
def test_only_values_that_become_smaller_are_compressed(values: pa.Array, codec: str) -> None:
    assert codecs_of(pa.table({"values": values})) == {"values": codec}


@pytest.mark.parametrize(
    ("values", "codec"),
    [
        (pa.array([f"text {number}" for number in _RANDOM.integers(0, 1_000_000, 10_000)]), "SNAPPY"),
        (pa.array([f"20261201063916123_0_{number}" for number in range(10_000)]), "ZSTD"),
        (pa.array([_RANDOM.bytes(16).hex() for _ in range(10_000)]), "ZSTD"),
        (pa.array([_RANDOM.bytes(16) for _ in range(10_000)]), "UNCOMPRESSED"),
        (pa.array(["x", "y"] * 5_000), "ZSTD"),
        (pa.array(np.arange(10_000) * 1_000, pa.timestamp("us")), "SNAPPY"),
        (pa.array([[1.5]] * 100), "ZSTD"),
        (pa.nulls(10, pa.string()), "ZSTD"),
    ],
)
def test_on_a_local_disk_the_fast_codec_compresses_what_it_makes_small(values: pa.Array, codec: str) -> None:
    assert set(codecs_of(pa.table({"values": values}), is_local=True).values()) == {codec}


def test_a_file_on_a_local_disk_has_the_fast_codec_and_others_the_small_one(store: Store) -> None:
    texts = pa.array([f"text {number}" for number in _RANDOM.integers(0, 1_000_000, 10_000)])
    table = pa.table({"s": texts})
    folder = base_files.TableFolder.of(store.base_path, store.options)
    base_files.write(folder, "f.parquet", table.schema, [table])

    with folder.filesystem.open_input_file(folder.path("f.parquet")) as file:
        stored = pq.ParquetFile(file)
        assert stored.read().equals(table)
        codec = stored.metadata.row_group(0).column(0).compression
    assert codec == ("SNAPPY" if store.options is None else "ZSTD")


_INT64 = np.iinfo(np.int64)
_ROWS = np.arange(10_000)
_AROUND = pa.array(np.where(_ROWS % 2, _INT64.min + _ROWS, _INT64.max - _ROWS))
"""Among the least and the greatest numbers in turns: their differences wrap around, and are small."""


@pytest.mark.parametrize(
    ("values", "has_differences"),
    [
        (pa.array(_ROWS), True),
        (pa.array(np.arange(10_000, 0, -1), pa.int32()), True),
        (pa.array(_ROWS, mask=_NOISE < 0.5), True),
        (pa.array(_RANDOM.integers(-1_000_000, 1_000_000, 10_000)), True),
        (pa.array(np.append(_INT64.min + np.arange(5_000), _INT64.max - np.arange(5_000))), True),
        (pa.array(_RANDOM.integers(_INT64.min, _INT64.max, 10_000)), False),
        (_AROUND, True),
        (pa.array(_ROWS, pa.timestamp("us")), False),
        (pa.array(np.arange(100)), False),
        (pa.nulls(10_000, pa.int64()), False),
    ],
)
def test_numbers_with_small_differences_are_stored_by_these(values: pa.Array, *, has_differences: bool) -> None:
    [column] = columns_of(pa.table({"values": values}))

    assert ("DELTA_BINARY_PACKED" in column.encodings) == has_differences


def test_other_readers_read_differences(tmp_path: Path, spark: SparkSession) -> None:
    rows = {
        "ordered": pa.array(_ROWS),
        "small": pa.array(_RANDOM.integers(-100_000, 100_000, 10_000), pa.int32()),
        "with_nulls": pa.array(_ROWS, mask=_NOISE < 0.5),
        "around": _AROUND,
    }
    table, path = pa.table(rows), tmp_path / "numbers.parquet"
    with pa.OSFile(str(path), "wb") as sink:
        base_files.write_rows(sink, table.schema, [table])

    assert duckdb.sql(f"FROM '{path}'").to_arrow_table().equals(table)
    assert polars.read_parquet(path).to_arrow().equals(table)
    for is_vectorized in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.parquet.enableVectorizedReader", is_vectorized)
        assert session.read.parquet(str(path)).toArrow().sort_by("ordered").equals(table), is_vectorized


def test_each_value_within_nested_columns_is_compressed() -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
    types = [
        pa.list_(pa.list_(pa.int32())),
        pa.large_list(inner),
        pa.map_(pa.string(), pa.map_(pa.int32(), inner)),
        pa.struct([("a.b", inner), ("m", pa.map_(pa.string(), pa.float64()))]),
    ]
    table = pa.table({f"{type_.id}": pa.nulls(1, type_) for type_ in types})

    assert set(codecs_of(table).values()) == {"ZSTD"}


def test_only_columns_that_repeat_get_a_dictionary() -> None:
    table = pa.table({"key": [str(n) for n in range(100)], "country": ["x", "y"] * 50, "list": [[1]] * 100})

    assert column_encodings.dictionary_columns(table) == ["country"]
