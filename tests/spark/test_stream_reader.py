"""The source of streams and the server: where it begins, what its lease holds, and what it asks. No Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructType

import chronolake
from chronolake_model.instants import Instant
from chronolake_model.schemas import AddColumn
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action
from chronolake_spark import errors
from chronolake_spark.read import format_reader
from chronolake_spark.stream import read_options
from chronolake_spark.stream.offsets import BEGINNING, StreamOffset
from chronolake_spark.stream.plans import BatchLimits
from chronolake_spark.stream.reader import FollowedChanges, StreamReader

STRUCT = StructType().add("id", LongType()).add("_change_type", StringType())
ALL = BatchLimits()
_NUMBERS = itertools.count(1)


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> chronolake.Table:
    name = f"spark.followed{next(_NUMBERS)}"
    return client.create_table(
        name,
        base_path=str(tmp_path / name),
        schema=[Field("id", "bigint", False)],
        record_key_fields=["id"],
    )


class Pauses:
    """A clock that only the pauses of the source move."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def now(self) -> float:
        return sum(self.seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def follow(
    table: chronolake.Table, client: chronolake.Client, pauses: Pauses
) -> Iterator[Callable[..., FollowedChanges]]:
    """Starts a query; a later one is the query started again. All are stopped at the end."""
    started: list[FollowedChanges] = []

    def start(**options: str) -> FollowedChanges:
        given = {"table": table.name, "url": client.url, "view": "changes", **options}
        view = format_reader.view_of(given)
        parsed = read_options.parse(given)
        started.append(FollowedChanges(parsed, view, STRUCT, pauses.now, pauses.seconds.append))
        return started[-1]

    yield start
    for following in started:
        following.close()


def commit(table: chronolake.Table) -> str:
    """The completion time of a commit without files."""
    return completed(table.begin().complete())


def completed(instant: Instant) -> str:
    assert instant.completion_time is not None
    return instant.completion_time


def clean(table: chronolake.Table, before: str) -> None:
    """A clean by hand, which asks no reader."""
    with table.begin(action=Action.CLEAN) as instant:
        instant.clean_before(before)


def held(table: chronolake.Table) -> list[str | None]:
    assert all(lease.follows for lease in table.readers())
    return [lease.as_of for lease in table.readers()]


def end_of(following: FollowedChanges, start: StreamOffset, limits: BatchLimits = ALL) -> StreamOffset:
    end = following.end_of_batch(start, limits)
    assert end is not None
    return end


def test_a_query_begins_with_everything(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    first, last = commit(table), commit(table)
    following = follow()

    initial = following.initial()

    assert initial.completed == BEGINNING
    assert following.initial() == initial
    assert end_of(following, initial, BatchLimits(commits=1)).completed == first
    assert end_of(following, initial).completed == last


def test_a_query_from_latest_has_only_what_completes_later(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    last = commit(table)
    following = follow(**{"from": "latest"})
    initial = following.initial()
    later = commit(table)

    assert initial.completed == last
    assert following.initial() == initial, "it is the same one for as long as the query runs"
    assert end_of(following, initial).completed == later


def test_a_query_begins_behind_a_time_or_an_offset(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    first, second, third = commit(table), commit(table), commit(table)
    following = follow(**{"from": first})
    offset = end_of(following, following.initial(), BatchLimits(commits=1))
    other = follow(**{"from": json.dumps(offset.to_dict())})

    assert offset.completed == second
    assert end_of(other, other.initial()).completed == third
    assert len(held(table)) == 2, "each query has a lease of its own"


@pytest.mark.parametrize("is_of_table", [True, False])
def test_a_query_after_a_cursor_has_what_completed_behind_it_and_nothing_else(
    table: chronolake.Table,
    client: chronolake.Client,
    follow: Callable[..., FollowedChanges],
    is_of_table: bool,
) -> None:
    feed = table.name if is_of_table else None
    commit(table)
    long_ago = client.end_of_log(feed)
    pending = table.begin()
    second = commit(table)
    cursor = client.end_of_log(feed)
    third = completed(pending.complete())

    following, earlier = follow(after=cursor), follow(after=long_ago)

    assert end_of(following, following.initial(), BatchLimits(commits=1)).completed == third
    assert held(table)[0] == second, "what is before the cursor may be cleaned"
    assert end_of(earlier, earlier.initial(), BatchLimits(commits=1)).completed == second


def test_a_query_after_a_cursor_from_before_the_table_begins_with_everything(
    client: chronolake.Client, table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)

    assert follow(after=next(iter(client.events())).cursor).initial().completed == BEGINNING


def test_a_cursor_of_another_table_or_of_nothing_is_refused(
    client: chronolake.Client, follow: Callable[..., FollowedChanges], tmp_path: Path
) -> None:
    other = client.create_table(
        f"spark.other{next(_NUMBERS)}",
        base_path=str(tmp_path / "other"),
        schema=[Field("id", "bigint", False)],
        record_key_fields=["id"],
    )

    for cursor in (client.end_of_log(other.name), "latest", ""):
        with pytest.raises(errors.InvalidOption, match="is no cursor of the events of spark"):
            follow(after=cursor).initial()


def test_a_cursor_whose_changes_are_cleaned_is_refused_with_advice(
    client: chronolake.Client, table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    cursor = client.end_of_log(table.name)
    clean(table, commit(table))

    with pytest.raises(errors.StreamBehind, match="from = earliest"):
        follow(after=cursor).initial()


def test_a_query_of_a_cleaned_table_begins_with_the_first_time_that_can_be_read(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    second, third = commit(table), commit(table)
    clean(table, second)
    following = follow()

    end = end_of(following, following.initial(), BatchLimits(commits=1))

    assert end.completed == second
    assert end_of(following, end).completed == third


def test_a_begin_that_is_cleaned_is_refused_with_advice(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    first, second = commit(table), commit(table)
    clean(table, second)

    with pytest.raises(errors.StreamBehind, match="from = earliest") as refused:
        follow(**{"from": first}).initial()

    assert refused.value.context["first_servable_time"] == second


def test_the_lease_moves_with_the_batches_that_are_done(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    first = commit(table)
    following = follow(**{"from": "latest"})
    initial = following.initial()
    assert held(table) == [first]
    second = commit(table)
    end = end_of(following, initial)
    assert held(table) == [first], "the batch may have to be read again"

    following.release_until(end)

    assert held(table) == [second]


def test_a_query_that_starts_again_goes_on_under_its_lease(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    first = commit(table)
    before = follow(**{"from": "latest"})
    initial = before.initial()
    commit(table)
    end = end_of(before, initial)
    before.close()
    [lease] = table.readers()

    again = follow(**{"from": "latest"})
    assert again.tasks(initial, end) == []

    assert [reader.lease_id for reader in table.readers()] == [lease.lease_id]
    assert held(table) == [first]
    assert end.lease_id == lease.lease_id


def test_a_first_batch_that_is_read_again_begins_where_it_began(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    """Spark asks for the initial offset again, and has the end from its checkpoint."""
    first = commit(table)
    before = follow(**{"from": "latest"})
    initial = before.initial()
    commit(table)
    end = end_of(before, initial)
    before.close()
    last = commit(table)

    again = follow(**{"from": "latest"})
    resolved_again = again.initial()
    again.tasks(resolved_again, end)

    assert resolved_again.completed == last
    assert held(table) == [first]
    assert end_of(again, end).completed == last


def test_a_query_whose_lease_ended_takes_another_one(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    before = follow()
    end = end_of(before, before.initial())
    before.close()
    assert table.resume_reading(end.lease_id).end()
    last = commit(table)

    following = end_of(follow(), end)

    assert following.lease_id != end.lease_id
    assert following.completed == last
    assert held(table) == [end.completed]


def test_a_query_whose_lease_is_ended_while_it_runs_takes_another_one(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    following = follow()
    end = end_of(following, following.initial())
    table.resume_reading(end.lease_id).end()
    following.release_until(end)
    commit(table)

    end_of(following, end)

    assert held(table) == [end.completed]


def test_a_query_that_was_stopped_for_too_long_says_how_to_go_on(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    before = follow(lease_seconds="60")
    end = end_of(before, before.initial())
    before.close()
    last = commit(table)
    clean(table, last)

    with pytest.raises(errors.StreamBehind, match="another checkpoint folder"):
        follow().tasks(end, end.at(last))


def test_an_idle_query_asks_no_more_often_than_its_pause(
    table: chronolake.Table, follow: Callable[..., FollowedChanges], pauses: Pauses
) -> None:
    commit(table)
    following = follow(idle_ms="400")
    end = end_of(following, following.initial())

    assert [following.end_of_batch(end, ALL) for _ in range(5)] == [None] * 5

    assert pauses.seconds == [pytest.approx(0.4)] * 4


def test_a_query_of_what_is_available_ends_there_and_does_not_pause(
    table: chronolake.Table, follow: Callable[..., FollowedChanges], pauses: Pauses
) -> None:
    first, second = commit(table), commit(table)
    following = follow(max_commits="1")
    following.stop_at_latest()
    commit(table)

    offsets = [following.initial()]
    while (end := following.end_of_batch(offsets[-1], BatchLimits(commits=1))) is not None:
        offsets.append(end)

    assert [offset.completed for offset in offsets] == [BEGINNING, first, second]
    assert pauses.seconds == []


def test_a_trigger_that_reads_all_lifts_the_limits(table: chronolake.Table, client: chronolake.Client) -> None:
    commit(table)
    last = commit(table)
    options = {"table": table.name, "url": client.url, "view": "changes", "max_commits": "1"}
    reader = StreamReader(options, None, STRUCT)

    limited = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    whole = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    nothing_new = reader.latestOffset(whole, ReadAllAvailable())
    reader.stop()

    assert limited["completed"] < whole["completed"] == last
    assert nothing_new == whole


def test_changed_columns_stop_the_query_before_its_next_batch(
    table: chronolake.Table, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    following = follow()
    end = end_of(following, following.initial())
    table.change_schema([AddColumn("note", "string")])
    assert following.end_of_batch(end, ALL) is None, "nothing has to be read with the new columns yet"
    last = commit(table)

    with pytest.raises(errors.SchemaMismatch, match="same checkpoint folder"):
        following.end_of_batch(end, ALL)

    assert end_of(follow(), end).completed == last


def test_a_table_that_was_made_again_is_another_one(
    table: chronolake.Table, client: chronolake.Client, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    before = follow()
    end = end_of(before, before.initial())
    before.close()
    client.drop_table(table.name)
    client.create_table(
        table.name,
        base_path=f"{table.definition.base_path}-again",
        schema=[Field("id", "bigint", False)],
        record_key_fields=["id"],
    )

    with pytest.raises(errors.InvalidOption, match="dropped and made again"):
        follow().end_of_batch(end, ALL)


def test_a_dropped_table_ends_the_query(
    table: chronolake.Table, client: chronolake.Client, follow: Callable[..., FollowedChanges]
) -> None:
    commit(table)
    following = follow()
    end = end_of(following, following.initial())
    client.drop_table(table.name)

    with pytest.raises(errors.InvalidOption, match="renamed, start the query with the new name"):
        following.end_of_batch(end, ALL)
