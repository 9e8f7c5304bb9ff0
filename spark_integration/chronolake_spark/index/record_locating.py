"""The file groups of rows in a table with a record index: the index catches up, then it is looked up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark.common.choices import Replaces
from chronolake_spark.driver import progress
from chronolake_spark.index import locating, record_jobs, unique_keys
from chronolake_spark.index.candidates import Candidates
from chronolake_spark.index.locating import Located
from chronolake_spark.index.record import manifests, record_index
from chronolake_spark.index.record.manifests import Manifest
from chronolake_spark.index.record.record_index import RecordIndex
from chronolake_spark.index.unique_keys import Treatment
from chronolake_spark.read import evolution
from chronolake_spark.read.slices import partial_snapshots
from chronolake_spark.read.slices.merge import Existing


@contextlib.contextmanager
def located(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, treatment: Treatment
) -> Iterator[Located]:
    """As ``locating.located``, with the record index. Raises ``DuplicateKeys`` for an overwrite."""
    nothing = Candidates(evolution.versions(table, definition, []))
    with contextlib.ExitStack() as kept:
        if treatment.existing is Existing.UNCHECKED:
            yield locating.assigned(rows, table, nothing)
            return
        rows = locating.persisted(rows, kept)
        index = RecordIndex(table)
        covered = partial_snapshots.last_completion(table, as_of)
        manifest = None
        if covered is not None and treatment.replaces is not Replaces.TABLE:
            progress.step("bring the record index up to date")
            manifest = _caught_up(index, rows.sparkSession, covered)
            progress.step("look up keys in the record index")
        indexed = unique_keys.IndexedTable(table, definition, as_of, index.folder, manifest)
        placed = unique_keys.placed(rows, indexed, treatment, kept)
        eligible = Candidates(nothing.written, placed.slices, fills_as_of=as_of)
        yield locating.assigned(placed.rows, table, nothing if treatment.replaces is not None else eligible)


def follow(spark: SparkSession, table: chronolake.Table) -> None:
    """As ``record_index.follow``, with Spark jobs for many records."""
    index_folder = manifests.index_folder_of(table.definition.table_id)
    record_index.follow(table, record_jobs.distributed(spark, index_folder))


def depends_on_reads(table: Table) -> bool:
    """Whether each write depends on what the table has.

    A record that moves is deleted by a log file, and an append to the same file group by another writer would
    bring it back.
    """
    return (
        table.index.type is IndexType.RECORD
        and table.type is TableType.MERGE_ON_READ
        and bool(table.partition_fields)
    )


def _caught_up(index: RecordIndex, spark: SparkSession, until: str | None) -> Manifest | None:
    return index.catch_up(until, distributed=record_jobs.distributed(spark, index.index_folder))
