"""Compactions of adopted tables, whose index is simple: planned, published, completed, read by hudi-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import chronolake
from chronolake import Action
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import Options
from chronolake.slices import arrow_types, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake_hudi import metadata
from chronolake_hudi.metadata import CleanMetadata
from chronolake_model.file_names import base_file_name, relative_path
from chronolake_model.files import FileGroupName, FileSlice, WriteStat
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_by_slices, rows_of_hudi, unpacked
from tests.published import parquet


def adopted(client: chronolake.Client, namespace: str, path: Path) -> chronolake.Table:
    wanted = Options(name=f"{namespace}.{path.name}", base_path=str(path))
    return client.table(adopting.adopt(client, wanted).table)


def with_logs(table: chronolake.Table) -> list[FileSlice]:
    return [file_slice for file_slice in table.snapshot().slices if file_slice.log_files]


def plan(table: chronolake.Table) -> str:
    groups = [FileGroupName(part.partition_path, part.file_id) for part in with_logs(table)]
    planned = table.plan(Action.COMPACTION, groups)
    table.publish()
    return planned.requested_time


def compacted(table: chronolake.Table, path: Path, file_slice: FileSlice, requested: str) -> WriteStat:
    """Write the base file of a slice, with the rows that executors read."""
    definition = table.definition
    layout = arrow_types.file_layout(definition.schema)
    ordering = slice_reader.ordering_of(layout, definition.merge_fields)
    folder = TableFolder.of(definition.base_path, table.storage_options)
    reader = SliceReader(folder, layout, {1: definition.schema}, ordering)
    rows = pa.concat_tables(reader.rows(stored_slices.of(file_slice)))
    name = base_file_name(file_slice.file_id, "0-0-0", requested)
    body = parquet(rows)
    (path / relative_path(file_slice.partition_path, name)).write_bytes(body)
    return WriteStat(file_slice.partition_path, file_slice.file_id, name, len(body), len(rows))


def compact(table: chronolake.Table, path: Path, requested: str) -> None:
    slices = table.snapshot().slices
    with table.execute(requested) as write:
        assert write.instant.plan is not None
        names = write.instant.plan.file_groups
        for file_slice in slices:
            if FileGroupName(file_slice.partition_path, file_slice.file_id) in names:
                write.add(compacted(table, path, file_slice, requested))
    table.publish()


@pytest.mark.parametrize("name", ["mor8", "mor9", "logonly9", "logs6"])
def test_a_compaction_of_an_adopted_table_keeps_its_rows_for_each_reader(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    table = adopted(client, namespace, path)
    rows = rows_of_hudi(name)
    requested = plan(table)
    assert rows_by_hudi_rs(path) == rows_by_slices(table) == rows

    compact(table, path, requested)
    assert with_logs(table) == []
    assert rows_by_hudi_rs(path) == rows_by_slices(table) == rows

    table.clean(retain_commits=1)
    table.publish()
    assert rows_by_hudi_rs(path) == rows_by_slices(table) == rows
    [clean] = sorted(path.glob(".hoodie/**/*.clean"))[-1:]
    retained = metadata.decode(clean.read_bytes(), CleanMetadata, clean.name).earliest_commit_to_retain
    assert retained == requested


def test_a_plan_of_an_adopted_table_that_is_given_up_is_withdrawn(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("mor9", tmp_path)
    table = adopted(client, namespace, path)
    given_up = plan(table)
    table.rollback(given_up, writer="nobody", reason="nobody executes it")
    table.publish()
    assert not list(path.glob(f".hoodie/**/{given_up}.*"))
    assert rows_by_hudi_rs(path) == rows_by_slices(table) == rows_of_hudi("mor9")
    compact(table, path, plan(table))
    released = releasing.release(client, table.name)
    assert released.advice is not None
    assert rows_by_hudi_rs(path) == rows_of_hudi("mor9")
