"""Rollbacks, savepoints and restores on a real database: the undone instants, and the view of readers."""

from __future__ import annotations

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import instants, rollbacks, savepoints
from chronolake_metastore.queries import files as file_queries
from chronolake_model.file_names import bucket_file_id
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, State
from tests.store import shown
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, restore, stat


def test_repeated_requests_make_one_rollback(history: TablesOfTypes) -> None:
    begun = history.start(COW, Action.COMMIT)
    time = parse_time(begun.requested_time)
    commands = [rollbacks.RollbackInstant(COW, time, "w", "tired") for _ in range(5)]
    answers = history.send(*commands)
    documents = [shown.instant(answer.result) for answer in answers]  # type: ignore[union-attr]
    assert {document.state for document in documents} == {State.ROLLED_BACK}
    [rollback] = {document.rolled_back_by for document in documents}
    assert rollback is not None
    undone_by = history.now(msgspec.structs.replace(begun, requested_time=rollback))
    assert (undone_by.action, undone_by.state) == (Action.ROLLBACK, State.COMPLETED)
    assert undone_by.target == begun.requested_time


def test_the_next_caller_resumes_a_rollback_with_files_to_delete(history: TablesOfTypes) -> None:
    begun = history.start(COW, Action.COMMIT)
    names = [stat(begun, bucket).file_name for bucket in (0, 1)]
    undone = history.undo(begun, files_to_delete=names, lease_seconds=10)
    assert undone.rolled_back_by is not None
    named = msgspec.structs.replace(begun, requested_time=undone.rolled_back_by)
    rollback = history.now(named)
    assert (rollback.state, rollback.writer) == (State.INFLIGHT, "w")
    assert rollback.plan is not None
    assert rollback.plan.files_to_delete == names
    history.undo(begun, "another")
    assert history.now(named).writer == "w", "its executor still has the lease"
    history.pass_seconds(60)
    history.undo(begun, "another")
    assert history.now(named).writer == "another"
    time = parse_time(undone.rolled_back_by)
    history.done(instants.ReturnToRequested(COW, time, "another"))
    history.undo(begun, "third")
    assert (history.now(named).state, history.now(named).writer) == (State.INFLIGHT, "third")
    assert isinstance(
        history.refused(rollbacks.RollbackInstant(COW, time, "third")),
        errors.IllegalTransition,
    )
    assert history.finish(named).state is State.COMPLETED
    assert history.now(named).plan == rollback.plan


def test_a_writer_that_was_rolled_back_gets_the_reason(history: TablesOfTypes) -> None:
    begun = history.start(COW, Action.COMMIT)
    history.undo(begun, reason="tired")
    refused = history.refused(completion(begun, stat(begun, 1)))
    assert isinstance(refused, errors.InstantRolledBack)
    assert "tired" in refused.detail


def test_a_restore_goes_back_in_the_order_of_the_design(history: TablesOfTypes) -> None:
    kept = history.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    before = history.seen(MOR)
    savepoint = history.save(MOR)
    assert savepoint.target == kept.requested_time
    early = history.start(MOR, Action.DELTACOMMIT)
    first = history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    compaction = history.planned(MOR, Action.COMPACTION, group(1))
    history.finish(compaction, stat(compaction, 1))
    overwrite = history.start(MOR, Action.REPLACECOMMIT)
    history.finish(overwrite, stat(overwrite, 2, generation=1), replaced=(group(2),))
    clustering = history.planned(MOR, Action.CLUSTERING, group(1), inflight=False)
    history.finish(early, stat(early, 3, log=True))
    writing = history.start(MOR, Action.DELTACOMMIT)
    restored = history.answer(restore(history, savepoint))
    assert (restored.action, restored.state) == (Action.RESTORE, State.COMPLETED)
    assert restored.target == savepoint.requested_time
    assert restored.plan is not None
    assert restored.plan.instants == [
        instant.requested_time for instant in (clustering, writing, early, overwrite, compaction, first)
    ]
    assert history.seen(MOR) == before
    late = history.refused(completion(writing, stat(writing, 1, log=True)))
    assert isinstance(late, errors.InstantRolledBack)
    again = history.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    assert {logs for _, logs in history.seen(MOR).values()} == {2}
    assert again.completion_time is not None
    assert history.seen(MOR, restored.completion_time) == before


def test_a_later_savepoint_refuses_to_be_rolled_back_until_it_is_released(history: TablesOfTypes) -> None:
    history.written(COW, Action.COMMIT, 1)
    early = history.save(COW)
    second = history.written(COW, Action.COMMIT, 1)
    later = history.save(COW, second)
    assert history.save(COW, second).requested_time == later.requested_time, "one savepoint per instant"
    pinned = rollbacks.RollbackInstant(COW, parse_time(second.requested_time), "w")
    assert isinstance(history.refused(pinned), errors.IllegalTransition)
    refused = history.refused(restore(history, early))
    assert isinstance(refused, errors.Savepointed)
    assert refused.context["savepoints"] == [later.requested_time]
    release = savepoints.ReleaseSavepoint(COW, parse_time(later.requested_time), "operator", "not needed")
    assert history.answer(release).state is State.ROLLED_BACK
    assert isinstance(history.refused(release), errors.IllegalTransition)
    history.done(restore(history, early))
    assert isinstance(history.refused(restore(history, later)), errors.IllegalTransition)


def test_only_completed_instants_that_changed_the_table_are_pinned(history: TablesOfTypes) -> None:
    nothing = savepoints.CreateSavepoint(COW, None, "operator")
    assert isinstance(history.refused(nothing), errors.InstantNotFound)
    pending = history.start(COW, Action.COMMIT)
    time = parse_time(pending.requested_time)
    early = savepoints.CreateSavepoint(COW, time, "operator")
    assert isinstance(history.refused(early), errors.IllegalTransition)


def test_a_restore_leaves_the_past_as_it_was(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 1, 2)
    savepoint = history.save(COW)
    second = history.written(COW, Action.COMMIT, 1)
    overwrite = history.start(COW, Action.REPLACECOMMIT)
    history.finish(overwrite, stat(overwrite, 2, generation=1), replaced=(group(2),))
    times = [instant.completion_time for instant in (first, savepoint, second, history.now(overwrite))]
    before = [history.seen(COW, time) for time in times]
    restored = history.answer(restore(history, savepoint))
    third = history.written(COW, Action.COMMIT, 1)
    assert [history.seen(COW, time) for time in times] == before
    assert history.seen(COW, restored.completion_time) == before[0]
    # A second restore restores the same slices as the first, and no others.
    again = history.answer(restore(history, savepoint))
    assert history.seen(COW) == history.seen(COW, again.completion_time) == before[0]
    assert [history.seen(COW, time) for time in times] == before
    assert history.seen(COW, third.completion_time)[bucket_file_id(1)] == (third.requested_time, 0)


def test_a_follower_of_changes_gets_a_restore(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 1, 2)
    savepoint = history.save(COW)
    second = history.written(COW, Action.COMMIT, 1, 3)
    restored = history.answer(restore(history, savepoint))
    whole = history.changes(COW, first.completion_time)
    assert whole.instants == []
    assert [instant.requested_time for instant in whole.restores] == [restored.requested_time]
    file_groups = {changed.file_id: (changed.before, changed.after) for changed in whole.file_groups}
    assert file_groups == {
        bucket_file_id(1): (file_groups[bucket_file_id(1)][1], file_groups[bucket_file_id(1)][1]),
        bucket_file_id(3): (None, None),
    }
    until = history.changes(COW, first.completion_time, second.completion_time)
    assert [instant.requested_time for instant in until.instants] == [second.requested_time]
    assert until.restores == []
    since = history.changes(COW, second.completion_time)
    assert since.instants == []
    assert {changed.file_id: changed.after is None for changed in since.file_groups} == {
        bucket_file_id(1): False,
        bucket_file_id(3): True,
    }


def test_a_bounded_range_shows_instants_undone_after_its_end(
    history: TablesOfTypes, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = history.save(COW, history.written(COW, Action.COMMIT, 1))
    undone = [history.written(COW, Action.COMMIT, bucket) for bucket in (2, 3)]
    restored = history.answer(restore(history, savepoint))
    monkeypatch.setattr(file_queries, "CHANGED_INSTANTS_MAX", 2)

    first = history.changes(COW, None)
    second = history.changes(COW, first.to)

    assert first.to == undone[0].completion_time
    assert [instant.requested_time for instant in first.instants][1:] == [undone[0].requested_time]
    assert {changed.file_id for changed in first.file_groups} == {bucket_file_id(1), bucket_file_id(2)}
    assert (second.to, second.instants) == (restored.completion_time, [])
    assert [instant.requested_time for instant in second.restores] == [restored.requested_time]
