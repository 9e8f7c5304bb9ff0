"""Faults of table services that Hudi's users reported, by the number of the report: none can happen here.

The tests of the others: 3 ``tests/server/test_reaper.py``; 4, 5, 20 ``tests/server/test_planned_services.py``;
7 ``tests/hudi/test_published_services.py``; 8, 9 ``test_cancelled_clusterings.py``; 15
``test_earliest_commit_to_retain.py``; 18 ``tests/spark/test_service_memory.py``; 21
``tests/spark/test_services.py``; 22 ``tests/spark/test_killed_services.py``. Report 16 is about archives.
"""

from __future__ import annotations

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import deletions, instants, rollbacks, savepoints
from chronolake_metastore.domain.cleans import PlanClean, Retention
from chronolake_metastore.domain.plans import NewPlan
from chronolake_model import instants as wire
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, State
from tests.store import shown
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, stat


def compaction_of(history: TablesOfTypes, **fields: object) -> wire.Instant:
    """A compaction that an executor has taken."""
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    return history.planned(MOR, Action.COMPACTION, group(1), writer="executor", **fields)


def clean_of(history: TablesOfTypes) -> wire.Instant:
    """A clean with the files of two commits."""
    for _ in range(3):
        history.written(COW, Action.COMMIT, 1)
    planned = shown.clean(history.done(PlanClean(COW, Retention(commits=1), "cleaner")))
    assert planned is not None
    return planned


def test_report_1_a_plan_of_a_dead_executor_is_taken_by_the_next_one(history: TablesOfTypes) -> None:
    """#8567, #8678: the job was killed, the inflight compaction stayed, and nobody compacted any more."""
    lost = compaction_of(history, lease_seconds=5)
    time = parse_time(lost.requested_time)
    history.pass_seconds(60)
    history.done(instants.ReturnToRequested(MOR, time, "reaper", "its lease ended"))
    history.done(instants.TakeInflight(MOR, time, "another"))
    assert history.finish(lost, stat(lost, 1)).state is State.COMPLETED


def test_report_1_the_file_groups_of_a_plan_that_is_given_up_are_free(history: TablesOfTypes) -> None:
    lost = compaction_of(history, lease_seconds=5)
    history.pass_seconds(60)
    history.undo(lost, "reaper")
    again = history.planned(MOR, Action.COMPACTION, group(1))
    assert history.finish(again, stat(again, 1)).state is State.COMPLETED


def test_report_2_a_completion_that_is_sent_again_completes_once(history: TablesOfTypes) -> None:
    """#19313: the lock was lost at the commit of a compaction, which stayed inflight for hours."""
    compaction = compaction_of(history)
    command = completion(compaction, stat(compaction, 1))
    first, second = history.ask("commit", command, None), history.ask("commit", command, None)
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert first.result == second.result
    assert isinstance(history.refused(command), errors.IllegalTransition), "another request, not a repeat"


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING])
def test_reports_6_and_11_a_file_group_is_in_one_plan_also_if_two_arrive_at_once(
    history: TablesOfTypes, action: Action
) -> None:
    """#1780, #5916, HUDI-2774: two pending plans with one file group."""
    history.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    plans = [NewPlan([group(1)]), NewPlan([group(2), group(1)])]
    first, second = history.send(
        *(instants.BeginInstant(MOR, "planner", action, plan=plan, inflight=False) for plan in plans)
    )
    assert isinstance(first, Answer)
    assert isinstance(second, errors.WriteConflict)
    with psycopg.connect(history.dsn) as connection:
        [[rows]] = connection.execute("SELECT count(*) FROM chronolake.planned_group").fetchall()
    assert rows == 1


@pytest.mark.parametrize("is_deleted_first", [True, False])
def test_report_10_of_a_clustering_and_the_delete_of_its_partition_one_completes(
    history: TablesOfTypes, *, is_deleted_first: bool
) -> None:
    """#4899, #6212, HUDI-6719: records came back, or were there twice."""
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    delete = history.start(MOR, Action.REPLACECOMMIT)
    clustering = history.planned(MOR, Action.CLUSTERING, group(1))
    clustered = completion(clustering, stat(clustering, 1, generation=1), replaced=(group(1),))
    deleted = completion(delete, replaced=(group(1),))
    first, second = history.send(*((deleted, clustered) if is_deleted_first else (clustered, deleted)))
    assert isinstance(first, Answer)
    assert isinstance(second, errors.InstantRolledBack if is_deleted_first else errors.WriteConflict)
    assert len(history.seen(MOR)) == (0 if is_deleted_first else 1)


def test_report_12_replaced_files_go_when_the_savepoint_that_needs_them_is_released(
    history: TablesOfTypes,
) -> None:
    """#6938, HUDI-7779: replaced files that no clean deleted any more came back as duplicates."""
    saved = history.save(COW, history.written(COW, Action.COMMIT, 1))
    replaced = history.start(COW, Action.REPLACECOMMIT)
    history.finish(replaced, stat(replaced, 1, generation=1), replaced=(group(1),))
    history.written(COW, Action.COMMIT, 2)
    clean = PlanClean(COW, Retention(commits=1), "cleaner")
    assert shown.clean(history.done(clean)) is None
    history.done(savepoints.ReleaseSavepoint(COW, parse_time(saved.requested_time), "operator"))
    planned = shown.clean(history.done(clean))
    assert planned is not None
    assert planned.plan is not None
    [name] = planned.plan.files_to_delete
    assert name.startswith(group(1).file_id)


def test_report_13_a_clean_completes_only_when_each_file_is_reported(history: TablesOfTypes) -> None:
    """#9257, HUDI-7655: a clean completed although a delete had failed. A missing file counts as deleted."""
    clean = clean_of(history)
    assert clean.plan is not None
    time = parse_time(clean.requested_time)
    first, second = (DeletedFile("", name) for name in clean.plan.files_to_delete)
    history.done(deletions.ReportDeletions(COW, time, [first]))
    refused = history.refused(instants.CompleteInstant(COW, time))
    assert isinstance(refused, errors.UndeletedFiles)
    assert refused.context["file"] == second.file_name
    history.done(deletions.ReportDeletions(COW, time, [second]))
    assert history.answer(instants.CompleteInstant(COW, time)).state is State.COMPLETED


def test_report_14_a_clean_deletes_no_file_that_its_plan_does_not_name(history: TablesOfTypes) -> None:
    """#9674: a cleaner of its own deleted live data."""
    clean = clean_of(history)
    [live] = [part.base_file for part in history.snapshot(COW).slices]
    assert live is not None
    report = deletions.ReportDeletions(COW, parse_time(clean.requested_time), [DeletedFile("", live.path)])
    assert isinstance(history.refused(report), errors.InvalidDeletion)


def test_report_17_who_lost_the_lease_of_a_plan_cannot_end_it_for_its_next_executor(
    history: TablesOfTypes,
) -> None:
    """#11104: an archiver released the lock of another one."""
    compaction = compaction_of(history, lease_seconds=5)
    time = parse_time(compaction.requested_time)
    history.pass_seconds(60)
    history.done(instants.ReturnToRequested(MOR, time, "reaper", "its lease ended"))
    history.done(instants.TakeInflight(MOR, time, "another"))
    for command in (
        instants.ReturnToRequested(MOR, time, "executor"),
        instants.CompleteInstant(MOR, time, [stat(compaction, 1)], writer="executor"),
    ):
        assert isinstance(history.refused(command), errors.LeaseLive)
    assert history.finish(compaction, stat(compaction, 1)).state is State.COMPLETED


def test_report_19_of_two_rollbacks_of_one_instant_the_second_does_nothing(history: TablesOfTypes) -> None:
    """#18050, #9213, #10356: concurrent rollbacks failed, or left one of them pending."""
    compaction = compaction_of(history)
    time = parse_time(compaction.requested_time)
    answers = history.send(*[rollbacks.RollbackInstant(MOR, time, "executor") for _ in range(2)])
    undone = [shown.instant(answer.result) for answer in answers if isinstance(answer, Answer)]
    assert [instant.state for instant in undone] == [State.ROLLED_BACK] * 2
    assert len({instant.rolled_back_by for instant in undone}) == 1
