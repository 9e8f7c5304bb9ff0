"""Publication is ordered, and no writer waits for a dead one: conflicts at complete, and leases.

Promises 3 and 6 (docs/architecture.md#promises); the rules: docs/architecture.md#instants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.server import database, rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

NOON = 1_893_499_200_000_000
"""2030-01-01T12:00:00 UTC, in microseconds."""
SECOND = 1_000_000


def test_of_two_writers_of_a_file_group_the_first_to_complete_wins(table: Table) -> None:
    loser, winner = table.begun(writer="loser"), table.begun(writer="winner")
    won = succeeded(table.complete(winner, write_stat(winner, bucket=1)))

    problem = refused(table.complete(loser, write_stat(loser, bucket=1)), 409, "write-conflict")

    assert problem["context"] == {
        "winner": winner,
        "winner_action": "commit",
        "winner_state": "completed",
        "rebase_on": won["completion_time"],
        "file_groups": [{"partition_path": "", "file_id": write_stat(loser, bucket=1)["file_id"]}],
        "file_groups_in_common": 1,
    }
    assert table.state(loser) == "inflight"


def test_a_log_file_that_is_based_on_reads_conflicts_with_what_completed_since(
    shared_http: httpx.Client,
) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    reader, late, winner = (table.begun(action="deltacommit") for _ in range(3))
    won = succeeded(table.complete(winner, log_stat(winner)))

    problem = refused(table.complete(reader, log_stat(reader), based_on_reads=True), 409, "write-conflict")
    assert problem["context"]["rebase_on"] == won["completion_time"]
    assert succeeded(table.complete(late, log_stat(late)))["state"] == "completed"

    again = table.begun(action="deltacommit")
    assert succeeded(table.complete(again, log_stat(again), based_on_reads=True))["state"] == "completed"


def test_of_eight_writers_of_a_file_group_that_complete_at_once_exactly_one_wins(table: Table) -> None:
    begun = [table.begun() for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda time: table.complete(time, write_stat(time)), begun))

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"write-conflict"}


@pytest.fixture
def leased(shared_dsn: str, shared_http: httpx.Client) -> Iterator[Table]:
    """A table over a database whose clocks stand still at noon, until a test sets them."""
    database.set_clocks(shared_dsn, str(NOON))
    yield rest.make_table(shared_http)
    database.restore_clocks(shared_dsn)


def test_a_late_writer_that_was_not_rolled_back_may_still_complete(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 3_600 * SECOND))

    assert succeeded(leased.complete(held, write_stat(held)))["state"] == "completed"


def test_of_concurrent_complete_and_rollback_exactly_one_takes_effect(leased: Table, shared_dsn: str) -> None:
    raced = [leased.begun(writer="owner", lease_seconds=1) for _ in range(16)]
    database.set_clocks(shared_dsn, str(NOON + 10 * SECOND))

    with ThreadPoolExecutor(8) as threads:
        completing = [threads.submit(leased.complete, time) for time in raced]
        rolling_back = [threads.submit(leased.roll_back, time, "other") for time in raced]
        pairs = [
            (completed.result().status_code, rolled_back.result().status_code)
            for completed, rolled_back in zip(completing, rolling_back, strict=True)
        ]

    assert set(pairs) <= {(200, 409), (410, 200)}


class MergeOnRead:
    """A merge-on-read table with one file group, and its table services."""

    def __init__(self, http: httpx.Client, **properties: str) -> None:
        self.table = rest.make_table(
            http,
            type="merge_on_read",
            index={"type": "simple"},
            properties={"hudi.publish": "false"} | properties,
        )
        first = self.begun()
        stat = write_stat(first)
        succeeded(self.table.complete(first, stat))
        self.group = {"partition_path": "", "file_id": stat["file_id"]}

    def begun(self) -> str:
        return self.table.begun(action="deltacommit")

    def planned(self, action: str) -> str:
        return self.table.begun(action=action, plan={"file_groups": [self.group]})

    def compact(self) -> None:
        time = self.planned("compaction")
        succeeded(self.table.complete(time, write_stat(time)))

    def cluster(self, time: str) -> httpx.Response:
        clustered = write_stat(time, bucket=7)
        return self.table.complete(time, clustered, replaced_file_groups=[self.group])

    def mark(self, time: str, kind: str = "APPEND") -> None:
        name = (log_stat if kind == "APPEND" else write_stat)(time)["file_name"]
        self.table.marked(time, {"partition_path": "", "file_name": name, "kind": kind})


@pytest.mark.parametrize("stat", [log_stat, write_stat])
def test_a_clustering_gives_way_to_a_pending_write_that_has_marked_a_file_of_its_groups(
    shared_http: httpx.Client, stat: Callable[[str], Json]
) -> None:
    merge_on_read = MergeOnRead(shared_http)
    table, writing = merge_on_read.table, merge_on_read.begun()
    clustering = merge_on_read.planned("clustering")
    merge_on_read.mark(writing, "APPEND" if stat is log_stat else "MERGE")

    refusal = refused(merge_on_read.cluster(clustering), 409, "write-conflict")

    assert refusal["context"]["winner"] == writing
    succeeded(table.complete(writing, stat(writing)))
    assert table.state(clustering) == "rolled_back"


def test_a_clustering_completes_after_the_end_of_a_write_that_has_marked_a_file_of_its_groups(
    shared_http: httpx.Client,
) -> None:
    merge_on_read = MergeOnRead(shared_http)
    writing, clustering = merge_on_read.begun(), merge_on_read.planned("clustering")
    merge_on_read.mark(writing)
    succeeded(merge_on_read.table.roll_back(writing))
    succeeded(merge_on_read.cluster(clustering))


def test_a_compaction_does_not_refuse_a_log_file_that_is_based_on_reads(shared_http: httpx.Client) -> None:
    merge_on_read = MergeOnRead(shared_http)
    reading = merge_on_read.begun()
    merge_on_read.compact()
    succeeded(merge_on_read.table.complete(reading, log_stat(reading), based_on_reads=True))


def test_a_compaction_hides_no_write_from_one_that_is_based_on_reads(shared_http: httpx.Client) -> None:
    merge_on_read = MergeOnRead(shared_http)
    table, reading, writing = merge_on_read.table, merge_on_read.begun(), merge_on_read.begun()
    succeeded(table.complete(writing, log_stat(writing)))
    merge_on_read.compact()
    answer = table.complete(reading, log_stat(reading), based_on_reads=True)
    assert refused(answer, 409, "write-conflict")["context"]["winner"] == writing
