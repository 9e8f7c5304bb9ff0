"""hudi-rs returns the values of partition columns, and those that a filter on them asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa
import pytest

from tests.hudi import partitioned_tables
from tests.hudi.partitioned_tables import BEYOND_PYTHON, VALUES


def read(folder: Path, *filters: tuple[str, str, str]) -> pa.Table:
    """The rows that hudi-rs returns, by id; timestamps are microseconds."""
    options = hudi.HudiReadOptions().with_filters(list(filters)) if filters else None
    rows = pa.Table.from_batches(hudi.HudiTable(str(folder)).read(options)).select(["id", "k"])
    if pa.types.is_timestamp(rows.schema.field("k").type):
        rows = rows.set_column(1, "k", rows["k"].cast(pa.int64()))
    return rows.sort_by("id")


@pytest.mark.parametrize("type_", VALUES)
def test_the_values_of_a_partition_column_come_back(tmp_path: Path, type_: str) -> None:
    values = [*VALUES[type_], *(BEYOND_PYTHON if type_ == "timestamp" else ())]
    partitioned_tables.write(tmp_path, type_, values)
    assert read(tmp_path)["k"].to_pylist() == values


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("boolean", "true", True),
        ("int", "-1", -1),
        ("timestamp", "2026-01-01T00:00:07.123456Z", 1_767_225_607_123_456),
        ("timestamp", "1969-12-31T23:59:59.999999Z", -1),
        ("date", "1582-10-10", VALUES["date"][2]),
        ("string", "}", "}"),
        ("string", "a/b=c%d", "a/b=c%d"),
        ("string", "null", "null"),
    ],
)
def test_a_filter_on_a_partition_column_keeps_the_partition(
    tmp_path: Path, type_: str, text: str, value: Any
) -> None:
    partitioned_tables.write(tmp_path, type_, VALUES[type_])
    assert read(tmp_path, ("k", "=", text))["k"].to_pylist() == [value]


def test_an_empty_text_and_the_name_of_the_default_partition_are_values_of_files(tmp_path: Path) -> None:
    values = ["", None, "__HIVE_DEFAULT_PARTITION__"]
    partitioned_tables.write(tmp_path, "string", values)
    assert read(tmp_path)["k"].to_pylist() == values
