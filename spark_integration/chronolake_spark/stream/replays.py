"""Batches of a stream that are written already: the last completed batch decides. No I/O.

After a crash Spark writes at most its last batch again, with the same rows. An earlier batch, or one that Spark
has planned at another time, is another one with the same id: its checkpoint folder is new, or an older copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from chronolake.writing.choices import Replayed
from chronolake_model.instants import Instant
from chronolake_model.streams import Stream
from chronolake_spark import errors

QUERY: Final = "spark.query-id"
"""The extra metadata of the instant of a batch that has the id of the query."""
PLANNED: Final = "spark.batch-planned-ms"
"""The extra metadata that has the time of Spark's plan of the batch, in milliseconds since 1970."""
_QUERY_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_query_id(name: str) -> bool:
    """Whether the name of a stream is the id of a query, because the user gave none."""
    return _QUERY_ID.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch as Spark gives it; ``planned_ms`` is the time of its plan in milliseconds, None if not known."""

    batch_id: int
    planned_ms: int | None = None


def metadata(query_id: str | None, batch: Planned) -> dict[str, str]:
    """The extra metadata of the instant of a batch, by which it is known again."""
    query = {} if query_id is None else {QUERY: query_id}
    return query if batch.planned_ms is None else {**query, PLANNED: str(batch.planned_ms)}


def has_completed(
    stream: str, batch: Planned, last: Instant | None, query_id: str | None, replayed: Replayed
) -> bool:
    """Whether a batch is written, given the ``last`` instant of the stream that has completed.

    Raises ``StreamMismatch`` unless it is the last batch of the same query with the same plan, or ``replayed``
    says that batches with one id have the same rows.
    """
    if last is None or last.stream is None or batch.batch_id > last.stream.checkpoint:
        return False
    if replayed == "skip":
        return True
    writer = last.extra_metadata.get(QUERY)
    if query_id is not None and writer is not None and writer != query_id:
        # Its folder may be new, or the first one, from which the other has taken over with replayed=skip.
        raise _behind(
            stream,
            batch,
            last,
            f"this is the query {query_id}, which has another checkpoint folder. The file metadata in a "
            "checkpoint folder has the id of its query",
        )
    if batch.batch_id < last.stream.checkpoint:
        raise _behind(stream, batch, last, "the checkpoint folder is an older copy")
    planned = last.extra_metadata.get(PLANNED)
    if planned is not None and batch.planned_ms is not None and int(planned) != batch.planned_ms:
        raise _planned_again(stream, batch, last, int(planned))
    return True


def promised_elsewhere(
    stream: str, batch: Planned, others: Iterable[Stream], query_id: str
) -> errors.StreamMismatch | None:
    """The error of a batch before which another stream of the same query has pending batches, if one has.

    Spark has recorded them as written. Only the next opening of that stream completes them: without it the
    server rolls them back later, and their rows are lost.
    """
    for other in others:
        pending = [
            each.checkpoint
            for each in other.checkpoints
            if each.checkpoint < batch.batch_id
            and any(report.extra_metadata.get(QUERY) == query_id for report in each.tasks.values())
        ]
        if pending:
            return errors.StreamMismatch(
                f"{len(pending)} batch(es) that this query has written into the stream {other.name!r} of "
                f"{other.table} are not complete, the first is batch {pending[0]}. Their rows would be lost if "
                f"the query continued with batch {batch.batch_id} in the stream {stream!r}: start it with the "
                f"stream {other.name!r}, let a batch complete, and change the name then",
                {"stream": stream, "batch": batch.batch_id, "pending_stream": other.name, "pending": pending},
            )
    return None


def _behind(stream: str, batch: Planned, last: Instant, why: str) -> errors.StreamMismatch:
    assert last.stream is not None
    writer = last.extra_metadata.get(QUERY)
    return errors.StreamMismatch(
        f"the stream {stream!r} of {last.table} has completed up to batch {last.stream.checkpoint}"
        f"{f', written by the query {writer}' if writer else ''}, so the rows of batch {batch.batch_id} may be "
        f"in the table: {why}. Continue with the folder that the stream was last written with; or give the "
        "stream another name, if all rows of this query are new; or set replayed to 'skip', if batches with "
        "one id always have the same rows",
        {
            "stream": stream,
            "batch": batch.batch_id,
            "completed_batch": last.stream.checkpoint,
            "query": writer,
        },
    )


def _planned_again(stream: str, batch: Planned, last: Instant, planned_ms: int) -> errors.StreamMismatch:
    return errors.StreamMismatch(
        f"batch {batch.batch_id} of the stream {stream!r} of {last.table} has completed, with the rows that "
        f"Spark had planned at {_utc(planned_ms)}. Spark has planned the batch again, at "
        f"{_utc(batch.planned_ms or 0)}, so it may have other rows: the checkpoint folder is an older copy, "
        "which lacks this batch. Nothing was written. Continue with the folder that the stream was written "
        "with. If it is lost, give the stream another name: the batch is written then, and the rows of it that "
        "are in the table come a second time, which is safe for upserts and deletes by key. Or set replayed to "
        "'skip', if batches with one id always have the same rows",
        {
            "stream": stream,
            "batch": batch.batch_id,
            "completed_plan_ms": planned_ms,
            "plan_ms": batch.planned_ms,
        },
    )


def _utc(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1_000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
