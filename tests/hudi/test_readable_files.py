"""Base files whose columns have older types than the table: only what our readers read comes in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from chronolake.hudi import footers
from chronolake.hudi.footers import Footers
from chronolake_model import meta_columns
from chronolake_model.adoption import AdoptedInstant, AdoptTable
from chronolake_model.file_names import base_file_name
from chronolake_model.files import WriteStat
from chronolake_model.tables import CreateTable, NewField
from chronolake_model.vocabulary import Action

TIME = "20260101000000000"
FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def reasons(folder: Path, stored: pa.DataType, wanted: str) -> list[str]:
    """Why a file with a column of one type cannot be read as that of another."""
    name = base_file_name(FILE_ID, "0-0-0", TIME)
    column = pa.nulls(1, pa.string()).cast(stored)
    pq.write_table(pa.table({meta_columns.RECORD_KEY: ["1"], "c": column}), folder / name)
    request = AdoptTable(
        CreateTable(
            name="shop.orders",
            base_path=str(folder),
            schema=[NewField("c", wanted)],
            record_key_fields=["c"],
        ),
        [AdoptedInstant(TIME, Action.COMMIT, TIME, write_stats=[WriteStat("", FILE_ID, name, 1, 1)])],
        "w",
    )
    return footers.check(request, Footers(pyarrow.fs.LocalFileSystem(), str(folder))).reasons


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.int32(), "string"),
        (pa.int64(), "string"),
        (pa.float32(), "string"),
        (pa.float64(), "string"),
        (pa.int64(), "double"),
        (pa.int64(), "float"),
        (pa.int32(), "float"),
    ],
)
def test_a_file_that_only_hudi_converts_is_refused(tmp_path: Path, stored: pa.DataType, wanted: str) -> None:
    [reason] = reasons(tmp_path, stored, wanted)
    assert f"its column 'c' is {stored}, and the table's is {wanted}" in reason


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.int32(), "bigint"),
        (pa.int32(), "double"),
        (pa.float32(), "double"),
        (pa.string(), "string"),
        (pa.decimal128(9, 2), "decimal(18,2)"),
    ],
)
def test_a_file_with_an_older_type_that_is_widened_exactly_comes_in(
    tmp_path: Path, stored: pa.DataType, wanted: str
) -> None:
    assert reasons(tmp_path, stored, wanted) == []
