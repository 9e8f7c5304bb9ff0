"""The encodings of the columns of data files, in a file in memory and without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronolake.slices import base_files, column_encodings

_RANDOM = np.random.default_rng(1)
_NOISE = _RANDOM.random(10_000)


def codecs_of(table: pa.Table) -> dict[str, str]:
    """The compression of each column of a file with these rows."""
    sink = pa.BufferOutputStream()
    base_files.write_rows(sink, table.schema, [table])
    stored = pq.ParquetFile(sink.getvalue())
    assert stored.read().to_pylist() == table.to_pylist()
    group = stored.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: column.compression for column in columns}


@pytest.mark.parametrize(
    ("values", "codec"),
    [
        (pa.array(_NOISE), "UNCOMPRESSED"),
        (pa.array(_NOISE, mask=_NOISE < 0.5), "UNCOMPRESSED"),
        (pa.array([_RANDOM.bytes(16) for _ in range(1_000)]), "UNCOMPRESSED"),
        (pa.array(np.arange(10_000)), "ZSTD"),
        (pa.array([f"text {number}" for number in range(1_000)]), "ZSTD"),
        (pa.array(_RANDOM.integers(-128, 128, 1_000), pa.int8()), "ZSTD"),
        (pa.array(_NOISE[:50]).take(pa.array([0] * 1_000)), "ZSTD"),
        (pa.array(np.append(_NOISE[:4_000], np.arange(6_000.0) // 100)), "ZSTD"),
        (pa.nulls(10, pa.float64()), "ZSTD"),
    ],
)
def test_only_values_that_become_smaller_are_compressed(values: pa.Array, codec: str) -> None:
    assert codecs_of(pa.table({"values": values})) == {"values": codec}


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
