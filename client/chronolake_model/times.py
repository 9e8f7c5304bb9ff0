"""Instant times: microseconds inside, Hudi's digits outside.

An instant's time is written as 17 digits, ``yyyyMMddHHmmssSSS``, for a table whose tick is a millisecond,
and as 20 digits (three more) for a tick of a microsecond; always UTC (Hudi: HoodieInstantTimeGenerator).
"""

from __future__ import annotations

import calendar
import enum
import functools
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol, runtime_checkable

Micros = NewType("Micros", int)
"""Microseconds since 1970-01-01T00:00:00 UTC."""

MICROS_PER_SECOND = 1_000_000
_MICROS_PER_MINUTE = 60 * MICROS_PER_SECOND
MICROS_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
TIME_FORMS = (
    "17 or 20 digits (yyyyMMddHHmmssSSS), or a date or a time like 2026-01-31 or 2026-01-31T10:00:00Z, in "
    "UTC unless it names another zone"
)
"""The texts that name a time."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

INSTANT_TIME_PATTERN = r"^[0-9]{17}([0-9]{3})?$"
READ_TIME_PATTERN = r"^([0-9]{17}([0-9]{3})?|earliest|latest)$"


class Bound(enum.StrEnum):
    """An end of what a table serves, which a reader may name in place of a completion time."""

    EARLIEST = "earliest"
    LATEST = "latest"


ReadTime = Micros | Bound
"""A completion time as readers give it."""


@runtime_checkable
class InstantTimes(Protocol):
    """The times of an instant, by which it is given as a time itself."""

    @property
    def requested_time(self) -> str:
        """When it was requested, in digits."""

    @property
    def completion_time(self) -> str | None:
        """When it completed, in digits; None if it has not."""


@runtime_checkable
class HasInstant(Protocol):
    """The result of a write, which is given as the time of its instant."""

    @property
    def instant(self) -> InstantTimes:
        """The instant."""


Moment = str | datetime | InstantTimes | HasInstant
"""A time as callers give it: an instant's digits, an ISO 8601 date or time as text, an aware datetime, an
instant, or the result of a write."""


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
    minute, micros = divmod(time, _MICROS_PER_MINUTE)
    if tick is Tick.MICROSECOND:
        return f"{_digits_of_minute(minute)}{micros:08}"
    return f"{_digits_of_minute(minute)}{micros // 1_000:05}"


def digits_of(moment: Moment) -> str:
    """A time in digits; the words of ``Bound`` stay as they are. An instant is its completion time.

    The result of a write stands for its instant.

    Raises ``ValueError`` for a text that is no time, for a datetime without a time zone, which would be another
    time on another machine, and for an instant that has not completed; ``TypeError`` for another type.
    """
    if isinstance(moment, str):
        return moment if moment in list(Bound) else _digits_of_text(moment)
    if isinstance(moment, datetime):
        return _digits_of_datetime(moment)
    moment = _instant_of(moment)
    if not isinstance(moment, InstantTimes):
        raise TypeError(
            f"a time is a text, an aware datetime or an instant, not {type(moment).__name__}: give {TIME_FORMS}"
        )
    if moment.completion_time is None:
        raise ValueError(f"the instant {moment.requested_time} has not completed, so it has no completion time")
    return moment.completion_time


def requested_digits_of(moment: Moment) -> str:
    """As ``digits_of``, but an instant is its requested time, also if it has not completed."""
    moment = _instant_of(moment)
    return moment.requested_time if isinstance(moment, InstantTimes) else digits_of(moment)


def _instant_of(moment: Moment) -> Moment:
    return moment.instant if isinstance(moment, HasInstant) else moment


def _digits_of_datetime(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: add the right one, such as moment.replace(tzinfo=UTC)")
    time = from_datetime(moment)
    return format_time(time, Tick.MICROSECOND if time % Tick.MILLISECOND.micros else Tick.MILLISECOND)


def _digits_of_text(text: str) -> str:
    if text.isdigit():
        parse_time(text)
        return text
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is no time: give {TIME_FORMS}; or {' or '.join(Bound)}") from None
    return _digits_of_datetime(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def parse_time(text: str) -> Micros:
    """The time that 17 or 20 digits name; raises ``ValueError`` when they name none."""
    if len(text) not in (17, 20) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"an instant time has 17 or 20 digits (yyyyMMddHHmmssSSS), not {text!r}")
    micros = int(text[12:]) if len(text) == 20 else int(text[12:]) * 1_000
    try:
        minute = _minute_of_digits(text[:12])
        if micros >= _MICROS_PER_MINUTE:
            raise ValueError("its seconds go from 00 to 59")
    except ValueError as exc:
        raise ValueError(f"{text[:14]!r} is not a time: {exc}") from None
    return Micros(minute * _MICROS_PER_MINUTE + micros)


def parse_read_time(text: str) -> ReadTime:
    """The completion time that a reader names, by its digits or by a word; raises ``ValueError``."""
    if text in list(Bound):
        return Bound(text)
    if text[:1].isdigit():
        return parse_time(text)
    words = " or ".join(Bound)
    raise ValueError(f"a completion time is 17 or 20 digits (yyyyMMddHHmmssSSS), {words}, not {text[:100]!r}")


# The times of one request are of few minutes, and the calendar is what costs.


@functools.lru_cache(maxsize=16_384)
def _digits_of_minute(minutes: int) -> str:
    # %Y is not padded below the year 1000 on every platform.
    return (_EPOCH + timedelta(minutes=minutes)).strftime("%Y%m%d%H%M").zfill(12)


@functools.lru_cache(maxsize=16_384)
def _minute_of_digits(digits: str) -> int:
    year = int(digits[:4])
    month, day, hour, minute = (int(digits[at : at + 2]) for at in range(4, 12, 2))
    if year < 1:
        raise ValueError("there is no year 0000")
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month:02d}")
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        raise ValueError(f"{year:04d}-{month:02d} has no day {day:02d}")
    if hour > 23:
        raise ValueError(f"there is no hour {hour:02d}")
    if minute > 59:
        raise ValueError(f"there is no minute {minute:02d}")
    return (datetime(year, month, day, hour, minute, tzinfo=UTC) - _EPOCH) // timedelta(minutes=1)
