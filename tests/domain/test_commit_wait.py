from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.domain.logs import Clock, commit_wait, drift, next_time
from chronolake_model.times import Micros, Tick

NOW: Final = Micros(1_800_000_000_000_000)
BOUND_US: Final = 1_000_000
HOUR_US: Final = 3_600_000_000


def a_clock(ahead_us: int, tick: Tick = Tick.MILLISECOND) -> Clock:
    return Clock(UUID(int=1), tick, Micros(NOW + ahead_us))


def ticked(clock: Clock, times: int, now: Micros = NOW) -> Clock:
    for _ in range(times):
        clock = msgspec.structs.replace(clock, last_time=next_time(clock, now))
    return clock


@pytest.mark.parametrize("behind_us", [HOUR_US, 1, 0])
def test_a_clock_that_follows_the_wall_waits_for_nothing(behind_us: int) -> None:
    before = a_clock(-behind_us)
    assert commit_wait(before, ticked(before, 1), NOW, BOUND_US) == 0


def test_a_clock_within_the_bound_waits_for_nothing() -> None:
    before = a_clock(BOUND_US - 10_000)
    assert commit_wait(before, ticked(before, 10), NOW, BOUND_US) == 0


def test_a_clock_beyond_the_bound_waits_until_it_is_back() -> None:
    before = a_clock(BOUND_US)
    assert commit_wait(before, ticked(before, 10), NOW, BOUND_US) == 10_000


def test_a_wall_set_back_by_an_hour_is_not_waited_for() -> None:
    before = a_clock(HOUR_US)
    assert commit_wait(before, ticked(before, 1), NOW, BOUND_US) == 4_000


def test_a_clock_that_did_not_move_waits_for_nothing() -> None:
    before = a_clock(HOUR_US)
    assert commit_wait(before, before, NOW, BOUND_US) == 0


@given(st.integers(1, 512), st.integers(1, 4), st.sampled_from(Tick))
def test_writers_that_wait_for_their_answers_keep_a_clock_near_the_bound(
    group: int, under_way: int, tick: Tick
) -> None:
    # Up to four groups at a time, each as large as can be, on a machine that takes no time at all.
    clock = a_clock(0, tick)
    free = [NOW] * under_way
    for _ in range(100):
        free.sort()
        now = free[0]
        before, clock = clock, ticked(clock, group, now)
        free[0] = Micros(now + commit_wait(before, clock, now, BOUND_US))
        slack = 2 * under_way * group * tick.micros
        assert drift(clock, now) <= BOUND_US + slack
