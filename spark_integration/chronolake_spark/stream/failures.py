"""The failures of batches as Spark gets them: when a query is stopped, Spark must know it by the text.

Spark searches the trace of a function for ``foreachBatch`` for the name of an interruption, with an expression
that overflows the stack on long traces (``StreamExecution.isInterruptionException``). Then the thread of the
query dies with that error instead of ending.
"""

from __future__ import annotations

import re
import traceback
from typing import Final

from chronolake.errors import ChronolakeError

_CALL: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling"
"""The beginning of Spark's expression."""
_INTERRUPTIONS: Final = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_REASON_CHARS_MAX: Final = 2_000
_CANCELLED: Final = re.compile(r"Job [^\n]* cancelled [^\n]*job group [^\n]*")


class QueryStopped(Exception):
    """The query was stopped while it wrote a batch."""


def reason_of(failure: Exception) -> str:
    """The reason of the rollback of a batch that has failed so."""
    shown = of(failure)
    if isinstance(shown, QueryStopped):
        return "the query was stopped while it wrote the batch"
    return f"{type(failure).__name__}: {failure}"[:_REASON_CHARS_MAX]


def of(failure: Exception) -> Exception:
    """The failure to raise instead, without what caused it: an interruption has a short text."""
    trace = "".join(traceback.format_exception(failure))
    for name in _INTERRUPTIONS:
        if name in trace:
            return QueryStopped(f"the query was stopped. {_CALL} Spark: {name}")
    if cancelled := _CANCELLED.search(trace):
        return QueryStopped(f"the query was stopped. org.apache.spark.SparkException: {cancelled[0][:500]}")
    if isinstance(failure, ChronolakeError) or _CALL not in trace:
        return failure
    # Its first lines say what failed.
    return RuntimeError(str(failure)[:2_000].replace(_CALL, "Spark failed while calling"))
