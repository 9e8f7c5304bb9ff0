"""Keys that were looked up: of two writers that insert into one partition, the second to complete conflicts.

The rule: docs/decisions/0048-reads-of-writers.md.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from chronolake_model.file_names import base_file_name
from tests.server import rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    return rest.make_table(
        shared_http,
        index={"type": "simple"},
        partition_fields=["day"],
        properties={"partition-paths.hive-style": "false"},
    )


def file_of(time: str, day: str, **counts: int) -> Json:
    """The write stat of the base file of a new file group."""
    file_id = f"{uuid.uuid4()}-0"
    name = base_file_name(file_id, "0-0-0", time)
    return write_stat(time, partition_path=day, file_id=file_id, file_name=name, **counts)


def complete(table: Table, time: str, *stats: Json, staged: bool = False) -> httpx.Response:
    if not staged:
        return table.complete(time, *stats, keys_looked_up=True)
    return table.complete(time, staged=[table.staged(time, stat) for stat in stats], keys_looked_up=True)


@pytest.mark.parametrize("winner_staged", [False, True])
@pytest.mark.parametrize("loser_staged", [False, True])
def test_the_second_that_inserts_into_a_partition_conflicts(
    table: Table, *, winner_staged: bool, loser_staged: bool
) -> None:
    loser, winner = table.begun(writer="loser"), table.begun(writer="winner")
    won = succeeded(complete(table, winner, file_of(winner, "a"), file_of(winner, "b"), staged=winner_staged))
    problem = refused(
        complete(table, loser, file_of(loser, "c"), file_of(loser, "b"), staged=loser_staged),
        409,
        "write-conflict",
    )
    assert problem["context"] == {
        "winner": winner,
        "winner_action": "commit",
        "winner_state": "completed",
        "rebase_on": won["completion_time"],
        "file_groups": [],
        "file_groups_in_common": 0,
        "partition_paths": ["b"],
    }
    again = table.begun()
    succeeded(complete(table, again, file_of(again, "b"), staged=loser_staged))


def test_who_did_not_look_keys_up_and_who_began_later_do_not_conflict(table: Table) -> None:
    blind, winner = table.begun(), table.begun()
    succeeded(complete(table, winner, file_of(winner, "a")))
    later = table.begun()
    succeeded(complete(table, later, file_of(later, "a")))
    succeeded(table.complete(blind, file_of(blind, "a")))


def test_with_a_bucket_index_inserts_into_one_partition_do_not_conflict(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http)
    first, second = table.begun(), table.begun()
    succeeded(table.complete(second, write_stat(second, bucket=1), keys_looked_up=True))
    succeeded(table.complete(first, write_stat(first, bucket=0), keys_looked_up=True))


@pytest.mark.parametrize("staged", [False, True])
def test_with_a_record_index_inserts_into_any_partitions_conflict(
    shared_http: httpx.Client, *, staged: bool
) -> None:
    table = rest.make_table(
        shared_http,
        index={"type": "record"},
        partition_fields=["day"],
        properties={"partition-paths.hive-style": "false"},
    )
    inserting, updating, winner = table.begun(), table.begun(), table.begun()
    succeeded(complete(table, winner, file_of(winner, "a"), staged=staged))
    problem = refused(complete(table, inserting, file_of(inserting, "b"), staged=staged), 409, "write-conflict")
    assert problem["context"]["winner"] == winner
    assert problem["context"]["partition_paths"] == ["a"]
    succeeded(complete(table, updating, file_of(updating, "b", inserts=0, updates=1), staged=staged))
    members = [
        {
            "table": table.name,
            "requested_time": time,
            "write_stats": [file_of(time, day)],
            "keys_looked_up": True,
        }
        for time, day in ((table.begun(), "a"), (table.begun(), "b"))
    ]
    refused(table.http.post("/v1/transactions/complete", json={"instants": members}), 409, "write-conflict")


def test_a_rolled_back_insert_is_none(table: Table) -> None:
    first, second = table.begun(), table.begun()
    table.staged(second, file_of(second, "a"))
    succeeded(table.roll_back(second))
    succeeded(complete(table, first, file_of(first, "a")))


def test_of_eight_writers_that_complete_at_once_one_wins(table: Table) -> None:
    times = [table.begun(writer=f"writer-{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda time: complete(table, time, file_of(time, "a")), times))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]


def test_two_that_complete_together_conflict_with_each_other(table: Table) -> None:
    times = [table.begun() for _ in range(2)]
    members = [
        {
            "table": table.name,
            "requested_time": time,
            "write_stats": [file_of(time, "a")],
            "keys_looked_up": True,
        }
        for time in times
    ]
    refused(table.http.post("/v1/transactions/complete", json={"instants": members}), 409, "write-conflict")
    succeeded(table.http.post("/v1/transactions/complete", json={"instants": members[:1]}))


class Compacted:
    """A merge-on-read table with one file group, which is compacted."""

    def __init__(self, http: httpx.Client) -> None:
        self.table = rest.make_table(http, type="merge_on_read", index={"type": "simple"})
        first = self.begun()
        succeeded(self.table.complete(first, write_stat(first)))

    def begun(self) -> str:
        return self.table.begun(action="deltacommit")

    def compact(self) -> None:
        plan = {"file_groups": [{"partition_path": "", "file_id": write_stat("20260101000000000")["file_id"]}]}
        time = self.table.begun(action="compaction", plan=plan)
        succeeded(self.table.complete(time, write_stat(time)))

    def update(self, time: str, *, staged: bool = False) -> httpx.Response:
        return complete(self.table, time, {**log_stat(time), "inserts": 0, "updates": 1}, staged=staged)

    def insert(self, time: str) -> httpx.Response:
        return complete(self.table, time, file_of(time, "", inserts=1))


@pytest.fixture
def compacted(shared_http: httpx.Client) -> Compacted:
    return Compacted(shared_http)


def test_a_compaction_refuses_no_update(compacted: Compacted) -> None:
    update = compacted.begun()
    compacted.compact()
    succeeded(compacted.update(update))


@pytest.mark.parametrize("staged", [False, True])
def test_an_update_conflicts_with_an_insert_if_its_file_group_was_compacted_meanwhile(
    compacted: Compacted, *, staged: bool
) -> None:
    # The compaction forgets that a key was deleted: the insert may have put it into another file group.
    update, insert = compacted.begun(), compacted.begun()
    compacted.compact()
    succeeded(compacted.insert(insert))
    refusal = refused(compacted.update(update, staged=staged), 409, "write-conflict")
    assert refusal["context"]["winner"] == insert


@pytest.mark.parametrize("staged", [False, True])
def test_an_insert_conflicts_with_an_update_of_a_file_group_that_was_compacted_meanwhile(
    compacted: Compacted, *, staged: bool
) -> None:
    update = compacted.begun()
    compacted.compact()
    insert = compacted.begun()
    succeeded(compacted.update(update, staged=staged))
    refusal = refused(compacted.insert(insert), 409, "write-conflict")
    assert refusal["context"]["winner"] == update


def test_an_update_and_an_insert_do_not_conflict_without_a_compaction(compacted: Compacted) -> None:
    compacted.compact()
    update, insert, second_insert = (compacted.begun() for _ in range(3))
    succeeded(compacted.update(update))
    succeeded(compacted.insert(insert))
    refused(compacted.insert(second_insert), 409, "write-conflict")
