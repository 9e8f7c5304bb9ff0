"""Changes of instants by parts of a log: joined, they are those by the whole, and say what a replay says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from uuid import UUID

import msgspec
import pyarrow as pa
from hypothesis import given, strategies as st

from chronolake_metastore.archive import instant_index, instant_reading, rows
from chronolake_metastore.archive.rows import Row
from chronolake_metastore.domain import actions, archived_instants, events, instants
from chronolake_metastore.domain.archived_instants import InstantChange
from chronolake_metastore.domain.events import Event, Payload
from chronolake_metastore.domain.instants import Instant
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State, WriteSummary

TABLE = UUID(int=7)
WORDS = ("begun_as", "operation", "writer", "state")
SCHEMA = pa.schema(
    [(name, pa.string() if name in WORDS else pa.int64()) for name in list(rows.columns_of("instant"))[1:]]
)
INSTANTS = [Micros(second * 1_000_000) for second in range(1, 6)]
SUMMARY = WriteSummary(files=1, size_bytes=1, records=1, inserts=1, updates=0, deletes=0)
FOLLOWING: list[Payload] = [
    events.InstantInflight(),
    events.InstantInflight(writer="x", lease_seconds=9),
    events.InstantReturnedToRequested(by="w", reason=""),
    events.WriteStatsStaged(summary=SUMMARY, write_stats_digest=""),
    events.LeaseRenewed(lease_seconds=9, lease_expires_at=Micros(9)),
    events.LeaseRenewed(lease_seconds=9, lease_expires_at=Micros(9), writer="y"),
    events.InstantCompleted(summary=SUMMARY, write_stats_digest=""),
]
UNDOING: list[Payload] = [
    events.InstantRolledBack(by="w", reason="r"),
    events.SavepointReleased(by="w", reason="r"),
]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """The events of some instants, of which each is requested, completes once at most, and may be undone."""
    begun = draw(st.lists(st.sampled_from(list(Action)), min_size=1, max_size=len(INSTANTS)))
    payloads: list[list[Payload]] = []
    for action in begun:
        operation = actions.RULES[action].operation or Operation.UPSERT
        state = draw(st.sampled_from([State.REQUESTED, State.INFLIGHT]))
        request = events.InstantRequested(
            action=action, operation=operation, state=state, writer="w", lease_seconds=1
        )
        others = draw(st.lists(st.sampled_from(FOLLOWING[:-1]), max_size=3))
        ends = draw(st.sampled_from([[], FOLLOWING[-1:], UNDOING[:1], [FOLLOWING[-1], UNDOING[1]]]))
        payloads.append([request, *others, *ends])
    order = draw(st.permutations([number for number, own in enumerate(payloads) for _ in own]))
    places: dict[int, int] = {}
    history = []
    for version, number in enumerate(order, 1):
        place = places[number] = places.get(number, -1) + 1
        history.append(_event(version, INSTANTS[number], payloads[number][place]))
    return history


def _event(version: int, requested_time: Micros, payload: Payload) -> Event:
    # The times of requests are those of the instants, as a log has them; here the others do not follow these.
    is_request = isinstance(payload, events.InstantRequested)
    return Event(
        table_id=TABLE,
        version=version,
        time=requested_time if is_request else Micros(version * 1_000),
        instant=requested_time,
        actor="",
        request_id="",
        payload=payload,
        previous_hash=b"",
        hash=b"",
        answers=None,
        answers_hash=None,
        transaction_id=version,
    )


def _changes(part: list[Event]) -> dict[Micros, InstantChange]:
    changes: dict[Micros, InstantChange] = {}
    for event in part:
        encoded = msgspec.json.encode(event.payload).decode()
        name = type(event.payload).__name__
        change = archived_instants.change(name, event.instant, event.time, event.version, encoded)
        assert change is not None
        before = changes.get(change.requested_time)
        changes[change.requested_time] = change if before is None else archived_instants.join(before, change)
    return changes


def _joined(
    earlier: dict[Micros, InstantChange], later: dict[Micros, InstantChange]
) -> dict[Micros, InstantChange]:
    return earlier | {
        key: archived_instants.join(earlier[key], change) if key in earlier else change
        for key, change in later.items()
    }


@given(histories(), st.lists(st.integers(0, 30), max_size=4))
def test_changes_by_parts_of_a_log_joined_are_those_by_the_whole(history: list[Event], cuts: list[int]) -> None:
    parts = [_changes(history[begin:end]) for begin, end in pairwise([0, *sorted(cuts), len(history)])]

    assert reduce(_joined, parts) == _changes(history)


@given(histories(), st.lists(st.integers(0, 30), max_size=4))
def test_joined_by_columns_and_by_rows_they_are_the_same(history: list[Event], cuts: list[int]) -> None:
    parts = [_changes(history[begin:end]) for begin, end in pairwise([0, *sorted(cuts), len(history)])]
    entries = [[instant_index.entry(TABLE, part[key]) for key in sorted(part)] for part in parts]
    expected = list(instant_index.merged([iter(of_part) for of_part in entries]))

    batches = instant_reading.join_batches([_batches(of_part) for of_part in entries])

    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == [row[1:] for row in expected]


def _batches(entries: list[Row]) -> Iterator[pa.RecordBatch]:
    """Entries as row groups of two."""
    for begin in range(0, len(entries), 2):
        columns = list(zip(*entries[begin : begin + 2], strict=True))[1:]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@given(histories())
def test_changes_of_a_whole_log_say_what_a_replay_says(history: list[Event]) -> None:
    replayed: dict[Micros | None, Instant] = {}
    for event in history:
        replayed[event.instant] = instants.evolve(replayed.get(event.instant), event)

    for requested_time, change in _changes(history).items():
        instant = replayed[requested_time]
        assert (change.action, change.operation, change.state, change.writer) == (
            instant.action,
            instant.operation,
            instant.state,
            instant.writer,
        )
        assert (change.completion_time, change.version) == (instant.completion_time, instant.version)
