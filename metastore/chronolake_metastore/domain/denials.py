"""Denials: requests of known callers that lack a right. A few of each subject are recorded. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command

RECORDED_PER_HOUR: Final = 100
"""The number of denials of one subject that a server records in an hour."""
SAME_SECONDS: Final = 60.0
"""Reads and notes that lack the same right on the same names are recorded once in this time."""
SUBJECTS_MAX: Final = 1_000
_HOUR_SECONDS: Final = 3_600.0


class RecordDenial(Command, frozen=True):
    """Record that a read or a note was denied. The command is always refused.

    ``denied`` is the name of the read or note. ``on`` is the pattern on which its caller lacks the ``right``;
    none for what concerns the metastore itself.
    """

    denied: str
    right: str
    on: str | None
    detail: str


def denial_of(exc: errors.TimelineError) -> errors.Forbidden | None:
    """The right that the caller lacks, if that is why its request was refused."""
    return exc if isinstance(exc, errors.Forbidden) else exc.denial


class _Recorded(msgspec.Struct, frozen=True):
    request_id: str
    recorded_at: float
    lacks: tuple[str, str | None] | None
    """The right that a read or a note lacks, and where."""


class RecordedDenials:
    """The denials that one server recorded lately.

    They are bounded for each subject: the log is append-only, so a known caller must not be able to fill it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of: dict[str, deque[_Recorded]] = {}

    def admit(self, subject: str, request_id: str, lacks: tuple[str, str | None] | None = None) -> bool:
        """Whether a denial of a subject is to be recorded, and count it.

        A group may run again: a request that was admitted is admitted again. ``lacks`` is given for a read or
        a note.
        """
        recorded = self._of_subject(subject)
        now = self._clock()
        _forget_old(recorded, now)
        if any(former.request_id == request_id for former in recorded):
            return True
        is_known = lacks is not None and any(
            former.lacks == lacks and now - former.recorded_at < SAME_SECONDS for former in recorded
        )
        if is_known or len(recorded) >= RECORDED_PER_HOUR:
            return False
        recorded.append(_Recorded(request_id, now, lacks))
        return True

    def is_full(self, subject: str) -> bool:
        """Whether no further denial of a subject is recorded now."""
        recorded = self._of.get(subject)
        if recorded is None:
            return False
        _forget_old(recorded, self._clock())
        return len(recorded) >= RECORDED_PER_HOUR

    def _of_subject(self, subject: str) -> deque[_Recorded]:
        # The last subject is the last to be forgotten.
        recorded = self._of.pop(subject, None)
        if recorded is None:
            recorded = deque()
            if len(self._of) >= SUBJECTS_MAX:
                del self._of[next(iter(self._of))]
        self._of[subject] = recorded
        return recorded


def _forget_old(recorded: deque[_Recorded], now: float) -> None:
    while recorded and now - recorded[0].recorded_at >= _HOUR_SECONDS:
        recorded.popleft()
