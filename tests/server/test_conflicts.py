"""Publication is ordered, and no writer waits for a dead one: conflicts at complete, and leases.

Promises 3 and 6 (docs/architecture.md#promises); the rules: docs/architecture.md#instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.server import database, rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

NOON = 1_893_499_200_000_000
"""2030-01-01T12:00:00 UTC, in microseconds."""
SECOND = 1_000_000


# ---------------------------------------------------------------------------------- file groups


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


def test_a_conflict_names_only_the_groups_in_common(table: Table) -> None:
    loser, winner = table.begun(), table.begun()
    succeeded(table.complete(winner, write_stat(winner, 0), write_stat(winner, 1), write_stat(winner, 2)))

    problem = refused(
        table.complete(loser, write_stat(loser, 1), write_stat(loser, 2), write_stat(loser, 3)),
        409,
        "write-conflict",
    )

    assert [group["file_id"][:8] for group in problem["context"]["file_groups"]] == ["00000001", "00000002"]


def test_the_version_to_rebase_on_is_the_latest_of_several_winners(table: Table) -> None:
    loser = table.begun()
    first, second = table.begun(), table.begun()
    succeeded(table.complete(second, write_stat(second, 1)))
    last = succeeded(table.complete(first, write_stat(first, 0)))

    problem = refused(table.complete(loser, write_stat(loser, 0), write_stat(loser, 1)), 409, "write-conflict")

    assert problem["context"]["winner"] == first
    assert problem["context"]["rebase_on"] == last["completion_time"]


def test_a_loser_publishes_none_of_its_files(table: Table) -> None:
    loser, winner = table.begun(), table.begun()
    succeeded(table.complete(winner, write_stat(winner, 0)))
    refused(table.complete(loser, write_stat(loser, 0), write_stat(loser, 3)), 409, "write-conflict")

    snapshot = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))

    assert [file_slice["base_instant_time"] for file_slice in snapshot["slices"]] == [winner]


def test_a_loser_wins_when_it_writes_again_in_a_new_instant(table: Table) -> None:
    loser, winner = table.begun(), table.begun()
    succeeded(table.complete(winner, write_stat(winner)))
    refused(table.complete(loser, write_stat(loser)), 409, "write-conflict")
    succeeded(table.roll_back(loser))
    again = table.begun()

    assert succeeded(table.complete(again, write_stat(again)))["state"] == "completed"


def test_writers_of_different_buckets_never_conflict(table: Table) -> None:
    first, second = table.begun(), table.begun()

    assert succeeded(table.complete(second, write_stat(second, 0)))["state"] == "completed"
    assert succeeded(table.complete(first, write_stat(first, 1)))["state"] == "completed"


def test_writers_of_one_bucket_in_different_partitions_never_conflict(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, partition_fields=["day"])
    first, second = table.begun(), table.begun()

    assert succeeded(table.complete(second, write_stat(second, 0, "day=1")))["state"] == "completed"
    assert succeeded(table.complete(first, write_stat(first, 0, "day=2")))["state"] == "completed"


def test_a_writer_that_began_after_the_winner_completed_does_not_conflict(table: Table) -> None:
    winner = table.begun()
    succeeded(table.complete(winner, write_stat(winner)))
    later = table.begun()

    assert succeeded(table.complete(later, write_stat(later)))["state"] == "completed"


def test_a_rolled_back_writer_conflicts_with_no_other(table: Table) -> None:
    given_up, other = table.begun(), table.begun()
    succeeded(table.roll_back(given_up))

    assert succeeded(table.complete(other, write_stat(other)))["state"] == "completed"


def test_two_tables_of_the_same_file_groups_never_conflict(shared_http: httpx.Client) -> None:
    first_table, second_table = rest.make_table(shared_http), rest.make_table(shared_http)
    first = first_table.begun()
    second = second_table.begun()
    succeeded(second_table.complete(second, write_stat(second)))

    assert succeeded(first_table.complete(first, write_stat(first)))["state"] == "completed"


def test_log_files_of_one_file_group_never_conflict(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    first, second = table.begun(action="deltacommit"), table.begun(action="deltacommit")

    assert succeeded(table.complete(second, log_stat(second)))["state"] == "completed"
    assert succeeded(table.complete(first, log_stat(first)))["state"] == "completed"


def test_a_log_file_does_not_conflict_with_a_base_file_that_completed_first(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    base, log = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    succeeded(table.complete(base, write_stat(base)))

    assert succeeded(table.complete(log, log_stat(log)))["state"] == "completed"


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


def test_two_base_files_of_one_group_conflict_on_merge_on_read_too(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    loser, winner = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    succeeded(table.complete(winner, write_stat(winner)))

    refused(table.complete(loser, write_stat(loser)), 409, "write-conflict")


def test_of_eight_writers_of_a_file_group_that_complete_at_once_exactly_one_wins(table: Table) -> None:
    begun = [table.begun() for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda time: table.complete(time, write_stat(time)), begun))

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"write-conflict"}


# ---------------------------------------------------------------------------------- leases


@pytest.fixture
def leased(shared_dsn: str, shared_http: httpx.Client) -> Iterator[Table]:
    """A table over a database whose clocks stand still at noon, until a test sets them."""
    database.set_clocks(shared_dsn, str(NOON))
    yield rest.make_table(shared_http)
    database.restore_clocks(shared_dsn)


def test_before_a_lease_ends_another_writer_cannot_roll_back(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 9 * SECOND))

    problem = refused(leased.roll_back(held, writer="other"), 409, "lease-live")

    assert problem["context"]["writer"] == "owner"
    assert leased.state(held) == "inflight"


def test_the_writer_itself_may_roll_back_at_any_time(leased: Table) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)

    assert succeeded(leased.roll_back(held, writer="owner"))["state"] == "rolled_back"


def test_once_a_lease_has_ended_anybody_may_roll_back(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 11 * SECOND))

    assert succeeded(leased.roll_back(held, writer="other", reason="silent"))["state"] == "rolled_back"


@pytest.mark.parametrize("verb", ["inflight", "complete", "heartbeat"])
def test_a_writer_that_was_rolled_back_is_refused(leased: Table, shared_dsn: str, verb: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 11 * SECOND))
    succeeded(leased.roll_back(held, writer="other", reason="silent"))

    body: Json | None = None if verb == "inflight" else {}
    answer = leased.http.post(f"/v1/tables/{leased.name}/instants/{held}/{verb}", json=body)

    assert refused(answer, 410, "instant-rolled-back")["context"]["reason"] == "silent"


def test_a_heartbeat_makes_the_lease_run_anew(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 9 * SECOND))
    succeeded(leased.heartbeat(held))
    database.set_clocks(shared_dsn, str(NOON + 18 * SECOND))

    refused(leased.roll_back(held, writer="other"), 409, "lease-live")


def test_a_heartbeat_may_request_a_longer_lease(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    succeeded(leased.heartbeat(held, lease_seconds=100))
    database.set_clocks(shared_dsn, str(NOON + 99 * SECOND))

    refused(leased.roll_back(held, writer="other"), 409, "lease-live")


def test_a_late_writer_that_was_not_rolled_back_may_still_complete(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_clocks(shared_dsn, str(NOON + 3_600 * SECOND))

    assert succeeded(leased.complete(held, write_stat(held)))["state"] == "completed"


def test_a_clock_that_is_set_back_ends_no_lease_early(leased: Table, shared_dsn: str) -> None:
    held = leased.begun(writer="owner", lease_seconds=10)
    database.set_wall_clock(shared_dsn, str(NOON - 3_600 * SECOND))

    refused(leased.roll_back(held, writer="other"), 409, "lease-live")


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
