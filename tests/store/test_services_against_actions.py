"""The table action x action (docs/decisions/0082): each action against each pending plan of a table service.

The tables below have the cells. Each is run with a plan that waits and with one that is executed, in a database
of all cells, which is verified and rebuilt at the end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import cleans, deletions, instants, restores, rollbacks, savepoints, schemas
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from chronolake_model import instants as wire, schemas as wire_schemas
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, RollbackCause, State, TableType
from tests.store import shown
from tests.store.tables_of_types import TablesOfTypes, completion, group, projections, stat

SERVICES: Final = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
# The end of the plan, where the action begins after it and ends before it. "refused": the action is refused,
# and the plan completes.
BEGUN_AFTER: Final = """
                    compaction   logcompaction  clustering
append              completes    completes      cancelled
base file           loses        loses          cancelled
insert overwrite    completes    completes      cancelled
delete partition    completes    completes      cancelled
resize              refused      refused        refused
another compaction  refused      refused        refused
another clustering  refused      refused        refused
clean               completes    completes      completes
savepoint           completes    completes      completes
restore             undone       undone         undone
rollback            completes    completes      completes
schema change       completes    completes      completes
"""
# The same, where the action begins before the plan. "unplanned": the plan is refused.
BEGUN_BEFORE: Final = """
                    compaction   logcompaction  clustering
append              completes    completes      cancelled
base file           loses        loses          cancelled
insert overwrite    completes    completes      cancelled
delete partition    completes    completes      cancelled
resize              unplanned    unplanned      unplanned
another compaction  unplanned    unplanned      unplanned
another clustering  unplanned    unplanned      unplanned
clean               completes    completes      completes
savepoint           completes    completes      completes
restore             completes    completes      completes
rollback            completes    completes      completes
schema change       completes    completes      completes
"""
GONE: Final = ("insert overwrite", "delete partition")
"""Actions after which no reader sees the file group."""
_numbers = itertools.count()


def cells(table: str) -> list[tuple[str, Action, str]]:
    """Each cell as (the action, the service, the end)."""
    _, *rows = table.strip("\n").splitlines()
    split = [(row[:20].strip(), row[20:].split()) for row in rows]
    return [
        (action, service, end) for action, ends in split for service, end in zip(SERVICES, ends, strict=True)
    ]


@pytest.fixture(scope="module")
def database(shared_dsn: str) -> Iterator[TablesOfTypes]:
    with TablesOfTypes(shared_dsn) as history:
        history.make_namespace("shop")
        yield history
        before = projections(shared_dsn)
        asyncio.run(rebuilding.rebuild(Settings(dsn=shared_dsn)))
        assert projections(shared_dsn) == before
        assert asyncio.run(verification.verify(Settings(dsn=shared_dsn))).findings == []


class Cell:
    """A merge-on-read table with an old slice and logs in a file group, and other files for the action."""

    def __init__(self, history: TablesOfTypes) -> None:
        self.history = history
        self.table = f"shop.cell_{next(_numbers)}"
        history.make_table_of(self.table, TableType.MERGE_ON_READ, {})
        for _ in range(2):
            self.write(1, 2)
        self.write(1, log=True)

    def write(self, *buckets: int, log: bool = False) -> wire.Instant:
        write = self.begin(Action.DELTACOMMIT)
        return self.finish(write, *(stat(write, bucket, log=log) for bucket in buckets))

    def begin(self, action: Action, plan: NewPlan | None = None, **fields: Any) -> wire.Instant:
        return self.history.answer(instants.BeginInstant(self.table, "w", action, plan=plan, **fields))

    def finish(self, instant: wire.Instant, *stats: WriteStat) -> wire.Instant:
        return self.history.answer(completion(instant, *stats))

    def send(self, command: Command) -> Result:
        [result] = self.history.send(command)
        return result

    def now(self, instant: wire.Instant) -> wire.Instant:
        return self.history.now(instant)

    # ------------------------------------------------------------------------------ the plan

    def plan(self, service: Action, inflight: bool) -> Result:
        plan = NewPlan([group(1)])
        return self.send(instants.BeginInstant(self.table, "executor", service, inflight=inflight, plan=plan))

    def execute(self, service: Action, planned: wire.Instant, inflight: bool) -> Result:
        time = parse_time(planned.requested_time)
        if not inflight:
            taken = self.send(instants.TakeInflight(self.table, time, "executor"))
            if not isinstance(taken, Answer):
                return taken
        match service:
            case Action.CLUSTERING:
                command = completion(planned, stat(planned, 1, generation=1), replaced=(group(1),))
            case _:
                command = completion(planned, stat(planned, 1, log=service is Action.LOGCOMPACTION))
        return self.send(command)


# ------------------------------------------------------------------------------ the actions
# Each begins the action, and gives the command that ends it, or its refusal.

Ending = Command | errors.TimelineError
Begin = Callable[[Cell], Ending]


def append(cell: Cell) -> Ending:
    write = cell.begin(Action.DELTACOMMIT)
    return completion(write, stat(write, 1, log=True))


def base_file(cell: Cell) -> Ending:
    write = cell.begin(Action.DELTACOMMIT)
    return completion(write, stat(write, 1))


def insert_overwrite(cell: Cell) -> Ending:
    write = cell.begin(Action.REPLACECOMMIT)
    return completion(write, stat(write, 1, generation=1), replaced=(group(1),))


def delete_partition(cell: Cell) -> Ending:
    return completion(cell.begin(Action.REPLACECOMMIT), replaced=(group(1), group(2)))


def _planned(cell: Cell, action: Action, plan: NewPlan) -> Ending:
    begun = cell.send(instants.BeginInstant(cell.table, "other", action, plan=plan))
    if not isinstance(begun, Answer):
        return begun
    return rollbacks.RollbackInstant(
        cell.table, parse_time(shown.instant(begun.result).requested_time), "other"
    )


def resize(cell: Cell) -> Ending:
    return _planned(cell, Action.CLUSTERING, NewPlan([group(1), group(2)], buckets=8))


def another_compaction(cell: Cell) -> Ending:
    return _planned(cell, Action.COMPACTION, NewPlan([group(2), group(1)]))


def another_clustering(cell: Cell) -> Ending:
    return _planned(cell, Action.CLUSTERING, NewPlan([group(2), group(1)]))


def clean(cell: Cell) -> Ending:
    """It is executed to its end here: the plan names the files, and takes effect when it is recorded."""
    planned = shown.clean(
        cell.history.done(cleans.PlanClean(cell.table, cleans.Retention(commits=1), "cleaner"))
    )
    assert planned is not None
    assert planned.plan is not None
    time = parse_time(planned.requested_time)
    files = [DeletedFile("", name) for name in planned.plan.files_to_delete]
    cell.history.done(deletions.ReportDeletions(cell.table, time, files))
    return instants.CompleteInstant(cell.table, time)


def savepoint(cell: Cell) -> Ending:
    return savepoints.CreateSavepoint(cell.table, None, "operator")


def restore(cell: Cell) -> Ending:
    """To the last write, so that the plan alone is undone."""
    saved = cell.history.save(cell.table)
    return restores.RestoreTable(cell.table, parse_time(saved.requested_time), "operator")


def rollback(cell: Cell) -> Ending:
    write = cell.begin(Action.DELTACOMMIT)
    return rollbacks.RollbackInstant(cell.table, parse_time(write.requested_time), "w")


def schema_change(cell: Cell) -> Ending:
    return schemas.ChangeSchema(cell.table, [wire_schemas.AddColumn("note", "string")])


ACTIONS: Final[dict[str, Begin]] = {
    "append": append,
    "base file": base_file,
    "insert overwrite": insert_overwrite,
    "delete partition": delete_partition,
    "resize": resize,
    "another compaction": another_compaction,
    "another clustering": another_clustering,
    "clean": clean,
    "savepoint": savepoint,
    "restore": restore,
    "rollback": rollback,
    "schema change": schema_change,
}
AT_ONCE: Final = ("savepoint", "restore", "schema change")
"""Actions that begin and end in one command."""


def check_end(cell: Cell, planned: wire.Instant, ended: Result, action: str, end: str) -> None:
    after = cell.now(planned)
    match end:
        case "completes" | "refused":
            assert isinstance(ended, Answer), ended
            is_seen = planned.requested_time in str(cell.history.snapshot(cell.table))
            assert is_seen is (action not in GONE)
        case "loses":
            assert isinstance(ended, errors.WriteConflict)
            assert after.state is State.INFLIGHT
        case "cancelled":
            assert isinstance(ended, errors.InstantRolledBack)
            assert after.rollback_cause is RollbackCause.CONFLICT
        case "undone":
            assert isinstance(ended, errors.InstantRolledBack)
            assert after.rollback_cause is None
        case _:
            raise ValueError(end)


@pytest.mark.parametrize("inflight", [True, False])
@pytest.mark.parametrize(("action", "service", "end"), cells(BEGUN_AFTER))
def test_an_action_that_begins_while_a_plan_is_pending(
    database: TablesOfTypes, action: str, service: Action, end: str, *, inflight: bool
) -> None:
    cell = Cell(database)
    begun = cell.plan(service, inflight)
    assert isinstance(begun, Answer)
    planned = shown.instant(begun.result)
    ending = ACTIONS[action](cell)
    if end == "refused":
        assert isinstance(ending, errors.WriteConflict)
        assert ending.context["winner"] == planned.requested_time
    else:
        assert not isinstance(ending, errors.TimelineError)
        assert isinstance(cell.send(ending), Answer)
    check_end(cell, planned, cell.execute(service, planned, inflight), action, end)


@pytest.mark.parametrize("inflight", [True, False])
@pytest.mark.parametrize(("action", "service", "end"), cells(BEGUN_BEFORE))
def test_an_action_that_is_pending_when_a_plan_is_made(
    database: TablesOfTypes, action: str, service: Action, end: str, *, inflight: bool
) -> None:
    cell = Cell(database)
    ending = ACTIONS[action](cell)
    assert not isinstance(ending, errors.TimelineError)
    if action in AT_ONCE:
        assert isinstance(cell.send(ending), Answer)
    begun = cell.plan(service, inflight)
    if end == "unplanned":
        assert isinstance(begun, errors.WriteConflict)
        assert isinstance(cell.send(ending), Answer)
        return
    assert isinstance(begun, Answer)
    planned = shown.instant(begun.result)
    if action not in AT_ONCE:
        assert isinstance(cell.send(ending), Answer)
    check_end(cell, planned, cell.execute(service, planned, inflight), action, end)


@pytest.mark.parametrize("action", ["insert overwrite", "delete partition", "restore"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_completed_service_is_undone_or_replaced_like_a_write(
    database: TablesOfTypes, action: str, service: Action
) -> None:
    cell = Cell(database)
    saved = cell.history.save(cell.table)
    begun = cell.plan(service, inflight=True)
    assert isinstance(begun, Answer)
    planned = shown.instant(begun.result)
    assert isinstance(cell.execute(service, planned, inflight=True), Answer)
    generation = 1 if service is Action.CLUSTERING else 0
    command: Command = restores.RestoreTable(cell.table, parse_time(saved.requested_time), "operator")
    if action != "restore":
        replacing = cell.begin(Action.REPLACECOMMIT)
        files = [stat(replacing, 1, generation=generation + 1)] if action == "insert overwrite" else []
        command = completion(replacing, *files, replaced=(group(1, generation),))
    assert isinstance(cell.send(command), Answer)
    assert planned.requested_time not in str(cell.history.snapshot(cell.table))
    assert cell.now(planned).state is (State.ROLLED_BACK if action == "restore" else State.COMPLETED)


@pytest.mark.parametrize(
    ("service", "written"), [(Action.COMPACTION, 1), (Action.LOGCOMPACTION, 1), (Action.CLUSTERING, 2)]
)
def test_a_clean_keeps_the_files_that_the_executor_of_a_plan_reads(
    database: TablesOfTypes, service: Action, written: int
) -> None:
    cell = Cell(database)
    begun = cell.plan(service, inflight=False)
    assert isinstance(begun, Answer)
    planned = shown.instant(begun.result)
    read = _files(cell.history, cell.table, planned.requested_time)
    cell.write(written)
    command = cleans.PlanClean(cell.table, cleans.Retention(versions=1), "cleaner")
    named = shown.clean(cell.history.done(command))
    assert named is not None
    assert named.plan is not None
    assert read
    assert read.isdisjoint(named.plan.files_to_delete)
    assert not any(bucket_file_id(1) in file for file in named.plan.files_to_delete)


def _files(history: TablesOfTypes, table: str, as_of: str) -> set[str]:
    """The files of the planned file group as of a time."""
    [file_slice] = [one for one in history.snapshot(table, as_of).slices if one.file_id == bucket_file_id(1)]
    base = [] if file_slice.base_file is None else [file_slice.base_file.path]
    return {*base, *(log.path for log in file_slice.log_files)}
