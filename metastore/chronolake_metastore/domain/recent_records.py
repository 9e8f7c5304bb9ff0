"""Requests of its callers that a server has recorded lately, so that no caller can fill the log. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

SUBJECTS_MAX: Final = 1_000
_HOUR_SECONDS: Final = 3_600.0


class _Record(msgspec.Struct, frozen=True):
    request_id: str
    recorded_at: float
    content: Hashable


class RecentRecords:
    """The requests of one kind that one server recorded lately: ``per_hour`` of a subject.

    They are bounded for each subject: the log is append-only, so a known caller must not be able to fill it. Of
    requests with the same content one is recorded in ``same_seconds``.
    """

    def __init__(self, clock: Callable[[], float], per_hour: int, same_seconds: float) -> None:
        self._clock = clock
        self._per_hour = per_hour
        self._same_seconds = same_seconds
        self._of: dict[str, deque[_Record]] = {}

    def admit(self, subject: str, request_id: str, content: Hashable = None) -> bool:
        """Whether a request of a subject is to be recorded, and count it.

        A group may run again: a request that was admitted is admitted again. Without ``content`` it is like no
        other.
        """
        records = self._of_subject(subject)
        now = self._clock()
        _forget_old(records, now)
        if any(former.request_id == request_id for former in records):
            return True
        is_known = content is not None and any(
            former.content == content and now - former.recorded_at < self._same_seconds for former in records
        )
        if is_known or len(records) >= self._per_hour:
            return False
        records.append(_Record(request_id, now, content))
        return True

    def is_full(self, subject: str) -> bool:
        """Whether no further request of a subject is recorded now."""
        records = self._of.get(subject)
        if records is None:
            return False
        _forget_old(records, self._clock())
        return len(records) >= self._per_hour

    def _of_subject(self, subject: str) -> deque[_Record]:
        # The last subject is the last to be forgotten.
        records = self._of.pop(subject, None)
        if records is None:
            records = deque()
            if len(self._of) >= SUBJECTS_MAX:
                del self._of[next(iter(self._of))]
        self._of[subject] = records
        return records


def _forget_old(records: deque[_Record], now: float) -> None:
    while records and now - records[0].recorded_at >= _HOUR_SECONDS:
        records.popleft()
