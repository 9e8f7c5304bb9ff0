"""The pure parts of the source of streams: where batches end, offsets, options."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from chronolake_model.instants import Instant, WriteSummary
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import Action, Operation, State
from chronolake_spark import errors
from chronolake_spark.stream import offsets, plans, read_options
from chronolake_spark.stream.offsets import BEGINNING, StreamOffset
from chronolake_spark.stream.plans import BatchLimits
from chronolake_spark.stream.read_options import FeedCursor

START = 1_767_225_600_000_000

Sizes = Sequence[tuple[int, int] | None]
sizes_of_instants = st.lists(st.none() | st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=30)
limits_of_batches = st.builds(
    BatchLimits,
    commits=st.none() | st.integers(1, 5),
    files=st.none() | st.integers(1, 10),
    size_bytes=st.none() | st.integers(1, 200),
)
times = st.integers(0, 10).map(lambda number: format_time(Micros(START + 1_000 * number))) | st.just(BEGINNING)


def time_of(number: int, tick: Tick = Tick.MILLISECOND) -> str:
    return format_time(Micros(START + 1_000 * number), tick)


def instant(number: int, size: tuple[int, int] | None) -> Instant:
    """One that has completed; ``size`` is its files and bytes, None for a restore."""
    return Instant(
        table="a.b",
        requested_time=time_of(number),
        completion_time=time_of(number),
        action=Action.COMMIT if size else Action.RESTORE,
        operation=Operation.UPSERT,
        state=State.COMPLETED,
        writer="w",
        lease_seconds=60,
        lease_expires_at=None,
        rollback_reason=None,
        summary=None if size is None else WriteSummary(files=size[0], size_bytes=size[1]),
        extra_metadata={},
        version=number,
    )


def batches_of(sizes: Sizes, limits: BatchLimits) -> list[list[int]]:
    """The instants, by their numbers, in the batches of a query that reads them all."""
    instants = [instant(number, size) for number, size in enumerate(sizes)]
    batches: list[list[int]] = []
    while instants:
        end = plans.end_of_batch(iter(instants), limits)
        assert end is not None
        batch = [instant for instant in instants if (instant.completion_time or "") <= end]
        assert batch, "the first instant always fits"
        batches.append([instant.version for instant in batch])
        instants = instants[len(batch) :]
    return batches


@given(sizes=sizes_of_instants, limits=limits_of_batches)
def test_batches_have_each_instant_once_and_in_order(sizes: Sizes, limits: BatchLimits) -> None:
    batches = batches_of(sizes, limits)

    assert [number for batch in batches for number in batch] == list(range(len(sizes)))


@given(sizes=sizes_of_instants, limits=limits_of_batches)
def test_a_batch_is_within_the_limits_or_one_instant_and_takes_all_that_fit(
    sizes: Sizes, limits: BatchLimits
) -> None:
    def fits(numbers: Sequence[int]) -> bool:
        known = [size for number in numbers if (size := sizes[number]) is not None]
        return limits.admits(len(numbers), sum(files for files, _ in known), sum(size for _, size in known))

    for batch in batches_of(sizes, limits):
        assert len(batch) == 1 or fits(batch)
        assert batch[-1] + 1 == len(sizes) or not fits([*batch, batch[-1] + 1])


def test_a_batch_without_limits_takes_all_and_no_instants_make_no_batch() -> None:
    assert batches_of([(1, 1)] * 5, BatchLimits()) == [[0, 1, 2, 3, 4]]
    assert plans.end_of_batch([], BatchLimits()) is None


def test_a_plan_takes_no_more_instants_than_it_needs() -> None:
    instants = iter([instant(number, (1, 1)) for number in range(10)])

    plans.end_of_batch(instants, BatchLimits(commits=3))

    assert next(instants).version == 3


def offset(completed: str, began: str = BEGINNING, table: str = "t") -> StreamOffset:
    return StreamOffset(table, completed, began, "lease")


@given(first=times, second=times, began=times)
def test_an_offset_never_goes_back(first: str, second: str, began: str) -> None:
    moved = offset(first, began).at(second)

    assert not offsets.is_before(moved.completed, first)
    assert not offsets.is_before(moved.completed, second)
    assert moved.completed in {first, second}
    assert StreamOffset.of(moved.to_dict()) == moved


def test_times_of_17_and_20_digits_are_compared_as_times() -> None:
    assert not offsets.is_before(time_of(1), time_of(1, Tick.MICROSECOND))
    assert not offsets.is_before(time_of(1, Tick.MICROSECOND), time_of(1))
    assert offsets.is_before(time_of(1, Tick.MICROSECOND), time_of(2))
    assert offsets.is_before(BEGINNING, time_of(0))


@given(began=times, later=times, end=times)
def test_the_first_batch_begins_where_its_first_run_began(began: str, later: str, end: str) -> None:
    """``latest`` is resolved again by a restart, to a time that may be after the end of the batch."""
    logged = offset(began, began).at(end)

    start = offsets.start_of_batch(offset(later, later), logged)

    assert start == offset(began, began)


def test_a_batch_that_ends_before_its_start_is_refused() -> None:
    with pytest.raises(errors.InvalidOption, match="before its start") as refused:
        offsets.start_of_batch(offset(time_of(5)), offset(time_of(4)))

    assert refused.value.context == {"start": time_of(5), "end": time_of(4)}


def test_a_batch_of_two_tables_is_refused() -> None:
    with pytest.raises(errors.InvalidOption, match="made again"):
        offsets.start_of_batch(offset(time_of(1)), offset(time_of(2), table="other"))


@pytest.mark.parametrize(
    "fields", [{}, {"completed": "1"}, {**offset(BEGINNING).to_dict(), "completed": "yesterday"}]
)
def test_an_offset_of_another_source_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidOption, match="is no offset"):
        StreamOffset.of(fields)


def parsed(**options: str) -> read_options.StreamOptions:
    return read_options.parse({"table": "a.b", "view": "changes", **options})


def test_a_stream_begins_at_the_earliest_time_with_a_thousand_commits_per_batch() -> None:
    options = parsed()

    assert (options.begin, options.limits) == ("earliest", BatchLimits(commits=1_000))
    assert (options.lease_seconds, options.idle_ms, options.reader) == (86_400, 500, None)


def test_a_stream_begins_at_a_word_a_time_an_offset_or_a_cursor() -> None:
    progress = '{"table_id": "t", "completed": "20260101000000000", "began": "", "lease_id": "l"}'

    assert parsed(**{"from": "latest"}).begin == "latest"
    assert parsed(**{"from": "2026-01-31"}).begin == "20260131000000000"
    assert parsed(FROM=progress).begin == StreamOffset("t", "20260101000000000", "", "l")
    assert parsed(after="WyIwIiwwXQ").begin == FeedCursor("WyIwIiwwXQ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from": "yesterday"}, "endOffset of a query's lastProgress"),
        ({"from": "{}"}, "the option from: .*is not the endOffset"),
        ({"from": "{"}, "the option from: .*is not the endOffset"),
        ({"from": "WyIwIiwwXQ"}, "as the option after"),
        ({"from": "latest", "after": "WyIwIiwwXQ"}, "where the stream begins once"),
        ({"as_of": "latest"}, "begin with the option from"),
        ({"to": "latest"}, "spark.read"),
        ({"filter": "a > 1"}, r"\.where"),
        ({"max_commits": "0"}, "from 1 to 10,000, not '0'"),
        ({"max_files": "many"}, "whole number"),
        ({"lease_seconds": "604801"}, "from 1 to 604,800"),
        ({"max_comits": "1"}, "did you mean 'max_commits'"),
        ({"view": "snapshot"}, "has no view snapshot: leave the option view out"),
        ({"view": "read_optimized", "from": "latest"}, "has no view read_optimized"),
    ],
)
def test_options_that_a_stream_cannot_follow_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(errors.InvalidOption, match=message):
        parsed(**options)
