"""The retries of a write that lost a conflict: it is written again, on top of the winner's files.

A retry is another instant, and writes all file groups again. The instant that lost can never complete: it was
requested before the winner completed, so for Hudi's readers its base files would come before the winner's, and
its files cannot belong to another instant, because their names and their rows have its time.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar, get_args

from chronolake.errors import InstantRolledBack, WriteConflict
from chronolake_model.backoff import Backoff
from chronolake_model.vocabulary import RollbackCause
from chronolake_spark.common.choices import OnConflict

RETRIES: Final = "conflicts.retries"
"""The extra metadata of an instant that has the number of earlier tries, which lost a conflict."""
RETRIES_MAX: Final = 10
_BACKOFF: Final = Backoff(first_seconds=0.2, max_seconds=10.0)
_LOG = logging.getLogger("chronolake.spark")
_Result = TypeVar("_Result")


def run(write: Callable[[int], _Result], on_conflict: OnConflict) -> _Result:
    """The result of ``write``, which gets the number of earlier tries.

    A resize that the server rolled back, because a write completed first, has lost too. Raises the last
    ``WriteConflict`` or ``InstantRolledBack`` after ``RETRIES_MAX`` retries; ``ValueError`` for another
    ``on_conflict``.
    """
    if on_conflict not in get_args(OnConflict):
        raise ValueError(f"on_conflict is 'fail' or 'retry', not {on_conflict!r}")
    if on_conflict == "fail":
        return _once(write)
    return _repeated(write, RETRIES_MAX)


def _once(write: Callable[[int], _Result]) -> _Result:
    try:
        return write(0)
    except WriteConflict as lost:
        raise _advised(lost, "run it again, or write with on_conflict='retry'") from lost


def _repeated(write: Callable[[int], _Result], retries_max: int) -> _Result:
    for retries in range(retries_max):
        try:
            return write(retries)
        except (WriteConflict, InstantRolledBack) as lost:
            if isinstance(lost, InstantRolledBack) and lost.context.get("cause") != RollbackCause.CONFLICT:
                raise
            pause = _BACKOFF.pause_seconds(retries, random.uniform(0.5, 1.0))
            _LOG.warning(
                "the write lost a conflict and is repeated in %.1f s (retry %d of %d): %s",
                pause,
                retries + 1,
                retries_max,
                lost,
            )
            time.sleep(pause)
    try:
        return write(retries_max)
    except WriteConflict as lost:
        advice = f"all {retries_max} retries lost too: run it again when fewer others write there"
        raise _advised(lost, advice) from lost


def _advised(lost: WriteConflict, advice: str) -> WriteConflict:
    """The conflict, with the advice for a write that was rolled back, in place of that for one that was not."""
    what, _, _ = str(lost).partition("; roll back")
    return WriteConflict(f"{what}. Nothing was written: {advice}", lost.problem)
