"""The checker finds each fault of names and properties in a history of a few lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.history.findings import Fault
from tests.history.made_by_hand import (
    OTHER_TABLE_ID,
    TABLE,
    TABLE_ID,
    alter,
    altered,
    attempt,
    begin,
    command,
    complete,
    completed,
    created,
    faults,
    history,
    log,
    of_other_table,
    requested,
)
from tests.history.records import Command, History, Kind, Resolution

NEW = "shop.orders_new"
RENAMED = log(created(1), requested("a", 2), altered("r", 3, NEW, owner="ann"), completed("b", 2, 4))
"""An instant begins under the first name of its table, and completes under the second."""
BEGUN = begin("a", 2, called=10, returned=20)
RENAME = alter("r", TABLE, 30, 40, NEW, owner="ann")
COMPLETED = replace(complete("b", 2, 4, called=50, returned=60), table=NEW)


def resolved(
    name: str, called: int, returned: int, table_id: str | None = TABLE_ID, **properties: str
) -> Resolution:
    """The name was found to be that of the table."""
    return Resolution(name, table_id, True, called, returned, properties or None)


def not_found(name: str, called: int, returned: int, table_id: str | None = TABLE_ID) -> Resolution:
    """The name was found not to be that of the table; without an id, of no table."""
    return Resolution(name, table_id, False, called, returned)


def history_with(*resolutions: Resolution, rename: Command = RENAME) -> History:
    """The history of ``RENAMED``, in which clients also looked up names."""
    written = history(BEGUN, rename, COMPLETED)
    written.resolutions.extend(resolutions)
    return written


def test_a_sound_history_of_a_rename_has_no_faults() -> None:
    sound = [
        resolved(TABLE, 22, 28),
        resolved(TABLE, 22, 35),
        resolved(NEW, 35, 36, owner="ann"),
        resolved(NEW, 70, 80),
        not_found(TABLE, 35, 36),
        not_found(TABLE, 45, 50),
        not_found(NEW, 22, 28),
        not_found(TABLE, 45, 50, None),
        not_found(TABLE, 22, 28, OTHER_TABLE_ID),
    ]
    others = of_other_table(log(created(1, "shop.visits")))
    assert faults(history_with(*sound), RENAMED + others) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        resolved(TABLE, 45, 50),
        resolved(NEW, 22, 28),
        resolved(NEW, 45, 50, OTHER_TABLE_ID),
        resolved(NEW, 45, 50, owner="bob"),
        not_found(TABLE, 22, 28),
        not_found(NEW, 45, 50),
        not_found(NEW, 45, 50, None),
    ],
    ids=[
        "after it was given up",
        "before it was taken",
        "another table",
        "other properties",
        "before it was given up",
        "after it was taken",
        "no table at all",
    ],
)
def test_a_wrongly_resolved_name_is_detected(wrong: Resolution) -> None:
    assert faults(history_with(wrong), RENAMED) == {Fault.WRONG_NAME}


def test_a_rename_without_an_answer_is_dated_by_later_answers() -> None:
    unanswered = replace(RENAME, attempts=[attempt(30)])
    assert faults(history_with(resolved(TABLE, 45, 55), rename=unanswered), RENAMED) == set()
    assert faults(history_with(resolved(TABLE, 65, 70), rename=unanswered), RENAMED) == {Fault.WRONG_NAME}


def test_a_command_that_was_refused_under_the_name_of_its_table_is_detected() -> None:
    refused = attempt(22, 28, 404, code="table-not-found")
    renewing = command("h", Kind.HEARTBEAT, 2, refused)
    assert faults(history(BEGUN, RENAME, COMPLETED, renewing), RENAMED) == {Fault.WRONG_NAME}
    late = command("h", Kind.HEARTBEAT, 2, replace(refused, called=45, returned=50))
    assert faults(history(BEGUN, RENAME, COMPLETED, late), RENAMED) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        replace(COMPLETED, table=TABLE),
        replace(COMPLETED, table_id=OTHER_TABLE_ID),
        replace(COMPLETED, table_id=None, begun_by="of another table"),
    ],
    ids=["a name that it had no more", "another id", "an instant of another table"],
)
def test_a_command_that_took_effect_in_another_table_is_detected(wrong: Command) -> None:
    visits = "shop.visits"
    other = replace(begin("of another table", 2, 10, 20), table=visits, table_id=OTHER_TABLE_ID)
    others = of_other_table(log(created(1, visits), requested("of another table", 2)))
    assert faults(history(BEGUN, RENAME, wrong, other), RENAMED + others) == {Fault.WRONG_TABLE}


def test_a_table_that_took_a_name_still_in_use_is_detected() -> None:
    given_up = log(created(1), altered("r", 3, NEW))
    taken = of_other_table(log(created(1, "shop.visits"), altered("s", 4, TABLE)))
    early = of_other_table(log(created(1, "shop.visits"), altered("s", 3, TABLE)))
    assert faults(history(), given_up + taken) == set()
    assert faults(history(), given_up + early) == {Fault.TWO_HAD_ONE_NAME}
    assert faults(history(), given_up[:1] + taken) == {Fault.TWO_HAD_ONE_NAME}


def test_an_answer_to_a_change_that_differs_from_the_log_is_detected() -> None:
    wrong = alter("r", TABLE, 30, 40, NEW, owner="bob")
    assert faults(history(BEGUN, wrong, COMPLETED), RENAMED) == {Fault.ANSWER_IS_NOT_THE_LOGS}
