"""When Spark planned a batch of a streaming query, as its checkpoint folder has it.

Spark writes the ends of a batch to its offset log before the batch runs, with the time of the plan. A batch
that comes again after a crash comes with this plan. If the log has lost it, Spark plans a batch of the same id
anew, and it may have more rows.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

_LOG = logging.getLogger("chronolake.spark")


def planned_ms(spark: SparkSession, query_id: str, batch_id: int) -> int | None:
    """The time of the plan in milliseconds since 1970; None, with a warning, if this Spark does not tell it."""
    try:
        state = spark._jsparkSession.sharedState()
        query = state.activeStreamingQueries().get(spark._jvm.java.util.UUID.fromString(query_id))
        return int(query.offsetLog().offsetSeqMetadataForBatchId(batch_id).get().batchTimestampMs())
    except Exception as exc:  # py4j has many errors: another Spark may keep its log elsewhere
        _LOG.warning(
            "Spark does not tell when it planned batch %d of the query %s (%s): if the checkpoint folder is "
            "replaced by an older copy that lacks the last batch, rows may be skipped",
            batch_id,
            query_id,
            str(exc).partition("\n")[0],
        )
        return None
