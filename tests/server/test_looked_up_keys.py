"""Keys that were looked up: of two writers that insert into one partition, the second to complete conflicts.

The rule: docs/decisions/0049-inserts-that-were-looked-up.md.
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


@pytest.mark.parametrize("index", ["simple", "bucket"])
def test_an_append_conflicts_with_a_compaction_that_was_planned_since_its_keys_were_looked_up(
    shared_http: httpx.Client, index: str
) -> None:
    table = rest.make_table(shared_http, type="merge_on_read", index={"type": index})
    first = table.begun(action="deltacommit")
    succeeded(table.complete(first, write_stat(first)))
    plan = {"file_groups": [{"partition_path": "", "file_id": write_stat(first)["file_id"]}]}

    def compact() -> None:
        time = table.begun(action="compaction", plan=plan)
        succeeded(table.complete(time, write_stat(time)))

    before, unaware = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    compact()
    succeeded(table.complete(unaware, log_stat(unaware)))
    answer = table.complete(before, log_stat(before), keys_looked_up=True)
    if index == "simple":
        assert refused(answer, 409, "write-conflict")["context"]["winner_action"] == "commit"
    else:
        succeeded(answer)
    after = table.begun(action="deltacommit")
    succeeded(table.complete(after, log_stat(after), keys_looked_up=True))
