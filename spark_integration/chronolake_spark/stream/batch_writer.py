"""The function for ``foreachBatch``: it writes each batch of a streaming query exactly once."""

from __future__ import annotations

import dataclasses
import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.writing import choices
from chronolake.writing.choices import Duplicates, OnConflict, Replayed, ServicesSwitch
from chronolake_model.instants import Instant
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_internals
from chronolake_spark.stream import batch_checks, failures, replays
from chronolake_spark.stream.batch_checks import BatchOperation
from chronolake_spark.stream.batches import BatchStream, StreamBatch
from chronolake_spark.stream.replays import Planned
from chronolake_spark.tables import SparkTable
from chronolake_spark.write import instant_options, writes
from chronolake_spark.write.instant_options import InstantOptions
from chronolake_spark.write.writes import Rows, WriteSettings

_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Spark makes the jobs of each run of a query a group."""
_LOG = logging.getLogger("chronolake.spark")


def writer(  # noqa: PLR0913  # one keyword per choice of the user
    table: str,
    operation: BatchOperation = "upsert",
    delete_when: str | Column | None = None,
    *,
    stream: str | None = None,
    pending_max: int = 0,
    duplicates: Duplicates = "fail",
    row_order: Sequence[str | Column] = (),
    on_conflict: OnConflict = "retry",
    merge_schema: bool = False,
    extra_metadata: Mapping[str, str] | None = None,
    services: ServicesSwitch | None = None,
    replayed: Replayed = "fail",
    url: str | chronolake.ServerAccess | None = None,
    client: chronolake.Client | None = None,
) -> BatchWriter:
    """A function for ``foreachBatch`` that writes each batch of a query as one instant, exactly once. ::

        query = (
            changes.writeStream.foreachBatch(chronolake_spark.writer("shop.orders", delete_when="op = 'D'"))
            .option("checkpointLocation", checkpoints)
            .start()
        )

    ``operation``, ``delete_when``, ``duplicates``, ``row_order``, ``on_conflict``, ``merge_schema``,
    ``services`` and ``extra_metadata`` are as in the methods of ``SparkTable``, except that a write that lost
    a conflict is repeated unless ``on_conflict`` is ``fail``.

    The batches are those of a ``stream`` of the table, which has the id of the query as its name unless you
    name it. A batch that comes again after a crash is found by the stream and its id, and writes nothing if it
    has completed. The id of a query is in its checkpoint folder: with a new folder it is another query, and
    without a name of the stream nothing shows what was written before. With a name such a query is refused,
    unless ``replayed`` is ``skip``: then batches whose ids have completed are skipped, whatever is in them.

    With ``pending_max`` the files of a batch are reported durably, and the batch ends; it completes while later
    batches are written, at most ``pending_max`` of them. Only where a batch reads nothing and cannot conflict:
    upserts, and deletes without an ordering field, into merge-on-read tables with a bucket index; and bulk
    inserts, unless the table has a record index, or is copy-on-write with a bucket index. After a crash such a
    batch completes with the first batch of the restarted query.

    The table is that of the metastore at ``url`` (see ``chronolake.connect``), or of ``client``.
    """
    choices.word("operation", operation, get_args(BatchOperation))
    choices.word("replayed", replayed, get_args(Replayed))
    batch_checks.refuse_arguments(operation, delete_when, row_order, merge_schema, pending_max)
    options: InstantOptions = {
        "on_conflict": on_conflict,
        "extra_metadata": extra_metadata,
        "services": services,
    }
    instant_options.check(options)
    how: dict[str, Any] = {**options}
    if operation != "delete":
        how["merge_schema"] = merge_schema
    if operation in ("upsert", "insert"):
        how["row_order"] = row_order
    if operation == "upsert":
        how["delete_when"] = delete_when
    if operation == "insert":
        how["duplicates"] = duplicates
    batches = BatchOfTable(operation, how)
    own = chronolake.connect(url) if client is None else client
    made = BatchWriter(table, batches, stream, pending_max, replayed, own)
    if client is None:
        made.closes(own)
    return made


class BatchWriter:
    """Writes the batches of a query. Made by ``writer``."""

    def __init__(
        self,
        table: str,
        batches: BatchOfTable,
        stream: str | None,
        pending_max: int,
        replayed: Replayed,
        client: chronolake.Client,
    ) -> None:
        self.table = table
        self._batches = batches
        self._name = stream
        self._pending_max = pending_max
        self._replayed: Replayed = replayed
        self._client = client
        self._run: tuple[str, str | None] | None = None
        self._stream: BatchStream | None = None

    def closes(self, client: chronolake.Client) -> None:
        """Close a client when this is not used any more: Spark does not say when a query has ended."""
        weakref.finalize(self, client.close)

    def check(self, frame: DataFrame | None = None) -> None:
        """Raise what each batch of a query would raise, as far as a request, and the plan of its frame, tell.

        Raises ``TableNotFound``, ``ConnectionFailed``, ``StreamMismatch`` and ``SchemaMismatch``.
        """
        table = self._client.table(self.table).definition
        batch_checks.refuse_table(table, self._batches.operation, self._batches.how, self._pending_max)
        delete_when = self._batches.how.get("delete_when")
        if frame is not None and isinstance(delete_when, str):
            with writes.unfit_as_mismatch(table):
                schema.refuse_no_condition(frame, sf.expr(delete_when), "delete_when")

    def __call__(self, batch: DataFrame, batch_id: int) -> Instant | None:
        """Write a batch; None if it was written before. Spark calls it.

        Raises what the operation raises, ``StreamFenced`` when another query has opened the stream since, and
        ``StreamMismatch``.
        """
        try:
            return self._written(batch, batch_id)
        except Exception as failure:  # the edge of this process: Spark gets it as a text
            raise failures.of(failure) from None

    def flush(self) -> None:
        """Wait until no batch of ``pending_max`` waits for its completion. Raises what made one fail."""
        if self._stream is not None:
            self._stream.flush()

    def _written(self, batch: DataFrame, batch_id: int) -> Instant | None:
        spark = batch.sparkSession
        table = self._client.table(self.table)
        stream = self._stream_of(spark.sparkContext, table)
        batch_checks.refuse_table(
            table.definition, self._batches.operation, self._batches.how, self._pending_max
        )
        planned = replays.Planned(batch_id, self._planned_ms(spark, batch_id))
        if stream.has_completed(planned):
            _LOG.info("%s: batch %d of the stream %s is written already", table.name, batch_id, stream.name)
            return None
        return self._batches.run(_BatchTable(spark, self._client, table, stream, planned), batch)

    @staticmethod
    def _planned_ms(spark: SparkSession, batch_id: int) -> int | None:
        query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
        return None if query_id is None else planned_ms(spark, query_id, batch_id)

    def _stream_of(self, context: SparkContext, table: chronolake.Table) -> BatchStream:
        """The stream of this run of the query: a later run opens it again."""
        query_id = context.getLocalProperty(_QUERY_ID)
        name = batch_checks.stream_name(self._name, query_id)
        run = name, context.getLocalProperty(_RUN_ID)
        if self._stream is None or run != self._run:
            self._refuse_second_writer(table, *run)
            self._run = run
            self._stream = BatchStream(
                table, name, query_id=query_id, pending_max=self._pending_max, replayed=self._replayed
            )
            # The client must not be closed while batches of the stream complete.
            self._stream.owner = self
        return self._stream

    def _refuse_second_writer(self, table: chronolake.Table, name: str, run_id: str | None) -> None:
        """Raise ``StreamMismatch`` if another writer of the same run has this stream.

        A batch that one of them has written would count as written for the other.
        """
        writer = _writers.setdefault((table.definition.table_id, name, run_id), self)
        if run_id is not None and writer is not self:
            raise errors.StreamMismatch(
                f"two writers of one query write the stream {name!r} of {table.name}: give each a stream "
                "of its own, chronolake_spark.writer(…, stream=…)",
                {"stream": name},
            )


_writers: weakref.WeakValueDictionary[tuple[str, str, str | None], BatchWriter] = weakref.WeakValueDictionary()
"""By table, stream and run of a query, the writer that writes it."""


@dataclasses.dataclass(frozen=True)
class BatchOfTable:
    """How a batch is written: the method of ``SparkTable``, and its keywords."""

    operation: BatchOperation
    how: Mapping[str, Any]

    def run(self, table: SparkTable, batch: DataFrame) -> Instant:
        """Write a batch."""
        instant: Instant = getattr(table, self.operation)(batch, **self.how)
        return instant


class _BatchTable(SparkTable):
    """A table whose next write is a batch of a stream."""

    def __init__(
        self,
        spark: SparkSession,
        client: chronolake.Client,
        table: chronolake.Table,
        stream: BatchStream,
        planned: Planned,
    ) -> None:
        super().__init__(spark, client, table)
        self._stream = stream
        self._planned = planned
        self._batch = StreamBatch(stream, planned)

    def _write(self, rows: Rows, settings: WriteSettings) -> Instant:  # type: ignore[explicit-override]
        metadata = instant_options.metadata_of(settings.options)
        metadata |= replays.metadata(self._stream.query_id, self._planned)
        options: InstantOptions = {**settings.options, "extra_metadata": metadata}
        return super()._write(rows, dataclasses.replace(settings, batch=self._batch, options=options))


def planned_ms(spark: SparkSession, query_id: str, batch_id: int) -> int | None:
    """When Spark planned a batch, in milliseconds since 1970; None, with a warning, if Spark does not tell it.

    Spark writes the ends of a batch to its offset log before the batch runs, with the time of the plan. A batch
    that comes again after a crash comes with this plan. If the log has lost it, Spark plans a batch of the same
    id anew, and it may have more rows.
    """
    try:
        return spark_internals.planned_ms(spark, query_id, batch_id)
    except Exception as exc:  # py4j has many errors: another Spark may keep its log elsewhere
        _LOG.warning(
            "Spark does not tell when it planned batch %d of the query %s (%s): if the checkpoint folder is "
            "replaced by an older copy that lacks the last batch, rows may be skipped",
            batch_id,
            query_id,
            str(exc).partition("\n")[0],
        )
        return None
