"""The first event that a table needs: not after any cause, and the same if the causes are the same."""

from __future__ import annotations

import uuid
from typing import Final

import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.domain import event_holders
from chronolake_metastore.domain.event_holders import EventHolder
from chronolake_metastore.domain.needed_events import BEGINNING, Causes, Need, need, need_for_blockers
from chronolake_model.times import Micros

BLOCKERS: Final = ("pending", "undone", "savepoint", "replaced", "retained", "last_write", "history_before")
WINDOW: Final = ("recent", "fewest")
TIMES: Final = st.one_of(st.none(), st.integers(1, 100).map(Micros))
BOUNDS: Final = st.builds(
    Causes,
    table_id=st.just(uuid.UUID(int=1)),
    version=st.integers(1, 100),
    is_dropped=st.booleans(),
    published_version=st.one_of(st.none(), st.integers(0, 100)),
    window_commits=st.integers(0, 3),
    **dict.fromkeys((*BLOCKERS, *WINDOW), TIMES),
)


@given(BOUNDS)
def test_no_live_table_gives_up_an_event_after_a_cause_or_its_last_one(bounds: Causes) -> None:
    needed = need(bounds)
    assert needed.version <= bounds.version
    names = [name for name in (*BLOCKERS, *WINDOW) if bounds.published_version or name != "history_before"]
    causes = [time for name in names if (time := getattr(bounds, name)) is not None]
    if not bounds.is_dropped and causes:
        assert needed.since is not None
        assert needed.since <= min(causes)
    if bounds.published_version:
        assert needed.version <= bounds.published_version + 1


@given(BOUNDS)
def test_a_dropped_table_needs_what_is_pending_undone_or_not_published(bounds: Causes) -> None:
    dropped = msgspec.structs.replace(bounds, is_dropped=True)
    needed = need(dropped)
    causes = [time for time in (bounds.pending, bounds.undone) if time is not None]
    assert needed.since == min(causes, default=None)
    assert needed.version == min(bounds.version, (bounds.published_version or bounds.version) + 1)


@given(BOUNDS)
def test_a_table_that_readers_of_hudi_do_not_see_needs_nothing_for_publication(bounds: Causes) -> None:
    unpublished = [msgspec.structs.replace(bounds, published_version=version) for version in (None, 0)]
    for seen in unpublished:
        needed = need(msgspec.structs.replace(seen, history_before=None))
        assert need(seen) == needed
        assert needed.version == bounds.version


@given(BOUNDS, st.sampled_from([*BLOCKERS, *WINDOW]), TIMES)
def test_a_further_cause_keeps_no_fewer_events(bounds: Causes, cause: str, time: Micros | None) -> None:
    present = getattr(bounds, cause)
    if present is None and cause not in ("history_before", "fewest") and time is not None:
        more = msgspec.structs.replace(bounds, **{cause: time})
        assert need(more).covers(need(bounds))


@given(BOUNDS)
def test_the_events_for_the_window_and_the_blockers_are_enough_for_the_blockers(bounds: Causes) -> None:
    assert need(bounds).covers(need_for_blockers(bounds))


@given(TIMES, TIMES, st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(1, 100), min_size=1))
def test_what_is_covered_begins_no_earlier(
    time: Micros | None, other_time: Micros | None, version: int, other_version: int, gaps: list[int]
) -> None:
    """Versions follow times as in any log."""
    times = [sum(gaps[: number + 1]) for number in range(len(gaps))]

    def first(needed: Need) -> int:
        since = needed.since
        found = None if since is None else 1 + sum(time < since for time in times)
        return needed.first_version(found)

    covering, covered = Need(time, version), Need(other_time, other_version)
    if covering.covers(covered):
        assert first(covering) <= first(covered)


@given(BOUNDS)
def test_the_cause_is_named_of_each_first_needed_event(bounds: Causes) -> None:
    needed = need(bounds)
    named = [time for time in event_holders.times_by_cause(bounds).values() if time is not None]
    assert needed.since == min(named, default=None)
    for first in {needed.version, 1} if needed.since is not None else {needed.version}:
        held_by, since = event_holders.holder(bounds, first)
        is_by_version = held_by in (EventHolder.PUBLICATION, EventHolder.LAST_EVENT)
        assert since == (None if is_by_version else needed.since)
        assert held_by in event_holders.ADVICE


@pytest.mark.parametrize("field", ["fewest", "history_before"])
def test_a_table_with_fewer_commits_than_its_window_keeps_all_events(field: str) -> None:
    bounds = Causes(
        uuid.UUID(int=1), 9, is_dropped=False, published_version=9, history_before=Micros(5),
        window_commits=3,
        fewest=Micros(6), last_write=Micros(7),
    )  # fmt: skip
    assert need(bounds) == Need(Micros(5), 9)
    assert need(msgspec.structs.replace(bounds, **{field: None})).since == BEGINNING
