"""The checker finds each fault in a history of a few lines, and nothing in one that is sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.history.findings import Fault
from tests.history.made_by_hand import (
    GROUP,
    ONE,
    OTHER_GROUP,
    TWO_INSTANTS,
    attempt,
    begin,
    command,
    complete,
    completed,
    faults,
    history,
    log,
    read,
    renewed,
    requested,
    rolled_back,
    snapshot,
    stretch,
    time,
)
from tests.history.records import Command, Kind, Log, Read, Stretch

SOUND = (
    begin("a", 1, called=10, returned=20),
    complete("b", 1, 2, called=30, returned=40),
    begin("c", 3, called=50, returned=60),
    complete("d", 3, 4, called=70, returned=80, groups=frozenset({OTHER_GROUP})),
)
"""The commands that made ``TWO_INSTANTS``, one after the other."""


def test_a_sound_history_has_no_faults() -> None:
    reads = [read(4, (1, 2), (3, 4)), read(4, (3, 4), after=2), snapshot(4, (GROUP, 1), (OTHER_GROUP, 3))]
    assert faults(history(*SOUND, reads=reads, stretch=stretch(1, 2, 3, 4)), TWO_INSTANTS) == set()


def test_a_server_that_failed_is_detected() -> None:
    failed = history()
    failed.failures.append("500")
    assert faults(failed, []) == {Fault.SERVER_FAILED}


def test_an_acknowledged_command_that_is_not_in_the_log_is_detected() -> None:
    assert faults(history(*SOUND), TWO_INSTANTS[:3]) == {Fault.LOST}


def test_a_command_that_took_effect_twice_is_detected() -> None:
    twice = log(requested("a", 1), requested("a", 2))
    assert faults(history(begin("a", 1, 10, 20)), twice) == {Fault.DOUBLED}


def test_a_command_without_an_answer_that_took_effect_twice_is_detected() -> None:
    unknown = command("h", Kind.HEARTBEAT, 1, attempt(30), attempt(40))
    twice = log(requested("a", 1), renewed("h", 1, 2), renewed("h", 1, 3))
    assert faults(history(unknown), twice) == {Fault.DOUBLED}


def test_a_servers_own_request_that_took_effect_twice_is_detected() -> None:
    twice = log(requested("a", 1), rolled_back("reaper", 1, 2), rolled_back("reaper", 1, 3))
    assert faults(history(), twice) == {Fault.DOUBLED}


def test_an_instant_that_completed_twice_is_detected() -> None:
    twice = log(requested("a", 1), completed("b", 1, 2), completed("c", 1, 3))
    assert faults(history(), twice) == {Fault.DOUBLED}


def test_a_command_without_an_answer_may_have_taken_effect_or_not() -> None:
    unknown = command("h", Kind.HEARTBEAT, 1, attempt(30))
    assert faults(history(unknown), log(requested("a", 1))) == set()
    assert faults(history(unknown), log(requested("a", 1), renewed("h", 1, 2))) == set()


def test_a_refused_command_that_took_effect_is_detected() -> None:
    refused = command("h", Kind.HEARTBEAT, 1, attempt(30, 40, 410))
    assert faults(history(refused), log(requested("a", 1), renewed("h", 1, 2))) == {Fault.REFUSED_YET_DONE}


def test_two_answers_to_one_key_are_detected() -> None:
    first, second = attempt(30, 40, requested_time=time(1)), attempt(50, 60, 409, code="illegal-transition")
    renewing = command("h", Kind.HEARTBEAT, 1, first, second)
    assert faults(history(renewing), log(requested("a", 1), renewed("h", 1, 2))) == {Fault.ANSWERS_DIFFER}


@pytest.mark.parametrize(
    "wrong",
    [
        begin("a", 9, 10, 20),
        complete("b", 1, 9, 30, 40),
        complete("b", 1, 2, 30, 40, frozenset({GROUP, OTHER_GROUP})),
        command("h", Kind.HEARTBEAT, 1, attempt(50, 60, requested_time=time(9))),
    ],
    ids=["requested time", "completion time", "file groups", "another instant"],
)
def test_an_answer_that_differs_from_the_log_is_detected(wrong: Command) -> None:
    events = log(requested("a", 1), completed("b", 1, 2), renewed("h", 1, 3))
    assert faults(history(wrong), events) == {Fault.ANSWER_IS_NOT_THE_LOGS}


def test_an_outcome_that_cannot_be_looked_up_is_detected() -> None:
    unknown = command("h", Kind.HEARTBEAT, 1, attempt(30))
    forgetful = history(unknown)
    forgetful.forgotten.append(unknown)
    assert faults(forgetful, log(requested("a", 1), renewed("h", 1, 2))) == {Fault.OUTCOME_FORGOTTEN}


def test_a_second_rollback_of_an_instant_need_not_be_in_the_log() -> None:
    again = command("r", Kind.ROLL_BACK, 1, attempt(30, 40, requested_time=time(1)))
    assert faults(history(again), log(requested("a", 1), rolled_back("reaper", 1, 2))) == set()
    assert faults(history(again), log(requested("a", 1))) == {Fault.LOST}


def test_a_time_earlier_than_one_already_returned_is_detected() -> None:
    earlier, later = begin("a", 2, 10, 20), begin("b", 1, 30, 40)
    assert Fault.REAL_TIME in faults(history(earlier, later), log(requested("b", 1), requested("a", 2)))


def test_commands_that_overlap_may_get_their_times_in_any_order() -> None:
    earlier, later = begin("a", 2, 10, 30), begin("b", 1, 20, 40)
    assert faults(history(earlier, later), log(requested("b", 1), requested("a", 2))) == set()


def test_an_unanswered_command_gets_no_earlier_time_than_one_that_had_returned() -> None:
    unknown = command("h", Kind.HEARTBEAT, 1, attempt(50))
    events = log(requested("a", 1), renewed("h", 1, 2), requested("b", 3))
    assert faults(history(begin("a", 1, 10, 20), begin("b", 3, 30, 40), unknown), events) == {Fault.REAL_TIME}


def test_a_clock_that_went_back_is_detected() -> None:
    assert faults(history(), log(requested("a", 2), requested("b", 1))) == {Fault.CLOCK_WENT_BACK}


def test_a_missing_version_is_detected() -> None:
    assert faults(history(), [TWO_INSTANTS[0], TWO_INSTANTS[2]]) == {Fault.VERSIONS_NOT_DENSE}


def test_a_completion_time_equal_to_the_requested_time_is_detected() -> None:
    events = log(requested("a", 1), completed("b", 1, 1))
    assert Fault.COMPLETED_TOO_EARLY in faults(history(), events)


def test_two_concurrent_writes_of_one_file_group_are_detected() -> None:
    events = log(requested("a", 1), requested("b", 2), completed("c", 1, 3), completed("d", 2, 4))
    assert faults(history(), events) == {Fault.CONFLICT}


def test_instants_that_wrote_one_file_group_one_after_the_other_are_no_conflict() -> None:
    events = log(requested("a", 1), completed("b", 1, 2), requested("c", 3), completed("d", 3, 4))
    assert faults(history(), events) == set()


def test_instants_that_appended_to_one_file_group_are_no_conflict() -> None:
    events = log(requested("a", 1), requested("b", 2), completed("c", 1, 3), completed("d", 2, 4))
    appended = [replace(event, groups=frozenset(), appended=event.groups) for event in events]
    assert faults(history(), appended) == set()


@pytest.mark.parametrize(
    "events",
    [
        log(requested("a", 1), rolled_back("b", 1, 2), completed("c", 1, 3)),
        log(requested("a", 1), completed("b", 1, 2), rolled_back("c", 1, 3)),
    ],
    ids=["completed at last", "rolled back at last"],
)
def test_an_instant_that_was_completed_and_rolled_back_is_detected(events: Log) -> None:
    assert faults(history(), events) == {Fault.LEFT_A_FINAL_STATE}


def test_a_restore_may_roll_back_completed_instants_but_none_completes_afterwards() -> None:
    begun = (requested("a", 1), completed("b", 1, 2), requested("c", 3), requested("r", 4, "restore"))
    restored = (rolled_back("r", 1, 5), rolled_back("r", 3, 6))
    assert faults(history(), log(*begun, *restored)) == set()
    assert faults(history(), log(*begun, *restored, completed("d", 3, 7))) == {Fault.LEFT_A_FINAL_STATE}


@pytest.mark.parametrize(
    "wrong",
    [
        read(4, (3, 4)),
        read(4, (3, 4), (1, 2)),
        read(4, (1, 2), (3, 4), (3, 4)),
        read(4, (1, 2), (3, 4), (7, 8)),
        read(4, (1, 2), after=2),
        snapshot(4, (GROUP, 1)),
        snapshot(4, (GROUP, 1), (OTHER_GROUP, 1)),
        snapshot(2, (GROUP, 1), (OTHER_GROUP, 3)),
    ],
    ids=["a hole", "another order", "twice", "invented", "below its range", "no file", "wrong file", "too new"],
)
def test_a_read_that_is_no_prefix_is_detected(wrong: Read) -> None:
    assert faults(history(reads=[wrong]), TWO_INSTANTS) == {Fault.NOT_A_PREFIX}


def test_a_later_base_file_hides_the_earlier_one_of_its_group() -> None:
    events = log(requested("a", 1), completed("b", 1, 2), requested("c", 3), completed("d", 3, 4, ONE))
    assert faults(history(reads=[snapshot(4, (GROUP, 3))]), events) == set()
    assert faults(history(reads=[snapshot(4, (GROUP, 1))]), events) == {Fault.NOT_A_PREFIX}


def test_a_reader_may_or_may_not_see_instants_that_write_nothing() -> None:
    events = log(requested("a", 1), requested("r", 2, "rollback"), completed("r", 2, 3, frozenset()))
    assert faults(history(reads=[read(3, (2, 3)), read(3)]), events) == set()


def test_a_read_that_shows_less_than_an_earlier_read_is_detected() -> None:
    earlier = read(4, (1, 2), (3, 4), called=100, returned=110)
    later = read(2, (1, 2), called=120, returned=130)
    assert faults(history(reads=[later, earlier]), TWO_INSTANTS) == {Fault.WENT_BACK}


def test_reads_that_overlap_may_show_more_or_less() -> None:
    earlier = read(4, (1, 2), (3, 4), called=100, returned=120)
    later = read(2, (1, 2), called=110, returned=130)
    assert faults(history(reads=[earlier, later]), TWO_INSTANTS) == set()


def test_a_read_without_an_acknowledged_instant_is_detected() -> None:
    assert faults(history(*SOUND, reads=[read(2, (1, 2))]), TWO_INSTANTS) == {Fault.STALE}


def test_a_reader_of_the_past_need_not_see_newer_instants() -> None:
    assert faults(history(*SOUND, reads=[read(2, (1, 2), of_the_past=True)]), TWO_INSTANTS) == set()


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (stretch(1, 2, 4), Fault.FEED_MISSED),
        (stretch(4, after=2), Fault.FEED_MISSED),
        (stretch(1, 2, until=4), Fault.FEED_MISSED),
        (stretch(1, 2, 2, 3), Fault.FEED_DOUBLED),
        (stretch(2, 3, after=2), Fault.FEED_DOUBLED),
        (stretch(1, 3, 2, 4), Fault.FEED_REORDERED),
        (replace(stretch(1), places=[("table 1", 1, "another content")]), Fault.FEED_INVENTED),
    ],
    ids=[
        "a hole",
        "after a break",
        "the end",
        "twice",
        "again after a break",
        "another order",
        "another event",
    ],
)
def test_a_feed_that_differs_from_the_log_is_detected(given: Stretch, fault: Fault) -> None:
    assert faults(history(stretch=given), TWO_INSTANTS) == {fault}


def test_a_follower_may_stop_anywhere_after_its_required_position() -> None:
    assert faults(history(stretch=stretch(2, 3, 4, after=1, until=3)), TWO_INSTANTS) == set()
    assert faults(history(stretch=stretch(after=4, until=3)), TWO_INSTANTS) == set()


def test_the_feed_of_all_tables_is_the_log_in_the_order_across_tables() -> None:
    elsewhere = replace(TWO_INSTANTS[0], table_id="table 2", hash="of table 2")
    both = [TWO_INSTANTS[0], elsewhere, *TWO_INSTANTS[1:]]
    given = Stretch("follower", places=[event.place for event in both])
    assert faults(history(stretch=given), both) == set()
    assert faults(history(stretch=given), [elsewhere, *TWO_INSTANTS]) == {Fault.FEED_REORDERED}
