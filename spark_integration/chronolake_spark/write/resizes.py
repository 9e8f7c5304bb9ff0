"""Resizes: all records of a table with a bucket index are written into another number of buckets.

The server changes the table's definition when the instant completes (docs/decisions/0053). A record keeps its
commit time, so it is no change of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.slices import columns
from chronolake.slices.merge import Existing
from chronolake.writing import conflict_retries, counts
from chronolake.writing.choices import Replaces
from chronolake_model.files import FileGroupName
from chronolake_model.instants import FILE_GROUPS_MAX, Instant, Plan
from chronolake_model.markers import has_direct_markers
from chronolake_model.tables import BUCKETS_MAX, Table
from chronolake_model.vocabulary import Action, IndexType, Operation
from chronolake_spark import errors
from chronolake_spark.driver import progress, schema
from chronolake_spark.read import evolution, slice_frames
from chronolake_spark.read.evolution import Versions
from chronolake_spark.write import control_columns, instant_options, rollbacks, shuffles, writes
from chronolake_spark.write.instant_options import InstantOptions
from chronolake_spark.write.writes import WriteSettings


def run(
    spark: SparkSession,
    table: chronolake.Table,
    buckets: int,
    options: InstantOptions,
) -> Instant:
    """Resize a table, as one instant, and give it, completed. After a failure it is rolled back.

    Raises ``ValueError`` for an invalid number of buckets.
    """
    _refuse_no_number(buckets)
    instant_options.check(options)
    counts.check_metadata(instant_options.metadata_of(options))
    _refuse_unfit(table.reload().definition, buckets)
    table.claim_storage()

    def attempt(retries: int) -> Instant:
        rollbacks.finish(table)
        counted = {conflict_retries.RETRIES: str(retries)} if retries else {}
        settings = WriteSettings(
            operation=Operation.CLUSTER,
            existing=Existing.UNCHECKED,
            replaces=Replaces.TABLE,
            options=options,
        )
        return _run_once(spark, table, buckets, settings, counted)

    return conflict_retries.run(attempt, instant_options.on_conflict_of(options))


def _run_once(
    spark: SparkSession,
    table: chronolake.Table,
    buckets: int,
    settings: WriteSettings,
    counted: Mapping[str, str],
) -> Instant:
    groups = [FileGroupName(live.partition_path, live.file_id) for live in table.snapshot().slices]
    if len(groups) > FILE_GROUPS_MAX:
        raise errors.TableMismatch(
            f"{table.name} has {len(groups):,} file groups, and a resize replaces at most {FILE_GROUPS_MAX:,}: "
            "create a table with more buckets, and write the records into it"
        )
    plan = Plan(groups, buckets=buckets)
    with table.begin(action=Action.CLUSTERING, plan=plan, markers=settings.markers) as begun:
        if not has_direct_markers(table.definition, settings.markers):
            progress.begins_files(lambda: table.markers(begun.requested_time))
        # The server has compared the plan with the file groups of this moment.
        snapshot = table.snapshot(begun.requested_time)
        written = evolution.versions(table, table.reload().definition, snapshot.slices)
        resized = written.table.with_buckets(buckets)
        options = writes.options_of(table, resized, begun.instant, settings, counted, snapshot)
        with writes.completing(begun):
            rows = _stored_rows(slice_frames.records(spark, written, snapshot.slices, _names(written)), resized)
            writes.save(
                shuffles.by_file_group(rows, resized),
                table,
                msgspec.structs.replace(options, resizes_to=buckets),
            )
        return begun.refresh()


def _names(written: Versions) -> list[str]:
    return [*columns.META, *(field.name for field in written.table.schema)]


def _stored_rows(records: DataFrame, resized: Table) -> DataFrame:
    """Stored records as the writer takes them, each in its new bucket."""
    return records.select(
        columns.RECORD_KEY,
        columns.PARTITION_PATH,
        control_columns.bucket(resized),
        sf.lit(False).alias(columns.DELETE),
        columns.COMMIT_TIME,
        columns.COMMIT_SEQNO,
        *(sf.col(schema.quoted(field.name)) for field in resized.schema),
    )


def _refuse_no_number(buckets: object) -> None:
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= BUCKETS_MAX:
        raise ValueError(f"buckets is a number from 1 to {BUCKETS_MAX:,}, not {buckets!r}")


def _refuse_unfit(table: Table, buckets: int) -> None:
    if table.index.type is not IndexType.BUCKET:
        raise errors.TableMismatch(
            f"{table.name} has the index {table.index.type}, without buckets: the properties "
            "files.max-file-size and files.small-file-limit say how large its files become"
        )
    if table.index.buckets == buckets:
        raise errors.TableMismatch(
            f"{table.name} has {buckets} buckets already: there is nothing to resize", {"buckets": buckets}
        )
