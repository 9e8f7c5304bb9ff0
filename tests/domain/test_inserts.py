"""Which inserts of others a completing instant loses against, if its keys were looked up."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, strategies as st

from chronolake_metastore.domain import concurrency
from chronolake_metastore.domain.concurrency import PartitionKey
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_model.files import WriteStat
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State

TABLE = UUID(int=7)
partitions = st.sampled_from([PartitionKey(TABLE, path) for path in "abc"])


def completed(requested: int, after: int) -> ConcurrentInstant:
    return ConcurrentInstant(
        GroupChange.WRITE, Action.COMMIT, State.COMPLETED, Micros(requested), Micros(requested + after)
    )


others = st.builds(completed, st.integers(0, 20), st.integers(1, 20))


@given(st.integers(0, 40), st.sets(partitions), st.dictionaries(partitions, others))
def test_an_instant_loses_against_inserts_into_its_partitions_that_completed_since_it_was_requested(
    mine: int, own: set[PartitionKey], latest: dict[PartitionKey, ConcurrentInstant]
) -> None:
    expected = {
        partition
        for partition, other in latest.items()
        if partition in own and mine < (other.completion_time or 0) and other.requested_time != mine
    }
    assert set(concurrency.find_inserts(Micros(mine), own, latest)) == expected


def test_a_file_inserts_if_it_counts_inserts_or_counts_nothing() -> None:
    def of(inserts_: int = 0, updates: int = 0, deletes: int = 0) -> bool:
        name = "f_0-0-0_20261121120000001.parquet"
        return concurrency.may_insert(WriteStat("", "f", name, 1, 9, inserts_, updates, deletes))

    assert of(inserts_=1, updates=8)
    assert of()
    assert not of(updates=9)
    assert not of(deletes=1)
