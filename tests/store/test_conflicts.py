"""Conflicts and groups of commands on a real database: which instant gives way, alone or in one transaction."""

from __future__ import annotations

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import instants, leases, tables, transactions
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.plans import NewPlan
from chronolake_model import tables as wire_tables
from chronolake_model.file_names import bucket_file_id
from chronolake_model.times import format_time, parse_time
from chronolake_model.vocabulary import Action, IndexType, State, TableType
from tests.store import shown
from tests.store.tables_of_types import (
    COW,
    GIVING_WAY,
    MOR,
    TablesOfTypes,
    completion,
    group,
    named_stat,
    restore,
    stat,
)


def test_appends_never_conflict_and_a_compaction_passes_them_by(history: TablesOfTypes) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    slow, fast = history.start(MOR, Action.DELTACOMMIT), history.start(MOR, Action.DELTACOMMIT)
    compaction = history.planned(MOR, Action.COMPACTION, group(1))
    history.finish(fast, stat(fast, 1, log=True))
    history.finish(compaction, stat(compaction, 1))
    history.finish(slow, stat(slow, 1, log=True))
    assert history.seen(MOR) == {bucket_file_id(1): (compaction.requested_time, 2)}


@pytest.mark.parametrize("table", [MOR, GIVING_WAY])
def test_a_property_of_the_table_decides_which_instant_yields(history: TablesOfTypes, table: str) -> None:
    history.written(table, Action.DELTACOMMIT, 1, log=True)
    writer = history.start(table, Action.DELTACOMMIT)
    service = history.planned(table, Action.CLUSTERING, group(1))
    if table == GIVING_WAY:
        refused = history.refused(completion(writer, stat(writer, 1, log=True)))
        assert isinstance(refused, errors.WriteConflict)
        assert refused.context["winner"] == service.requested_time
        assert refused.context["rebase_on"] is None
        history.finish(service, stat(service, 1, generation=1), replaced=(group(1),))
    else:
        history.finish(writer, stat(writer, 1, log=True))
        service_lost = completion(service, stat(service, 1, generation=1), replaced=(group(1),))
        refused = history.refused(service_lost)
        assert isinstance(refused, errors.InstantRolledBack)
        assert writer.requested_time in refused.detail


def test_a_pending_instant_that_completes_after_i_began_is_a_candidate(history: TablesOfTypes) -> None:
    other = history.start(COW, Action.COMMIT)
    mine = history.start(COW, Action.COMMIT)
    done = history.finish(other, stat(other, 1))
    refused = history.refused(completion(mine, stat(mine, 1), stat(mine, 2)))
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["rebase_on"] == done.completion_time
    assert refused.context["file_groups"] == [{"partition_path": "", "file_id": bucket_file_id(1)}]


def test_without_buckets_it_is_the_file_group_that_two_writers_must_not_share(history: TablesOfTypes) -> None:
    simple = wire_tables.NewBucketIndex(IndexType.SIMPLE)
    history.make_table_of("shop.simple", TableType.COPY_ON_WRITE, {}, simple)
    first, second, third = (history.start("shop.simple", Action.COMMIT) for _ in range(3))
    history.finish(first, named_stat(first, "aa-0"))
    history.finish(second, named_stat(second, "bb-0"))
    assert isinstance(history.refused(completion(third, named_stat(third, "aa-0"))), errors.WriteConflict)
    assert set(history.seen("shop.simple")) == {"aa-0", "bb-0"}


def together(*members: instants.CompleteInstant) -> transactions.CompleteTogether:
    return transactions.CompleteTogether(list(members))


def test_instants_of_several_tables_complete_together_in_one_transaction(history: TablesOfTypes) -> None:
    orders, clicks = history.start(COW, Action.COMMIT), history.start(MOR, Action.DELTACOMMIT)
    result = history.done(
        together(completion(orders, stat(orders, 1)), completion(clicks, stat(clicks, 1, log=True)))
    )
    done = shown.together(result)
    assert [instant.state for instant in done] == [State.COMPLETED] * 2
    assert [instant.table for instant in done] == [COW, MOR]
    with psycopg.connect(history.dsn) as connection:
        rows = connection.execute(
            "SELECT transaction_id, position FROM chronolake.event WHERE type = 'InstantCompleted'"
            " ORDER BY position"
        ).fetchall()
    assert rows[0][0] == rows[1][0]
    assert rows[1][1] == rows[0][1] + 1


def test_when_one_of_several_may_not_complete_none_does(history: TablesOfTypes) -> None:
    orders, clicks = history.start(COW, Action.COMMIT), history.start(MOR, Action.DELTACOMMIT)
    history.written(COW, Action.COMMIT, 1)
    both = together(completion(clicks, stat(clicks, 1, log=True)), completion(orders, stat(orders, 1)))
    assert isinstance(history.refused(both), errors.WriteConflict)
    assert history.now(clicks).state is State.INFLIGHT
    assert history.seen(MOR) == {}
    twice = together(completion(clicks), completion(clicks))
    assert isinstance(history.refused(twice), errors.InvalidPlan)


def test_two_of_one_table_that_touch_one_group_do_not_complete_together(history: TablesOfTypes) -> None:
    first, second = history.start(COW, Action.COMMIT), history.start(COW, Action.COMMIT)
    both = together(completion(first, stat(first, 1)), completion(second, stat(second, 1)))
    assert isinstance(history.refused(both), errors.WriteConflict)
    assert format_time(parse_time(first.requested_time)) == first.requested_time
    assert {history.now(each).state for each in (first, second)} == {State.INFLIGHT}


def test_a_table_recreated_in_one_group_continues_after_the_old_one(history: TablesOfTypes) -> None:
    last = history.start(COW, Action.COMMIT).requested_time
    history.pass_seconds(-3_600)
    history.send(
        tables.DropTable(COW),
        tables.CreateTable(
            NewDefinition(
                name=COW,
                base_path="s3://lake/again",
                schema=[wire_tables.NewField("id", "bigint")],
                record_key_fields=["id"],
            )
        ),
    )
    assert history.start(COW, Action.COMMIT).requested_time > last


def test_a_lease_renewed_in_the_same_group_counts(history: TablesOfTypes) -> None:
    writer = history.start(GIVING_WAY, Action.DELTACOMMIT)
    overwrite = history.planned(GIVING_WAY, Action.REPLACECOMMIT, group(1), lease_seconds=5)
    history.pass_seconds(60)
    renewal = leases.RenewLease(GIVING_WAY, parse_time(overwrite.requested_time), 60)
    _, refused = history.send(renewal, completion(writer, stat(writer, 1, log=True)))
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["winner"] == overwrite.requested_time


def test_a_file_group_that_a_restore_brought_back_can_be_planned_for_in_the_same_group(
    history: TablesOfTypes,
) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    savepoint = history.save(MOR)
    history.written(MOR, Action.DELTACOMMIT, 2, log=True)
    overwrite = history.start(MOR, Action.REPLACECOMMIT)
    history.finish(overwrite, replaced=(group(1),))
    back = instants.BeginInstant(MOR, "w", Action.COMPACTION, plan=NewPlan([group(1)]))
    gone = instants.BeginInstant(MOR, "w", Action.COMPACTION, plan=NewPlan([group(2)]))
    _, planned, refused = history.send(restore(history, savepoint), back, gone)
    assert isinstance(planned, Answer)
    assert isinstance(refused, errors.InvalidPlan)


@pytest.mark.parametrize("action", [Action.CLEAN, Action.INDEXING])
def test_nothing_yields_to_an_instant_that_writes_no_data(history: TablesOfTypes, action: Action) -> None:
    history.written(COW, Action.COMMIT, 1)
    history.planned(COW, action, group(1))
    clustering = history.planned(COW, Action.CLUSTERING, group(1))
    history.finish(clustering, stat(clustering, 1, generation=1), replaced=(group(1),))
