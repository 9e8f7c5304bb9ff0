"""The writer ``examples/writers/adopted_writer.py``: upserts into adopted tables, as both readers see them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import adopted_writer
import chronolake
from chronolake.hudi import adopting
from chronolake.hudi.definitions import Options
from tests.hudi import stored_tables
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_by_snapshot, unpacked


@pytest.mark.parametrize("name", ["cow8", "cow9", "plain8"])
def test_the_example_writer_updates_records_in_their_file_groups(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    adopted = adopting.adopt(client, Options(name=f"{namespace}.{name}", base_path=str(path)))
    table = client.table(adopted.table)
    before, groups = rows_by_snapshot(table, path), groups_of(table)
    findings = [total.kind for total in table.check().totals]
    partition_path = stored_tables.partition_of(table)
    day = "2026-01-01"
    stored = next(row for row in before if row[0] == day)
    rows = [[day, stored[1], "updated", 7.0, 99], [day, 500, "inserted", 8.0, 99]]

    columns = dict(zip(stored_tables.COLUMNS, zip(*rows, strict=True), strict=True))
    upserted = pa.table({name: list(column) for name, column in columns.items()})
    adopted_writer.upsert(table, partition_path, upserted)
    table.publish()

    expected = sorted([*(row for row in before if row[1] != stored[1]), *rows], key=lambda row: row[1])
    assert rows_by_snapshot(table, path) == expected
    assert rows_by_hudi_rs(path) == expected
    assert len(groups_of(table) - groups) == 1
    assert [total.kind for total in table.check().totals] == findings


def groups_of(table: chronolake.Table) -> set[str]:
    """The file ids of the snapshot."""
    return {file_slice.file_id for file_slice in table.snapshot().slices}
