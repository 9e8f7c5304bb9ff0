"""How many requests of a subject are recorded."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain import recent_records
from chronolake_metastore.domain.recent_records import RecentRecords
from tests.fix_clock import SettableClock

PER_HOUR, SAME_SECONDS = 20, 60.0
ORDERS = ("read", "shop.orders")


@pytest.fixture
def recorded(clock: SettableClock) -> RecentRecords:
    return RecentRecords(clock, PER_HOUR, SAME_SECONDS)


def test_a_subject_has_some_requests_recorded_in_an_hour(recorded: RecentRecords, clock: SettableClock) -> None:
    admitted = [recorded.admit("a", f"a»{number}") for number in range(PER_HOUR + 10)]
    assert sum(admitted) == PER_HOUR
    assert recorded.admit("b", "b»1")
    clock.now = 3_599
    assert not recorded.admit("a", "a»later")
    clock.now = 3_600
    assert recorded.admit("a", "a»later")


def test_a_request_whose_group_runs_again_is_recorded_again(recorded: RecentRecords) -> None:
    for number in range(PER_HOUR):
        recorded.admit("a", f"a»{number}")
    assert recorded.admit("a", "a»0")
    assert not recorded.admit("a", "a»more")


def test_requests_with_the_same_content_are_recorded_once_in_a_time(
    recorded: RecentRecords, clock: SettableClock
) -> None:
    assert recorded.admit("a", "a»1", ORDERS)
    assert not recorded.admit("a", "a»2", ORDERS)
    assert recorded.admit("a", "a»3", ("write", "shop.orders"))
    assert recorded.admit("b", "b»1", ORDERS)
    clock.now = SAME_SECONDS
    assert recorded.admit("a", "a»4", ORDERS)


def test_the_subjects_that_are_remembered_are_bounded(
    recorded: RecentRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_records, "SUBJECTS_MAX", 2)
    recorded.admit("a", "a»1", ORDERS)
    recorded.admit("b", "b»1", ORDERS)
    recorded.admit("a", "a»2", ORDERS)
    recorded.admit("c", "c»1", ORDERS)

    assert not recorded.admit("a", "a»3", ORDERS)
    assert recorded.admit("b", "b»2", ORDERS)
