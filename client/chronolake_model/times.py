"""Instant times: microseconds inside, Hudi's digits outside.

An instant's time is written as 17 digits, ``yyyyMMddHHmmssSSS``, for a table whose tick is a millisecond,
and as 20 digits (three more) for a tick of a microsecond; always UTC (Hudi: HoodieInstantTimeGenerator).
"""

from __future__ import annotations

import calendar
import enum
import functools
import re
from datetime import UTC, datetime, timedelta
from typing import NewType

Micros = NewType("Micros", int)
"""Microseconds since 1970-01-01T00:00:00 UTC."""

MICROS_PER_SECOND = 1_000_000
MICROS_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
Moment = str | datetime
"""A time as callers give it: an instant's digits, or an aware datetime."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[0-9]{17}(?:[0-9]{3})?", re.ASCII)

INSTANT_TIME_PATTERN = r"^[0-9]{17}([0-9]{3})?$"


class Tick(enum.StrEnum):
    """The step of a table's clock, fixed when the table is created."""

    MILLISECOND = "1ms"
    MICROSECOND = "1us"

    @property
    def micros(self) -> int:
        """Microseconds in one tick."""
        return 1_000 if self is Tick.MILLISECOND else 1


def to_datetime(time: Micros) -> datetime:
    """The same moment as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=time)


def from_datetime(moment: datetime) -> Micros:
    """The same moment in microseconds; ``moment`` must be aware."""
    assert moment.tzinfo is not None
    return Micros((moment - _EPOCH) // timedelta(microseconds=1))


def format_time(time: Micros, tick: Tick = Tick.MILLISECOND) -> str:
    """Hudi's digits for ``time``: 17 for a millisecond tick, 20 for a microsecond tick.

    A finer time under a millisecond tick is cut, not rounded, so that order is kept.
    """
    seconds, micros = divmod(time, MICROS_PER_SECOND)
    if tick is Tick.MICROSECOND:
        return f"{_digits_of_second(seconds)}{micros:06}"
    return f"{_digits_of_second(seconds)}{micros // 1_000:03}"


def digits_of(moment: Moment) -> str:
    """A time in digits; those of an instant stay as they are, for the server to judge.

    Raises ``ValueError`` for a datetime without a time zone, which would be another time on another machine.
    """
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: say moment.replace(tzinfo=UTC), or whichever it is in")
    time = from_datetime(moment)
    return format_time(time, Tick.MICROSECOND if time % Tick.MILLISECOND.micros else Tick.MILLISECOND)


def _wrong_part(year: int, month: int, day: int, hour: int, minute: int) -> str:
    """Which part of the digits names no time; the seconds, if it is none of the others."""
    if year < 1:
        return "there is no year 0000"
    if not 1 <= month <= 12:
        return f"there is no month {month:02d}"
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        return f"{year:04d}-{month:02d} has no day {day:02d}"
    if hour > 23:
        return f"there is no hour {hour:02d}"
    return f"there is no minute {minute:02d}" if minute > 59 else "its seconds go from 00 to 59"


def parse_time(text: str) -> Micros:
    """The time that 17 or 20 digits name; raises ``ValueError`` when they name none."""
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"an instant time has 17 or 20 digits (yyyyMMddHHmmssSSS), not {text!r}")
    fraction = int(text[14:]) if len(text) == 20 else int(text[14:]) * 1_000
    return Micros(_second_of_digits(text[:14]) * MICROS_PER_SECOND + fraction)


# The times of one request are of few seconds, and the calendar is what costs.


@functools.lru_cache(maxsize=4_096)
def _digits_of_second(seconds: int) -> str:
    # %Y is not padded below the year 1000 on every platform.
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%S").zfill(14)


@functools.lru_cache(maxsize=4_096)
def _second_of_digits(digits: str) -> int:
    year = int(digits[:4])
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(4, 14, 2))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{digits!r} is no time: {_wrong_part(year, month, day, hour, minute)}") from None
    return (moment - _EPOCH) // timedelta(seconds=1)
