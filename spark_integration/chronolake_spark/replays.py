"""Which batches of a stream are written already: decided by the last one that has completed. No I/O.

After a crash Spark writes at most its last batch again, with the same rows. A batch that is further behind is
another one with the same id: its checkpoint folder is new, or an older copy.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from chronolake_model.instants import Instant
from chronolake_spark import errors

QUERY: Final = "spark.query-id"
"""The extra metadata of the instant of a batch that has the id of the query."""
Replayed: TypeAlias = Literal["fail", "skip"]
_QUERY_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_query_id(name: str) -> bool:
    """Whether the name of a stream is the id of a query, because the user gave none."""
    return _QUERY_ID.fullmatch(name) is not None


def has_completed(
    stream: str, batch_id: int, last: Instant | None, query_id: str | None, replayed: Replayed
) -> bool:
    """Whether a batch is written, given the ``last`` instant of the stream that has completed.

    Raises ``StreamMismatch`` unless it is the last batch of the same query, or ``replayed`` says that batches
    with one id have the same rows.
    """
    if last is None or last.stream is None or batch_id > last.stream.checkpoint:
        return False
    writer = last.extra_metadata.get(QUERY)
    is_other = query_id is not None and writer is not None and writer != query_id
    if replayed == "skip" or (batch_id == last.stream.checkpoint and not is_other):
        return True
    by = "the query has a new checkpoint folder" if is_other else "the checkpoint folder is an older copy"
    raise errors.StreamMismatch(
        f"the stream {stream!r} of {last.table} has completed up to batch {last.stream.checkpoint}"
        f"{f', written by the query {writer}' if writer else ''}, so the rows of batch {batch_id} may be in "
        f"the table: {by}. Continue with the folder that the stream was written with; or give the stream "
        "another name, if all rows of this query are new; or set replayed to 'skip', if batches with one id "
        "always have the same rows",
        {"stream": stream, "batch": batch_id, "completed_batch": last.stream.checkpoint, "query": writer},
    )
