"""Clusterings that give way: a write that completes in a file group of a pending one rolls it back.

Report 8 of Hudi's users (#10964, #17879): a clustering that nobody can cancel blocks the writers. Report 9
(#18830): an overwrite passes a pending clustering, which starves, and nobody sees it.
"""

from __future__ import annotations

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import deletions, instants, leases, staging, transactions
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.plans import NewPlan
from chronolake_model import instants as wire
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, RollbackCause, State
from tests.store.streamed import TABLE as STREAMED, Streamed
from tests.store.tables_of_types import GIVING_WAY, MOR, TablesOfTypes, completion, group, stat

CAUSES = "SELECT cause, action FROM chronolake.audit_rollbacks WHERE cause IS NOT NULL"


def clustering_of(history: TablesOfTypes, *buckets: int, inflight: bool = True) -> wire.Instant:
    """A pending clustering of file groups that have a log file."""
    history.written(MOR, Action.DELTACOMMIT, *buckets, log=True)
    return history.planned(MOR, Action.CLUSTERING, *map(group, buckets), writer="executor", inflight=inflight)


def write_to(history: TablesOfTypes, kind: str, bucket: int) -> instants.CompleteInstant:
    """The completion of a write of this kind to a file group."""
    is_replacing = kind in ("insert overwrite", "delete partition")
    write = history.start(MOR, Action.REPLACECOMMIT if is_replacing else Action.DELTACOMMIT)
    stats: dict[str, list[WriteStat]] = {
        "upsert": [stat(write, bucket, log=True)],
        "base file": [stat(write, bucket)],
        "insert overwrite": [stat(write, bucket, generation=1)],
        "delete partition": [],
    }
    return completion(write, *stats[kind], replaced=(group(bucket),) if is_replacing else ())


def executors_calls(clustering: wire.Instant) -> list[Command]:
    time = parse_time(clustering.requested_time)
    files = [stat(clustering, 1, generation=1)]
    return [
        leases.RenewLease(MOR, time, writer="executor"),
        staging.StageWriteStats(MOR, time, files, writer="executor"),
        instants.ReturnToRequested(MOR, time, "executor"),
        instants.TakeInflight(MOR, time, "executor"),
        completion(clustering, *files, replaced=(group(1),)),
    ]


@pytest.mark.parametrize("inflight", [True, False])
@pytest.mark.parametrize("kind", ["upsert", "base file", "insert overwrite", "delete partition"])
def test_a_write_cancels_the_clustering_of_its_file_group_and_no_other(
    history: TablesOfTypes, kind: str, *, inflight: bool
) -> None:
    lost, kept = (clustering_of(history, bucket, inflight=inflight) for bucket in (1, 2))
    write = history.answer(write_to(history, kind, 1))

    cancelled = history.now(lost)
    assert (cancelled.state, cancelled.rollback_cause) == (State.ROLLED_BACK, RollbackCause.CONFLICT)
    assert write.requested_time in str(cancelled.rollback_reason)
    assert cancelled.rolled_back_by is not None
    calls = [history.refused(call) for call in executors_calls(lost)]
    assert {type(refusal) for refusal in calls} == {errors.InstantRolledBack}
    assert history.now(kept).state is (State.INFLIGHT if inflight else State.REQUESTED)


def test_the_marked_files_of_a_cancelled_clustering_wait_for_their_deletion(history: TablesOfTypes) -> None:
    clustering = clustering_of(history, 1)
    history.mark(MOR, clustering.requested_time, 1)
    history.done(write_to(history, "upsert", 1))

    rolled_back_by = history.now(clustering).rolled_back_by
    assert rolled_back_by is not None
    rollback = history.answer(instants.TakeInflight(MOR, parse_time(rolled_back_by), "deleter"))
    assert (rollback.action, rollback.target) == (Action.ROLLBACK, clustering.requested_time)
    assert rollback.plan is not None
    assert rollback.plan.by_markers
    deleted = DeletedFile("", stat(clustering, 1).file_name)
    history.done(deletions.ReportDeletions(MOR, parse_time(rolled_back_by), [deleted]))
    assert history.finish(rollback).state is State.COMPLETED


def test_cancelled_clusterings_are_counted_by_their_cause(history: TablesOfTypes) -> None:
    for _ in range(2):
        clustering_of(history, 1)
        history.done(write_to(history, "upsert", 1))
    history.undo(history.planned(MOR, Action.CLUSTERING, group(1)))
    with psycopg.connect(history.dsn) as connection:
        assert connection.execute(CAUSES).fetchall() == [("conflict", "clustering")] * 2


def test_a_write_that_is_refused_cancels_nothing(history: TablesOfTypes) -> None:
    loser = history.start(MOR, Action.DELTACOMMIT)
    history.written(MOR, Action.DELTACOMMIT, 1)
    clustering = history.planned(MOR, Action.CLUSTERING, group(1))
    assert isinstance(history.refused(completion(loser, stat(loser, 1))), errors.WriteConflict)
    assert history.now(clustering).state is State.INFLIGHT


def test_writes_that_complete_together_cancel_what_each_of_them_meets(history: TablesOfTypes) -> None:
    clusterings = [clustering_of(history, bucket) for bucket in (1, 2)]
    members = [write_to(history, "upsert", bucket) for bucket in (1, 2)]
    history.done(transactions.CompleteTogether(members))
    assert [history.now(each).state for each in clusterings] == [State.ROLLED_BACK] * 2


def test_if_one_of_several_may_not_complete_nothing_is_cancelled(history: TablesOfTypes) -> None:
    clustering, loser = clustering_of(history, 1), history.start(MOR, Action.DELTACOMMIT)
    history.written(MOR, Action.DELTACOMMIT, 2)
    members = [write_to(history, "upsert", 1), completion(loser, stat(loser, 2))]
    assert isinstance(history.refused(transactions.CompleteTogether(members)), errors.WriteConflict)
    assert history.now(clustering).state is State.INFLIGHT


def test_in_one_group_of_commands_a_write_cancels_a_clustering_that_has_just_begun(
    history: TablesOfTypes,
) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    writes = [write_to(history, "upsert", 1) for _ in range(2)]
    begin = instants.BeginInstant(MOR, "executor", Action.CLUSTERING, plan=NewPlan([group(1)]))
    begun, *written = history.send(begin, *writes)
    assert isinstance(begun, Answer)
    assert [type(answer) for answer in written] == [Answer, Answer]
    with psycopg.connect(history.dsn) as connection:
        assert connection.execute(CAUSES).fetchall() == [("conflict", "clustering")]


@pytest.mark.parametrize("is_staged", [False, True])
def test_where_writers_give_way_the_clustering_stays(history: TablesOfTypes, *, is_staged: bool) -> None:
    history.written(GIVING_WAY, Action.DELTACOMMIT, 1, log=True)
    clustering = history.planned(GIVING_WAY, Action.CLUSTERING, group(1))
    write = history.start(GIVING_WAY, Action.DELTACOMMIT)
    files = [stat(write, 1, log=True)]
    time = parse_time(write.requested_time)
    command: Command = completion(write, *files)
    if is_staged:
        command = staging.StageWriteStats(GIVING_WAY, time, files)
    assert isinstance(history.refused(command), errors.WriteConflict)
    assert history.now(clustering).state is State.INFLIGHT


def test_a_checkpoint_of_a_stream_cancels_the_clustering_of_its_file_groups(history: TablesOfTypes) -> None:
    streamed = Streamed(history)
    history.written(STREAMED, Action.DELTACOMMIT, 1, 2, log=True)
    epoch = streamed.open("job")
    lost, kept = (history.planned(STREAMED, Action.CLUSTERING, group(bucket)) for bucket in (1, 2))
    streamed.report("job", epoch, 0, [1])
    assert history.now(lost).state is State.INFLIGHT, "a report may still be rolled back"
    streamed.complete("job", epoch, 1)
    assert history.now(lost).rollback_cause is RollbackCause.CONFLICT
    assert history.now(kept).state is State.INFLIGHT
