"""The merge of a file group, against a dictionary that is merged record by record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from chronolake.slices import columns, merge
from chronolake.slices.merge import Existing


class Record(NamedTuple):
    """A record of the model: its key, ordering value, payload, and whether it deletes."""

    key: str
    ordering: int | None
    value: int
    delete: bool = False


KEYS = st.sampled_from("abcdef")
ORDERINGS = st.none() | st.integers(0, 5)
STORED = st.dictionaries(KEYS, st.tuples(ORDERINGS, st.integers(10, 99))).map(
    lambda rows: [Record(key, *columns) for key, columns in rows.items()]
)
INCOMING = st.lists(st.builds(Record, KEYS, ORDERINGS, st.integers(-9, 9), st.booleans()))


def as_table(records: list[Record]) -> pa.Table:
    return pa.table(
        {
            columns.RECORD_KEY: pa.array([record.key for record in records], pa.string()),
            columns.DELETE: pa.array([record.delete for record in records], pa.bool_()),
            f"{columns.ORDER_PREFIX}0": pa.array(range(len(records)), pa.int64()),
            "ordering": pa.array([record.ordering for record in records], pa.int64()),
            "value": pa.array([record.value for record in records], pa.int64()),
        }
    )


def in_chunks(records: list[Record]) -> pa.Table:
    """The records in chunks, as files of several row groups and rows of several batches come."""
    return pa.concat_tables([as_table(records[:1]), as_table(records[1:])])


def as_records(table: pa.Table) -> list[Record]:
    return [
        Record(row[columns.RECORD_KEY], row["ordering"], row["value"], row[columns.DELETE])
        for row in table.to_pylist()
    ]


def by_key(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.key)


def wins(new: Record, old: Record, *, ordered: bool) -> bool:
    if not ordered or (new.delete and new.ordering is None):
        return True
    if old.delete and old.ordering is None:
        return False
    return old.ordering is None or (new.ordering is not None and new.ordering >= old.ordering)


def latest(records: list[Record], *, ordered: bool) -> dict[str, Record]:
    winners: dict[str, Record] = {}
    for record in records:
        if record.key not in winners or wins(record, winners[record.key], ordered=ordered):
            winners[record.key] = record
    return winners


def merged(stored: list[Record], incoming: list[Record], *, ordered: bool) -> dict[str, Record]:
    state = {record.key: record for record in stored}
    for record in latest(incoming, ordered=ordered).values():
        if record.key in state and not wins(record, state[record.key], ordered=ordered):
            continue
        state.pop(record.key, None)
        if not record.delete:
            state[record.key] = record
    return state


def run(
    stored: list[Record], incoming: list[Record], *, ordered: bool, existing: Existing = Existing.MERGE
) -> tuple[merge.Decision, list[Record]]:
    """The decision, and the records of the file that follows from it."""
    fields = ["ordering"] if ordered else []
    winners = merge.latest_per_key(in_chunks(incoming), fields).records
    base = in_chunks(stored)
    decision = merge.decide(base, winners, ordering_fields=fields, existing=existing)
    kept = as_records(base.filter(pa.array(decision.kept)))
    return decision, kept + as_records(winners.filter(pa.array(decision.written)))


@pytest.mark.parametrize("ordered", [True, False], ids=["event-time", "commit-time"])
@given(stored=STORED, incoming=INCOMING)
def test_merge_equals_a_record_by_record_merge(stored: list[Record], incoming: list[Record], ordered: bool):
    decision, after = run(stored, incoming, ordered=ordered)
    expected = merged(stored, incoming, ordered=ordered)

    assert by_key(after) == by_key(expected.values())
    before = {record.key for record in stored}
    assert decision.inserts == len(expected.keys() - before)
    assert decision.deletes == len(before - expected.keys())
    changed = decision.inserts + decision.updates + decision.deletes
    assert changed + decision.unchanged == len({record.key for record in incoming})


@pytest.mark.parametrize("ordered", [True, False], ids=["event-time", "commit-time"])
@given(stored=STORED, incoming=INCOMING)
def test_a_file_group_that_does_not_change_is_not_called_changed(
    stored: list[Record], incoming: list[Record], ordered: bool
):
    decision, after = run(stored, incoming, ordered=ordered)

    assert decision.changed or by_key(after) == by_key(stored)


@given(stored=STORED, incoming=INCOMING)
def test_a_merge_again_changes_no_record(stored: list[Record], incoming: list[Record]):
    _, once = run(stored, incoming, ordered=True)
    upserts = [record for record in latest(incoming, ordered=True).values() if not record.delete]

    assert by_key(run(once, upserts, ordered=True)[1]) == by_key(once)


@given(stored=STORED, incoming=INCOMING)
def test_an_insert_that_drops_keeps_every_stored_record(stored: list[Record], incoming: list[Record]):
    incoming = [record._replace(delete=False) for record in incoming]
    decision, after = run(stored, incoming, ordered=False, existing=Existing.DROP)

    assert set(stored) <= set(after)
    assert {record.key for record in after} == {record.key for record in [*stored, *incoming]}
    assert (decision.updates, decision.deletes, decision.duplicates) == (0, 0, 0)


@given(stored=STORED, incoming=INCOMING)
def test_an_insert_counts_the_keys_that_exist(stored: list[Record], incoming: list[Record]):
    incoming = [record._replace(delete=False) for record in incoming]
    decision, _ = run(stored, incoming, ordered=False, existing=Existing.FAIL)
    common = {record.key for record in stored} & {record.key for record in incoming}

    assert decision.duplicates == len(common)
    assert (decision.duplicate_key in common) if common else (decision.duplicate_key is None)


@given(before=STORED, after=STORED)
def test_deleted_rows_are_those_whose_key_is_gone(before: list[Record], after: list[Record]):
    gone = as_records(merge.deleted_rows(as_table(before), as_table(after)))

    assert gone == [record for record in before if record.key not in {other.key for other in after}]


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (pa.scalar(1.5), pa.scalar(2.5)),
        (pa.scalar(math.nan), pa.scalar(-math.inf)),
        (pa.scalar("a"), pa.scalar("b")),
        (pa.scalar(False), pa.scalar(True)),
        (pa.scalar(1, pa.timestamp("us", "UTC")), pa.scalar(2, pa.timestamp("us", "UTC"))),
        (pa.scalar(1, pa.date32()), pa.scalar(2, pa.date32())),
        (
            pa.scalar("1.10", pa.string()).cast(pa.decimal128(9, 2)),
            pa.scalar("1.20").cast(pa.decimal128(9, 2)),
        ),
    ],
    ids=lambda value: str(value.type),
)
def test_every_type_of_ordering_field_orders(small: pa.Scalar, large: pa.Scalar):
    twice = as_table([Record("a", None, 1), Record("a", None, 2)])
    values = pa.array([large.as_py(), small.as_py()], large.type)
    table = twice.set_column(3, "ordering", values)

    assert merge.latest_per_key(table, ["ordering"]).records["value"].to_pylist() == [1]
    decision = merge.decide(
        table.slice(0, 1), table.slice(1), ordering_fields=["ordering"], existing=Existing.MERGE
    )
    assert not decision.changed


@pytest.mark.parametrize("ordered", [True, False], ids=["event-time", "commit-time"])
@given(incoming=INCOMING)
def test_rows_that_differ_and_that_nothing_orders_are_ambiguous_and_no_others(
    incoming: list[Record], ordered: bool
):
    table = as_table(incoming).drop_columns([f"{columns.ORDER_PREFIX}0"])
    result = merge.latest_per_key(table, ["ordering"] if ordered else [])
    outcomes = {
        tuple(sorted(map(outcome, latest(order, ordered=ordered).values())))
        for order in (incoming, incoming[::-1])
    }

    assert (result.ambiguous > 0) >= (len(outcomes) > 1)
    assert (result.ambiguous > 0) == any(differ(incoming, ordered=ordered))
    assert (result.ambiguous_key is None) == (result.ambiguous == 0)


def outcome(record: Record) -> tuple[Any, ...]:
    """The row that a winner leaves: of a delete its key alone."""
    return (record.key, "deleted") if record.delete else (record.key, str(record))


def differ(records: list[Record], *, ordered: bool) -> Iterator[bool]:
    """For each key, whether its winner depends on the order of the rows."""
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        tied = [record for record in of_key if all(wins(record, other, ordered=ordered) for other in of_key)]
        yield len({outcome(record) for record in tied}) > 1


def test_nulls_nans_and_nested_values_are_compared_by_value():
    same = as_table([Record("a", None, 1), Record("a", None, 1)]).drop_columns([f"{columns.ORDER_PREFIX}0"])
    equal = same.append_column("f", pa.array([math.nan] * 2)).append_column("n", pa.array([[1, None]] * 2))

    assert merge.latest_per_key(equal, ()).ambiguous == 0
    assert merge.latest_per_key(same.append_column("f", pa.array([math.nan, None])), ()).ambiguous == 1
    assert merge.latest_per_key(same.append_column("n", pa.array([[1], [2]])), ()).ambiguous == 1
    nested = pa.array([[math.nan], [float("nan")]])
    assert merge.latest_per_key(same.append_column("n", nested), ()).ambiguous == 0
    far = pa.array([[2**31 - 1], [2**31 - 1]], pa.list_(pa.date32()))
    assert merge.latest_per_key(same.append_column("d", far), ()).ambiguous == 0
