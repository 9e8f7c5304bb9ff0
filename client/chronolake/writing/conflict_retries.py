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
from chronolake.writing import choices
from chronolake.writing.choices import OnConflict
from chronolake_model.backoff import Backoff
from chronolake_model.vocabulary import RollbackCause

RETRIES: Final = "conflicts.retries"
"""The extra metadata of an instant that has the number of earlier tries, which lost a conflict."""
RETRIES_MAX: Final = 10
LOST: Final = (WriteConflict, InstantRolledBack)
"""The errors of a write that may be repeated."""
_BACKOFF: Final = Backoff(first_seconds=0.2, max_seconds=10.0)
_LOG = logging.getLogger("chronolake.writing")
_Result = TypeVar("_Result")


class ConflictRetries:
    """The retries of one write. ``done`` is their number so far."""

    def __init__(self, on_conflict: OnConflict) -> None:
        choices.word("on_conflict", on_conflict, get_args(OnConflict))
        self._max = RETRIES_MAX if on_conflict == "retry" else 0
        self.done = 0

    @property
    def metadata(self) -> dict[str, str]:
        """The extra metadata of the next try."""
        return {RETRIES: str(self.done)} if self.done else {}

    def pause_seconds(self, lost: WriteConflict | InstantRolledBack) -> float:
        """The pause before the write is repeated. Raises an error if it is not.

        A resize that the server rolled back, because a write completed first, has lost too.
        """
        if isinstance(lost, InstantRolledBack):
            if lost.context.get("cause") != RollbackCause.CONFLICT or self.done == self._max:
                raise lost
        elif self.done == self._max:
            raise self._advised(lost) from lost
        pause = _BACKOFF.pause_seconds(self.done, random.uniform(0.5, 1.0))
        self.done += 1
        _LOG.warning(
            "the write lost a conflict and is repeated in %.1f s (retry %d of %d): %s",
            pause,
            self.done,
            self._max,
            lost,
        )
        return pause

    def _advised(self, lost: WriteConflict) -> WriteConflict:
        """The conflict, with the advice for a write that was rolled back, not that for one that was not."""
        advice = "run it again, or write with on_conflict='retry'"
        if self._max:
            advice = f"all {self._max} retries lost too: run it again when fewer others write there"
        what, _, _ = str(lost).partition("; roll back")
        return WriteConflict(f"{what}. Nothing was written: {advice}", lost.problem)


def run(write: Callable[[int], _Result], on_conflict: OnConflict) -> _Result:
    """The result of ``write``, which gets the number of earlier tries.

    Raises the last ``WriteConflict`` or ``InstantRolledBack``; ``ValueError`` for another ``on_conflict``.
    """
    retries = ConflictRetries(on_conflict)
    while True:
        try:
            return write(retries.done)
        except LOST as lost:
            time.sleep(retries.pause_seconds(lost))
