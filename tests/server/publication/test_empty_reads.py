"""Reads of hudi-rs as the page on reading from Hudi shows them, also of no rows."""

from __future__ import annotations

import hudi
import pyarrow as pa
import pytest

from tests.published import PublishedTable, row


@pytest.mark.parametrize("as_of", [None, "20200101000000000"], ids=["rows", "no rows"])
def test_batches_become_a_table_with_the_schema_of_the_hudi_table(
    table: PublishedTable, as_of: str | None
) -> None:
    table.write(row(1))
    table.publish()
    read = hudi.HudiTable(table.location)
    options = hudi.HudiReadOptions()
    batches = read.read(options if as_of is None else options.with_as_of_timestamp(as_of))

    rows = pa.Table.from_batches(batches, read.get_schema_with_meta_fields())

    assert rows.column("id").to_pylist() == ([1] if as_of is None else [])
