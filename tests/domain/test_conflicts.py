"""The conflict table, action x action, cell by cell: an instant against completed and planned ones."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts, tables
from chronolake_metastore.domain.actions import RULES
from chronolake_metastore.domain.conflicts import COMPLETED, PENDING, ConcurrentInstant, GroupChange
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.properties import YIELDS_PROPERTY
from chronolake_metastore.domain.tables import Table
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.tables import NewField
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action, Operation, State, Touch, Yields

TICK: Final = 1_000
MINE: Final = Micros(1_800_000_000_000_000)
NOW: Final = Micros(MINE + 100 * TICK)
BEFORE, AFTER, LATER = (Micros(MINE + step * TICK) for step in (-10, 10, 20))
LONG_BEFORE: Final = Micros(MINE - 20 * TICK)
NAME: Final = FileGroupName("day=1", bucket_file_id(3))
TABLE: Final = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders", base_path="/lake", schema=[NewField("id", "int")], record_key_fields=["id"]
        )
    ),
    UUID(int=7),
    LONG_BEFORE,
)
GROUP: Final = FileGroup(TABLE.table_id, NAME.partition_path, NAME.file_id)

DEEDS: Final = {
    "append": GroupChange.APPEND,
    "write": GroupChange.WRITE,
    "replace": GroupChange.REPLACE,
    "cluster": GroupChange.CLUSTER,
    "compact": GroupChange.COMPACT,
    "log compact": GroupChange.LOG_COMPACT,
}

# A row for the completing instant, a column for the other; the two change one file group. Each cell has three
# answers. The other completed before mine was requested; it was pending then and has completed since; it was
# requested later and has completed since. X is a conflict.
_COMPLETED: Final = """
             append  write  replace  cluster  compact  log compact
append       ...     ...    XXX      XXX      ...      ...
write        .XX     .XX    XXX      XXX      ..X      .XX
replace      .XX     .XX    XXX      XXX      ..X      ...
cluster      .XX     .XX    XXX      XXX      ..X      ...
compact      ...     .XX    ...      ...      ...      ...
log compact  ...     .XX    ...      ...      ..X      ...
"""
# For each pending other: requested before me, and requested after me.
_PENDING: Final = {
    Yields.TABLE_SERVICE: """
             append  write  replace  cluster  compact  log compact
append       ..      ..     ..       ..       ..       ..
write        ..      ..     ..       ..       ..       ..
replace      ..      ..     ..       ..       ..       ..
cluster      XX      XX     XX       ..       ..       ..
compact      ..      ..     ..       ..       ..       ..
log compact  ..      ..     ..       ..       ..       ..
""",
    Yields.WRITER: """
             append  write  replace  cluster  compact  log compact
append       ..      ..     .X       XX       ..       ..
write        ..      ..     .X       XX       .X       ..
replace      ..      ..     .X       XX       .X       ..
cluster      ..      ..     ..       ..       ..       ..
compact      ..      ..     ..       ..       ..       ..
log compact  ..      ..     ..       ..       ..       ..
""",
}


def cells(table: str) -> list[tuple[str, str, str]]:
    """Each cell as (the completing instant, the other, the answers)."""
    _, *rows = table.strip().splitlines()
    names = list(DEEDS)
    split = [(row[:13].strip(), row[13:].split()) for row in rows]
    return [(mine, other, cell) for mine, answers in split for other, cell in zip(names, answers, strict=True)]


def completed(change: GroupChange, requested: Micros, at: Micros) -> ConcurrentInstant:
    return ConcurrentInstant(change, Action.COMMIT, State.COMPLETED, requested, at)


def conflict_with(mine: GroupChange, other: ConcurrentInstant, table: Table = TABLE) -> bool:
    return conflicts.find(table, MINE, [(mine, NAME)], {GROUP: (other,)}, NOW) is not None


def yielding(yields: Yields) -> Table:
    definition = msgspec.structs.replace(TABLE.definition, properties={YIELDS_PROPERTY: yields})
    return msgspec.structs.replace(TABLE, definition=definition)


@pytest.mark.parametrize(("mine", "other", "answers"), cells(_COMPLETED))
def test_conflicts_with_completed_instants(mine: str, other: str, answers: str) -> None:
    change = DEEDS[other]
    cases = [
        completed(change, LONG_BEFORE, BEFORE),
        completed(change, BEFORE, AFTER),
        completed(change, AFTER, LATER),
    ]
    assert [conflict_with(DEEDS[mine], case) for case in cases] == [answer == "X" for answer in answers]


@pytest.mark.parametrize("yields", list(Yields))
@pytest.mark.parametrize(("mine", "other"), [(mine, other) for mine, other, _ in cells(_COMPLETED)])
def test_conflicts_with_plans(yields: Yields, mine: str, other: str) -> None:
    [answers] = [cell for row, column, cell in cells(_PENDING[yields]) if (row, column) == (mine, other)]
    cases = [
        ConcurrentInstant(
            DEEDS[other], Action.COMMIT, State.INFLIGHT, requested, lease_expires_at=Micros(NOW + 1)
        )
        for requested in (BEFORE, AFTER)
    ]
    refused = [conflict_with(DEEDS[mine], case, yielding(yields)) for case in cases]
    assert refused == [answer == "X" for answer in answers]


def test_no_cell_is_left_out() -> None:
    for table in (COMPLETED, *PENDING.values()):
        assert set(table) == set(GroupChange)
        assert all(set(row) == set(GroupChange) for row in table.values())


@pytest.mark.parametrize("action", [action for action in Action if not RULES[action].touches])
def test_clean_rollback_savepoint_restore_and_indexing_touch_nothing(action: Action) -> None:
    assert conflicts.group_changes(action, [], []) == []


@pytest.mark.parametrize(
    ("action", "touch", "change"),
    [
        (Action.COMMIT, Touch.BASE, GroupChange.WRITE),
        (Action.DELTACOMMIT, Touch.BASE, GroupChange.WRITE),
        (Action.DELTACOMMIT, Touch.LOG, GroupChange.APPEND),
        (Action.REPLACECOMMIT, Touch.BASE, GroupChange.WRITE),
        (Action.REPLACECOMMIT, Touch.LOG, GroupChange.APPEND),
        (Action.REPLACECOMMIT, Touch.REPLACED, GroupChange.REPLACE),
        (Action.CLUSTERING, Touch.BASE, GroupChange.WRITE),
        (Action.CLUSTERING, Touch.LOG, GroupChange.APPEND),
        (Action.CLUSTERING, Touch.REPLACED, GroupChange.CLUSTER),
        (Action.COMPACTION, Touch.BASE, GroupChange.COMPACT),
        (Action.LOGCOMPACTION, Touch.LOG, GroupChange.LOG_COMPACT),
    ],
)
def test_each_action_changes_a_file_group_in_its_way(action: Action, touch: Touch, change: GroupChange) -> None:
    assert conflicts.change_of(action, touch) is change
    assert touch in RULES[action].touches


@pytest.mark.parametrize(
    ("action", "change"),
    [
        (Action.COMMIT, GroupChange.WRITE),
        (Action.DELTACOMMIT, GroupChange.APPEND),
        (Action.REPLACECOMMIT, GroupChange.REPLACE),
        (Action.CLUSTERING, GroupChange.CLUSTER),
        (Action.COMPACTION, GroupChange.COMPACT),
        (Action.LOGCOMPACTION, GroupChange.LOG_COMPACT),
        (Action.CLEAN, None),
        (Action.INDEXING, None),
    ],
)
def test_the_plan_of_each_action_stands_for_its_change(action: Action, change: GroupChange | None) -> None:
    assert conflicts.planned_change(action) is change


@pytest.mark.parametrize("operation", list(Operation))
def test_the_files_of_an_instant_follow_from_its_operation(operation: Operation) -> None:
    action = Action.COMPACTION if operation is Operation.COMPACT else Action.COMMIT
    [(change, _)] = conflicts.group_changes(action, [(Touch.BASE, NAME)], [])
    assert change is (GroupChange.COMPACT if operation is Operation.COMPACT else GroupChange.WRITE)


def test_a_dead_writer_holds_nothing() -> None:
    dead = ConcurrentInstant(
        GroupChange.WRITE, Action.DELTACOMMIT, State.INFLIGHT, BEFORE, lease_expires_at=NOW
    )
    assert not conflict_with(GroupChange.CLUSTER, dead)


def test_a_plan_without_an_executor_still_stands() -> None:
    waiting = ConcurrentInstant(GroupChange.CLUSTER, Action.CLUSTERING, State.REQUESTED, BEFORE)
    assert conflict_with(GroupChange.WRITE, waiting, yielding(Yields.WRITER))


def test_an_instant_does_not_conflict_with_itself() -> None:
    own_plan = ConcurrentInstant(
        GroupChange.CLUSTER, Action.CLUSTERING, State.INFLIGHT, MINE, lease_expires_at=LATER
    )
    assert not conflict_with(GroupChange.WRITE, own_plan, yielding(Yields.WRITER))


def test_another_group_is_no_conflict() -> None:
    other = completed(GroupChange.WRITE, BEFORE, AFTER)
    elsewhere = FileGroup(TABLE.table_id, "day=2", NAME.file_id)
    assert conflicts.find(TABLE, MINE, [(GroupChange.WRITE, NAME)], {elsewhere: (other,)}, NOW) is None


def test_the_conflict_names_the_winner_the_groups_and_the_time_to_rebase_on() -> None:
    groups = [FileGroupName("", bucket_file_id(bucket)) for bucket in range(3)]
    others = {
        FileGroup(TABLE.table_id, "", groups[0].file_id): (completed(GroupChange.WRITE, BEFORE, AFTER),),
        FileGroup(TABLE.table_id, "", groups[2].file_id): (completed(GroupChange.WRITE, LONG_BEFORE, LATER),),
    }
    with pytest.raises(errors.WriteConflict) as lost:
        conflicts.refuse(TABLE, MINE, [(GroupChange.WRITE, group) for group in groups], others, NOW)
    context = lost.value.context
    assert context["winner"] == format_time(LONG_BEFORE), "who completed last"
    named = f"{groups[0].file_id} in partition '', {groups[2].file_id} in partition '';"
    assert named in str(lost.value)
    assert context["rebase_on"] == format_time(LATER)
    assert context["file_groups_in_common"] == 2
    assert [group["file_id"] for group in context["file_groups"]] == [groups[0].file_id, groups[2].file_id]
