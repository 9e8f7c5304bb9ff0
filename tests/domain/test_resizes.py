from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import plans, tables
from chronolake_metastore.domain.actions import RULES
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import Event, ImpossibleEvent, InstantCompleted, TableCreated
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables as queries
from chronolake_model.instants import WriteSummary
from chronolake_model.tables import NewBucketIndex, NewField
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import Action, IndexType, State

START: Final = Micros(1_800_000_000_000_000)
MINUTE: Final = 60_000_000


def a_table(index: IndexType = IndexType.BUCKET) -> Table:
    definition = NewDefinition(
        name="shop.orders",
        base_path="/lake",
        schema=[NewField("id", "int")],
        record_key_fields=["id"],
        index=NewBucketIndex(index),
    )
    return tables.evolve_created(TableCreated(definition=definition), UUID(int=7), START)


def at(minute: int) -> Micros:
    return Micros(START + minute * MINUTE)


def resized(table: Table, buckets: int, requested: int, completed: int) -> Table:
    payload = InstantCompleted(
        summary=WriteSummary(), extra_metadata={}, write_stats_digest="", buckets=buckets
    )
    event = Event(table.table_id, 2, at(completed), at(requested), "ann", "key", payload, b"", b"")
    return plans.evolve_resized(table, buckets, event)


TWICE: Final = resized(resized(a_table(), 8, 1, 2), 2, 5, 6)


@pytest.mark.parametrize(("minute", "buckets"), [(0, 4), (1, 4), (2, 8), (5, 8), (6, 2), (9, 2)])
def test_each_time_has_the_number_of_buckets_of_the_last_resize_before_it(minute: int, buckets: int) -> None:
    assert TWICE.buckets_as_of(at(minute)) == buckets
    document = queries.document(TWICE, UUID(int=1))
    assert document.buckets_as_of(format_time(at(minute), Tick.MILLISECOND)) == buckets
    assert document.buckets_as_of(None) == 2
    assert plans.number_after_restore(TWICE, at(minute)) == (None if buckets == 2 else buckets)


def test_a_definition_without_former_numbers_is_stored_as_before() -> None:
    stored = msgspec.json.encode(a_table().definition)
    assert b"former_buckets" not in stored
    again = msgspec.json.decode(msgspec.json.encode(TWICE.definition), type=tables.Definition)
    assert again == TWICE.definition


@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING])
def test_an_instant_that_was_requested_before_the_last_resize_completed_loses(action: Action) -> None:
    for requested in (0, 3, 5):
        lost = plans.find_later_resize(TWICE, action, at(requested))
        assert lost is not None
        assert (lost.winner.requested_time, lost.winner.completion_time) == (at(5), at(6))
    assert plans.find_later_resize(TWICE, action, at(7)) is None
    assert plans.find_later_resize(a_table(), action, at(0)) is None


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT, Action.INDEXING])
def test_what_writes_no_records_does_not_lose(action: Action) -> None:
    assert plans.find_later_resize(TWICE, action, at(0)) is None


def test_a_plan_is_checked_only_if_it_resizes() -> None:
    group = FileGroup(UUID(int=7), "", "f")
    writer = ConcurrentInstant(GroupChange.WRITE, Action.COMMIT, State.COMPLETED, at(0), at(1))
    plans.refuse_resize(a_table(IndexType.SIMPLE), Action.COMMIT, NewPlan(buckets=None), [])
    plans.refuse_resize(a_table(), Action.CLUSTERING, NewPlan(buckets=8), [])
    with pytest.raises(errors.InvalidPlan, match="only a clustering"):
        plans.refuse_resize(a_table(), Action.COMPACTION, NewPlan(buckets=8), [])
    with pytest.raises(errors.InvalidPlan, match="has the index bloom"):
        plans.refuse_resize(a_table(IndexType.BLOOM), Action.CLUSTERING, NewPlan(buckets=8), [])
    with pytest.raises(errors.WriteConflict, match="the plan lacks f"):
        plans.refuse_resize(a_table(), Action.CLUSTERING, NewPlan(buckets=8), [(group, writer)])


def test_the_former_numbers_of_a_table_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "FORMER_MAX", 2)
    with pytest.raises(errors.InvalidPlan, match="has had 2 other numbers"):
        plans.refuse_resize(TWICE, Action.CLUSTERING, NewPlan(buckets=8), [])


def test_the_plan_of_a_resize_is_not_kept() -> None:
    rules = RULES[Action.CLUSTERING]
    assert plans.keeps_plan(rules, None)
    assert plans.keeps_plan(rules, PlannedWork())
    assert not plans.keeps_plan(rules, PlannedWork(buckets=8))


def test_a_table_without_buckets_is_never_resized_by_the_log() -> None:
    with pytest.raises(ImpossibleEvent):
        resized(a_table(IndexType.SIMPLE), 8, 1, 2)
