from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.domain.logs import Clock, next_time
from chronolake_model.times import (
    MICROS_MAX,
    Micros,
    Moment,
    Tick,
    digits_of,
    format_time,
    from_datetime,
    parse_time,
    requested_digits_of,
    to_datetime,
)


class Times(NamedTuple):
    """The times of an instant."""

    requested_time: str
    completion_time: str | None


TIMES = st.integers(0, MICROS_MAX).map(Micros)
TICKS = st.sampled_from(Tick)


def test_a_time_is_written_in_hudis_seventeen_digits() -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
    assert format_time(from_datetime(moment)) == "20260203040506789"


def test_a_microsecond_tick_writes_twenty_digits() -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
    assert format_time(from_datetime(moment), Tick.MICROSECOND) == "20260203040506789012"


@given(TIMES)
def test_twenty_digits_hold_the_whole_time(time: Micros) -> None:
    assert parse_time(format_time(time, Tick.MICROSECOND)) == time
    assert from_datetime(to_datetime(time)) == time


@given(TIMES, TIMES, TICKS)
def test_digits_sort_as_times_do(first: Micros, second: Micros, tick: Tick) -> None:
    earlier, later = sorted((first, second))
    assert format_time(earlier, tick) <= format_time(later, tick)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026020304050678",
        "202602030405067890",
        "20261303040506789",
        "20260230040506789",
        "20260203240506789",
        "2026020304050678x",
        "٢٠٢٦٠٢٠٣٠٤٠٥٠٦٧٨٩",
        " 20260203040506789",
        "00000000000000000",
    ],
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


@given(TICKS, TIMES, st.lists(TIMES, max_size=20))
def test_a_clock_increases_for_any_readings_of_the_wall_clock(
    tick: Tick, start: Micros, walls: list[Micros]
) -> None:
    clock = Clock(UUID(int=1), tick, Micros(start - start % tick.micros))
    for wall in walls:
        time = next_time(clock, wall)
        assert time > clock.last_time
        assert time > wall - tick.micros
        assert time % tick.micros == 0
        clock = Clock(clock.table_id, tick, time)


@given(TICKS, TIMES, st.integers(1, 10**12))
def test_a_clock_behind_the_wall_clock_gives_the_wall_clocks_tick(tick: Tick, last: Micros, ahead: int) -> None:
    clock = Clock(UUID(int=1), tick, Micros(last - last % tick.micros))
    wall = Micros(clock.last_time + tick.micros + ahead)
    assert next_time(clock, wall) == wall - wall % tick.micros


def test_an_instant_is_its_completion_time_and_where_requested_times_are_meant_its_requested_time() -> None:
    pending = Times("20260101000000000", None)
    completed = Times("20260101000000000", "20260101000001000")
    assert digits_of(completed) == "20260101000001000"
    assert [requested_digits_of(each) for each in (pending, completed)] == ["20260101000000000"] * 2
    assert requested_digits_of("2026-01-01") == "20260101000000000"
    result = SimpleNamespace(instant=completed)
    assert (digits_of(result), requested_digits_of(result)) == ("20260101000001000", "20260101000000000")
    with pytest.raises(ValueError, match="the instant 20260101000000000 has not completed"):
        digits_of(pending)


@pytest.mark.parametrize(("moment", "name"), [(20261124115447491, "int"), (date(2026, 1, 1), "date")])
def test_a_time_of_another_type_is_refused_with_the_types_that_are_taken(moment: Moment, name: str) -> None:
    with pytest.raises(TypeError, match=f"an aware datetime or an instant, not {name}: give 17 or 20 digits"):
        digits_of(moment)
