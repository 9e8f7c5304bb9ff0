"""Hudi's Spark bundle reads published table services, and goes on with cleans and archival after a release."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import releasing
from chronolake_model.vocabulary import Action, TableType
from tests.hudi.hudi_spark import HudiFailed, HudiSpark
from tests.hudi.keyed_table import KeyedTable, assert_history_agrees, assert_readers_agree
from tests.hudi.stored_tables import insert, rows_by_hudi_rs, rows_of_hudi, unpacked
from tests.hudi.test_adopted_services import adopted, compact, plan
from tests.hudi.test_hudi_spark_adoption import written_with
from tests.hudi.test_published_services import clustered, plan_clustering, planned
from tests.published import row

pytestmark = pytest.mark.hudi_spark


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> KeyedTable:
    """A merge-on-read table with a log file in each of two partitions."""
    table = KeyedTable(client, tmp_path / "lake", TableType.MERGE_ON_READ)
    table.upsert(row(1), row(2), row(3, day="b"))
    table.upsert(row(1, name="y"), row(3, day="b", name="y"))
    table.publish()
    return table


def test_the_files_of_a_cancelled_clustering_are_never_read(hudi_spark: HudiSpark, table: KeyedTable) -> None:
    write = table.table.execute(plan_clustering(table))
    clustered(table, write)
    table.upsert(row(1, name="z"), row(5))
    assert_readers_agree(hudi_spark, table)
    table.table.finish_rollbacks()
    assert_readers_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)


def test_a_compaction_of_an_overwritten_file_group_repeats_no_row(
    hudi_spark: HudiSpark, table: KeyedTable
) -> None:
    compaction = planned(table, Action.COMPACTION)
    table.publish()
    with table.table.execute(compaction) as write:
        files = table.compacted(write)
        table.overwrite("a", row(7))
        assert_readers_agree(hudi_spark, table)
        table.add(write, files)
    assert_readers_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)


def test_an_empty_clean_leaves_all_rows_and_bounds_the_times_that_spark_reads(
    hudi_spark: HudiSpark, client: chronolake.Client, tmp_path: Path
) -> None:
    table = KeyedTable(client, tmp_path / "lake", TableType.COPY_ON_WRITE)
    first, *_ = [table.upsert(row(number, day=f"d{number}")) for number in range(3)]
    table.publish()
    assert table.table.clean(retain_commits=1) == []
    assert len(assert_readers_agree(hudi_spark, table)) == 3
    with pytest.raises(HudiFailed, match="Cleaner cleaned up the timestamp of interest"):
        table.of_java(hudi_spark, as__of__instant=first)


def test_after_a_release_hudi_cleans_and_archives_from_our_last_clean_on(
    hudi_spark: HudiSpark, client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("mor9", tmp_path)
    table = adopted(client, namespace, path)
    compact(table, path, plan(table))
    new = ["2026-01-01", 500, "new", 1.0, 99]
    insert(table, path, [new])
    table.publish()
    table.clean(retain_commits=1)
    table.publish()
    releasing.release(client, table.name)

    kept = {
        "hoodie__clean__commits__retained": "1",
        "hoodie__keep__min__commits": "2",
        "hoodie__keep__max__commits": "3",
        "hoodie__metadata__enable": "false",
    }
    updates = [["2026-01-01", 500, f"later {number}", 2.0, 100 + number] for number in range(5)]
    for update in updates:
        hudi_spark.write(path, [update], **written_with(table), **kept)
    rows = [*rows_of_hudi("mor9"), updates[-1]]
    assert hudi_spark.rows(path) == rows
    assert rows_by_hudi_rs(path) == rows
    assert list(path.glob(".hoodie/timeline/history/*.parquet")), "nothing was archived"
