"""The writer of ``df.writeStream.format("chronolake")``, as its options describe it, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import chronolake
from chronolake_spark import errors
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, WriteOperation
from chronolake_spark.stream import batch_writer
from chronolake_spark.stream.batch_writer import BatchWriter

OF_SPARK: Final = ("checkpointlocation", "queryname")
"""Options of each query, which are Spark's."""
_ASYNC: Final = "asyncprogresstracking"


def writer_of(options: FormatOptions) -> BatchWriter:
    """The function that the options describe. Raises ``InvalidOption``."""
    format_options.refuse_mode("append", options)
    format_options.refuse_read_options(options)
    if options.markers is not None:
        raise errors.InvalidOption(
            "the option markers is not for streams: set the property markers.type of the table"
        )
    how: dict[str, Any] = {}
    if options.operation is WriteOperation.INSERT:
        how["duplicates"] = options.duplicates or "fail"
    client = chronolake.connect(options.access, storage_options=options.storage_options or None)
    try:
        made = batch_writer.writer(
            options.table,
            options.operation.value,
            options.delete_when,
            stream=options.stream,
            pending_max=options.pending_max,
            row_order=options.row_order,
            on_conflict=options.on_conflict if "on_conflict" in options.given else "retry",
            merge_schema=options.merge_schema,
            services=options.services,
            replayed=options.replayed,
            client=client,
            **how,
        )
    except ValueError as exc:
        raise errors.InvalidOption(str(exc)) from None
    made.closes(client)
    return made


def refuse_asynchronous(options: Mapping[str, str]) -> None:
    """Raise ``InvalidOption`` if Spark would record the batches of the query later than it writes them."""
    given = [name.lower() for name, text in options.items() if text.lower() == "true"]
    if any(name.startswith((_ASYNC, f"_{_ASYNC}")) for name in given):
        raise errors.InvalidOption(
            "asynchronous progress tracking is refused: with it Spark does not record all batches, and after a "
            "crash it gives the id of a written batch to other rows, which would then be skipped. Leave the "
            "option asyncProgressTrackingEnabled out; pending_max makes batches short"
        )


def refuse_modes(output_mode: str, *, is_partitioned: bool) -> None:
    """Raise ``InvalidOption`` for an output mode and for partitions that a table does not take."""
    if is_partitioned:
        raise errors.InvalidOption(
            "leave partitionBy and clusterBy out: a table has the partition fields that it was made with "
            "(partition_fields of chronolake_spark.create_table)"
        )
    if output_mode.lower() == "complete":
        raise errors.InvalidOption(
            'the output mode complete writes the whole result in each batch: use .outputMode("update"), whose '
            "rows are upserted, or foreachBatch with SparkTable.overwrite"
        )
