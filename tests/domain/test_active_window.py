"""The active window: what leaves, what holds it, and how Hudi judges the files then."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import active_window, properties, publication
from chronolake_metastore.domain.active_window import Blocker, Border, Commit, HeldBy, Window
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.publication import Position
from chronolake_model.publication import (
    ACTIVE_HOURS_PROPERTY,
    KEEP_MAX_PROPERTY,
    KEEP_MIN_PROPERTY,
    PUBLISH_PROPERTY,
    HistoryFile,
    HistoryRange,
    PublishedHistory,
    ReportHistory,
)
from chronolake_model.tables import NewField
from chronolake_model.times import MICROS_PER_SECOND, Micros, format_time, parse_time
from chronolake_model.vocabulary import ADOPTED_PROPERTY, GRACE_PROPERTY

NOW = Micros(10**9)
KINDS = st.sampled_from([None, *HeldBy])


@st.composite
def timelines(draw: st.DrawFn) -> tuple[list[Commit], list[Blocker]]:
    """Instants in the order of their requested times: commits, what holds some, and what has not completed."""
    commits: list[Commit] = []
    blockers: list[Blocker] = []
    for number in range(draw(st.integers(0, 30))):
        requested = Micros(number * 10 + 1)
        kind = draw(KINDS)
        if kind not in (HeldBy.PENDING, HeldBy.UNDONE):
            commits.append(Commit(requested, Micros(requested + draw(st.integers(1, 100)))))
        if kind is not None and draw(st.booleans()):
            blockers.append(Blocker(kind, requested, None))
    return commits, blockers


@given(
    timelines(),
    st.integers(2, 20),
    st.integers(1, 19),
    st.integers(0, 400),
    st.one_of(st.none(), st.integers(2, 8)),
)
def test_what_leaves_is_a_prefix_that_nothing_holds_and_readers_judge_all_files_as_before(
    timeline: tuple[list[Commit], list[Blocker]], most: int, fewer: int, young: int, loaded: int | None
) -> None:
    commits, blockers = timeline
    window = Window(most, max(1, most - fewer), 0)
    now = Micros(max((commit.completion_time for commit in commits), default=0) - young)

    move = active_window.decide(window, commits[:loaded], len(commits), blockers, now)

    before = move.before or Micros(0)
    stay = [commit for commit in commits if commit.requested_time >= before]
    gone = [commit for commit in commits if commit.requested_time < before]
    if gone:
        assert len(commits) > window.max_commits
        assert len(stay) >= window.min_commits
        assert stay[0].requested_time == before
        assert all(commit.completion_time <= now for commit in gone)
    # The first commit on the timeline is not later than what holds it: an instant that is pending or undone
    # is not below it, where readers would take its files for committed ones.
    assert not gone or all(before <= blocker.bound for blocker in blockers)
    if move.blocker is not None:
        assert move.blocker.bound == min(blocker.bound for blocker in blockers)
        assert len(commits) > window.max_commits
    elif loaded is None and len(commits) > window.max_commits:
        # What stays is what the window keeps: nothing else.
        limit = len(commits) - window.min_commits
        expected = next((n for n, c in enumerate(commits[:limit]) if c.completion_time > now), limit)
        assert len(gone) == expected


@given(timelines(), st.integers(2, 10))
def test_after_a_move_there_is_nothing_more_to_move(
    timeline: tuple[list[Commit], list[Blocker]], most: int
) -> None:
    commits, blockers = timeline
    window = Window(most, most - 1, 0)
    move = active_window.decide(window, commits, len(commits), blockers, NOW)
    stay = [commit for commit in commits if commit.requested_time >= (move.before or 0)]
    held = [blocker for blocker in blockers if blocker.bound >= (move.before or 0)]
    assert active_window.decide(window, stay, len(stay), held, NOW).before is None


@pytest.mark.parametrize("held_by", HeldBy)
def test_the_instant_that_holds_the_timeline_is_named(held_by: HeldBy) -> None:
    commits = [Commit(Micros(n * 10), Micros(n * 10 + 5)) for n in range(1, 11)]
    blocker = Blocker(held_by, Micros(45), Micros(50))
    later = Blocker(HeldBy.SAVEPOINT, Micros(60), None)
    move = active_window.decide(Window(4, 2, 0), commits, 10, [later, blocker], NOW)
    assert move == active_window.Move(Micros(40), blocker)


def test_a_commit_stays_for_the_hours_of_the_window_and_the_grace_period_in_any_case() -> None:
    commits = [Commit(Micros(n), Micros(NOW - 3_600 * MICROS_PER_SECOND + n * 10)) for n in range(-5, 5)]
    stated = {KEEP_MAX_PROPERTY: "2", KEEP_MIN_PROPERTY: "1", ACTIVE_HOURS_PROPERTY: "1"}
    move = active_window.decide(Window.of(stated), commits, len(commits), [], NOW)
    assert move.before == 1
    assert Window.of({GRACE_PROPERTY: "7"}).seconds == 7
    assert Window.of({}).seconds == 900


def test_it_is_looked_at_after_half_of_what_may_leave() -> None:
    window = Window(30, 20, 0)
    assert not Border().is_due(window, 30)
    assert Border().is_due(window, 31)
    assert not Border(looked_version=31).is_due(window, 35)
    assert Border(looked_version=31).is_due(window, 36)


@pytest.mark.parametrize(
    "stated", [{KEEP_MAX_PROPERTY: "30"}, {KEEP_MAX_PROPERTY: "20", KEEP_MIN_PROPERTY: "20"}]
)
def test_a_window_that_keeps_no_fewer_than_it_may_have_is_refused(stated: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidTable, match=r"hoodie\.keep\.max\.commits is \d+, and hoodie\.keep\.min"):
        properties.check(stated)


def test_nothing_leaves_while_readers_do_not_see_the_table_or_look_for_its_history_elsewhere() -> None:
    position = Position(
        published_version=9,
        published_completion=Micros(9),
        published_at=None,
        hidden_until=None,
        epoch=1,
        publisher="p",
        lease_expires_at=None,
        paused_version=None,
        paused_reason=None,
        paused_since=None,
        failure=None,
        foreign_files=[],
        checked_at=None,
    )
    table = NewDefinition(
        name="shop.orders", base_path="/lake", schema=[NewField("id", "int")], record_key_fields=["id"]
    )
    adopted = msgspec.structs.replace(table, properties={ADOPTED_PROPERTY: "hoodie.table.name=x"})
    elsewhere = msgspec.structs.replace(
        table, properties={ADOPTED_PROPERTY: "hoodie.timeline.history.path=other"}
    )
    off = msgspec.structs.replace(table, properties={PUBLISH_PROPERTY: "false"})
    assert publication.may_archive(table, position)
    assert publication.may_archive(adopted, position)
    assert not publication.may_archive(elsewhere, position)
    assert not publication.may_archive(off, position)
    for change in ({"hidden_until": 12}, {"hidden_at": Micros(5)}, {"paused_version": 10}):
        assert not publication.may_archive(table, msgspec.structs.replace(position, **change))


def file(number: int, level: int) -> HistoryFile:
    begin, end = (f"202601010000{n:02}000" for n in (number, number + 1))
    return HistoryFile(f"{begin}_{begin}_{level}.parquet", 1, begin, end, level)


def test_ten_closed_files_of_the_history_become_one_and_the_last_one_is_written_again() -> None:
    """apache/hudi#2392: 30,000 files of archived instants. #17783: one large file ended all merges."""
    final, small = [file(n, 2) for n in range(2)], [file(n, 1) for n in range(2, 12)]
    before = "20260101000030000"

    def layout(files: list[HistoryFile], new: str = before) -> tuple[list[HistoryFile], list[HistoryRange]]:
        return active_window.layout(PublishedHistory("20260101000013000", 1, files), new)

    assert layout([*final, *small[:9], file(11, 0)]) == ([*final, *small[:9]], [])
    merged = HistoryRange(small[0].begin, small[-1].end, 2)
    assert layout([*final, *small, file(12, 0)]) == (final, [merged])
    assert layout(small) == ([], [merged])
    large = msgspec.structs.replace(small[5], size_bytes=1 << 40)
    assert layout([*small[:5], large, *small[6:]]) == ([], [merged])
    # Many came at once between them.
    assert layout([small[0], final[1], *small[1:]]) == ([small[0], final[1], *small[1:]], [])
    # Nothing has left meanwhile.
    unchanged = [*small, file(12, 0)]
    assert layout(unchanged, "20260101000013000") == (unchanged, [])
    assert active_window.layout(None, before) == ([], [])


def test_a_report_whose_files_leave_a_gap_is_refused() -> None:
    first = msgspec.structs.replace(file(0, 1), begin=format_time(Micros(0)))
    border = Border(before=parse_time("20260101000002000"))
    whole = PublishedHistory("20260101000002000", 1, [first, file(1, 0)])
    assert border.reported(ReportHistory(whole, is_complete=True)).written == whole
    for files in ([first], [file(1, 0)], []):
        gap = msgspec.structs.replace(whole, files=files)
        with pytest.raises(ValueError, match="by the last plan"):
            border.reported(ReportHistory(gap, is_complete=True))
    later = PublishedHistory("20260101000003000", 1, [first, file(1, 1), file(2, 0)])
    with pytest.raises(ValueError, match="by the last plan"):
        border.reported(ReportHistory(later, is_complete=True))
