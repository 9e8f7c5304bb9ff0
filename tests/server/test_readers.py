"""Leases of readers: the files that they hold, their end, and races with cleans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import httpx
import psycopg

from chronolake_metastore.notes.readers import LEASES_MAX
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, Table, refused, succeeded
from tests.server.test_planned_cleans import (
    clean,
    cleaned,
    executed,
    name_of,
    post,
    reading,
    snapshot,
    write,
)

READERS = 6
ROUNDS = 25
LOCK = (
    f"SELECT table_id, pg_advisory_xact_lock{{}}({AdvisoryLock.READERS_OF_TABLE:d}, hashtext(table_id::text))"
    " FROM lake_table WHERE namespace || '.' || name = %s"
)
LEASE = (
    "INSERT INTO reader (table_id, lease_id, reader, as_of, lease_seconds, expires_at, taken_by)"
    " SELECT %s, gen_random_uuid(), 'r', moment_of(%s), 60, moment(steady_us()) + interval '60 s', 'r'"
)


def renew(table: Table, lease: Json, **body: object) -> httpx.Response:
    return post(table, f"readers/{lease['lease_id']}/heartbeat", dict(body))


def leases(table: Table, **parameters: str | int) -> Json:
    return succeeded(table.http.get(f"/v1/tables/{table.name}/readers", params=parameters))


def expire(dsn: str, lease: Json) -> None:
    """Let a lease have ended a second ago."""
    with database.connected(dsn) as connection:
        connection.execute(
            "UPDATE reader SET expires_at = moment(steady_us()) - interval '1 s' WHERE lease_id = %s",
            [lease["lease_id"]],
        )


def changes(table: Table, from_: str, to: str) -> httpx.Response:
    return table.http.get(f"/v1/tables/{table.name}/changes", params={"from": from_, "to": to})


def test_a_reader_that_follows_holds_its_time_and_all_later_ones(table: Table) -> None:
    done = [write(table) for _ in range(4)]
    lease = reading(table, as_of=done[1]["completion_time"], follows=True)

    planned = cleaned(table)

    assert lease["follows"]
    assert planned["plan"]["files_to_delete"] == [name_of(done[0])]
    executed(table, planned)
    succeeded(changes(table, done[1]["completion_time"], done[2]["completion_time"]))
    assert clean(table) is None


def test_a_reader_that_follows_moves_forward_and_never_back(table: Table) -> None:
    done = [write(table) for _ in range(4)]
    lease = reading(table, as_of=done[0]["completion_time"], follows=True)

    succeeded(renew(table, lease, as_of=done[2]["completion_time"]))
    again = succeeded(renew(table, lease, as_of=done[1]["completion_time"]))

    assert again["as_of"] == done[2]["completion_time"]
    assert cleaned(table)["plan"]["cleaned_before"] == done[2]["completion_time"]
    refused(changes(table, done[1]["completion_time"], "latest"), 410, "history-cleaned")


def test_a_reader_that_follows_an_empty_table_holds_all_of_its_files(table: Table) -> None:
    lease = reading(table, follows=True)
    last = [write(table) for _ in range(3)][-1]

    assert lease["as_of"] is None
    assert clean(table) is None
    assert succeeded(renew(table, lease, as_of=last["completion_time"]))["as_of"] == last["completion_time"]


def test_no_reader_follows_from_a_time_that_only_a_savepoint_holds(table: Table) -> None:
    first = write(table)
    savepoint = {"writer": "w", "instant": first["requested_time"]}
    succeeded(post(table, "savepoints", savepoint, key="savepoint"))
    write(table)
    write(table)
    cleaned(table, retain_commits=1)

    body = {"reader": "r", "as_of": first["completion_time"]}
    succeeded(post(table, "readers", body))
    refused(post(table, "readers", body | {"follows": True}), 410, "history-cleaned")


def test_a_lease_of_one_time_does_not_move(table: Table) -> None:
    first, second = write(table), write(table)
    lease = reading(table, as_of=first["completion_time"])

    refused(renew(table, lease, as_of=second["completion_time"]), 400, "invalid-parameter")

    assert [listed["as_of"] for listed in leases(table)["readers"]] == [first["completion_time"]]


def test_an_ended_lease_that_follows_is_renewed_unless_a_clean_has_passed_it(
    table: Table, shared_dsn: str
) -> None:
    done = [write(table) for _ in range(3)]
    lease = reading(table, as_of=done[0]["completion_time"], follows=True)
    expire(shared_dsn, lease)
    succeeded(renew(table, lease))
    assert clean(table) is None

    expire(shared_dsn, lease)
    cleaned(table)

    refused(renew(table, lease), 404, "reader-not-found")


def test_a_reader_reads_as_of_the_last_completion_by_default(table: Table) -> None:
    assert reading(table)["as_of"] is None, "nothing has completed"
    first, second = write(table), write(table)

    lease = reading(table, lease_seconds=30)

    assert (lease["table"], lease["reader"], lease["lease_seconds"]) == (table.name, "r", 30)
    assert lease["as_of"] == second["completion_time"]
    assert reading(table, as_of=first["completion_time"])["as_of"] == first["completion_time"]
    assert reading(table, as_of="latest")["as_of"] == second["completion_time"]
    assert reading(table, as_of="29990101000000000")["as_of"] == second["completion_time"]


def test_a_lease_is_renewed_for_its_duration_or_a_given_one(table: Table) -> None:
    write(table)
    lease = reading(table, lease_seconds=5)

    again = succeeded(renew(table, lease))
    longer = succeeded(renew(table, lease, lease_seconds=600))

    assert lease["expires_at"] <= again["expires_at"] < longer["expires_at"]
    assert (again["lease_seconds"], longer["lease_seconds"]) == (5, 600)
    assert again | {"expires_at": ""} == lease | {"expires_at": ""}


def test_a_caller_has_a_number_of_leases_of_a_table(table: Table, shared_dsn: str) -> None:
    write(table)
    taken = reading(table)
    with database.connected(shared_dsn) as connection:
        copies = "SELECT table_id, gen_random_uuid(), reader, as_of, lease_seconds, expires_at, follows"
        of_caller, of_others = (
            f"{copies}, {by} FROM reader, generate_series(1, %s)" for by in ("taken_by", "'r'")
        )
        connection.execute(
            f"INSERT INTO reader {of_others} WHERE lease_id = %s", [LEASES_MAX, taken["lease_id"]]
        )
        connection.execute(
            f"INSERT INTO reader {of_caller} WHERE lease_id = %s", [LEASES_MAX - 2, taken["lease_id"]]
        )
    last = reading(table)

    problem = refused(post(table, "readers", {"reader": "r"}), 409, "too-many-leases")

    assert problem["context"] == {"table": table.name, "leases_max": LEASES_MAX}
    assert f"GET /v1/tables/{table.name}/readers lists them" in problem["detail"]
    succeeded(renew(table, last))
    expire(shared_dsn, last)
    reading(table)
    refused(post(table, "readers", {"reader": "r"}), 409, "too-many-leases")


def test_leases_are_listed_page_by_page_as_long_as_they_run(table: Table, shared_dsn: str) -> None:
    write(table)
    taken = [reading(table, reader=f"reader-{number}") for number in range(3)]
    expire(shared_dsn, taken[0])

    first = leases(table, limit=1)
    second = leases(table, limit=1, cursor=first["next_cursor"])

    listed = [*first["readers"], *second["readers"]]
    assert listed == sorted(taken[1:], key=lambda lease: lease["lease_id"])
    assert leases(table, cursor=second["next_cursor"])["readers"] == []
    refused(table.http.get(f"/v1/tables/{table.name}/readers", params={"cursor": "x"}), 400, "invalid-cursor")


def test_files_of_an_ended_lease_are_cleaned_and_the_lease_is_not_renewed(
    table: Table, shared_dsn: str
) -> None:
    first = write(table)
    lease = reading(table)
    write(table)
    expire(shared_dsn, lease)

    assert cleaned(table)["plan"]["files_to_delete"] == [name_of(first)]

    refused(renew(table, lease), 404, "reader-not-found")


def test_an_ended_lease_is_renewed_while_no_clean_has_come(table: Table, shared_dsn: str) -> None:
    first = write(table)
    lease = reading(table)
    write(table)
    expire(shared_dsn, lease)

    succeeded(renew(table, lease))

    assert clean(table) is None
    assert snapshot(table, lease["as_of"]) == [name_of(first)]


def test_an_ended_lease_is_not_renewed_after_a_manual_clean(table: Table, shared_dsn: str) -> None:
    write(table)
    lease = reading(table)
    last = write(table)
    expire(shared_dsn, lease)
    by_hand = table.begun(action="clean")
    succeeded(table.complete(by_hand, cleaned_before=last["completion_time"]))

    refused(renew(table, lease), 404, "reader-not-found")


def test_leases_that_ended_long_ago_are_forgotten(table: Table, shared_dsn: str) -> None:
    write(table)
    lease = reading(table)
    with database.connected(shared_dsn) as connection:
        connection.execute(
            "UPDATE reader SET expires_at = moment(steady_us()) - interval '2 h' WHERE lease_id = %s",
            [lease["lease_id"]],
        )

    reading(table)

    refused(renew(table, lease), 404, "reader-not-found")


def test_a_lease_of_another_table_is_not_found(table: Table) -> None:
    write(table)
    lease = reading(table)
    other = rest.make_table(table.http)

    refused(renew(other, lease), 404, "reader-not-found")
    at = f"/v1/tables/{other.name}/readers/{lease['lease_id']}"
    assert succeeded(table.http.delete(at)) == {"released": False}
    assert leases(table)["readers"] == [lease]


@contextmanager
def between(dsn: str, table: Table, shared: str = "") -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A transaction that holds the lock between readers and cleans until another transaction waits for it."""
    with database.connected(dsn) as other, other.transaction():
        [row] = other.execute(LOCK.format(shared).encode(), [table.name]).fetchall()
        yield other, row["table_id"]
        database.wait_for_waiting(dsn, 1)


def test_a_plan_waits_for_a_lease_that_is_being_taken(table: Table, shared_dsn: str) -> None:
    first = write(table)
    write(table)
    with ThreadPoolExecutor(1) as threads, between(shared_dsn, table, "_shared") as (other, table_id):
        other.execute(LEASE, [table_id, first["completion_time"]])
        planned = threads.submit(clean, table)

    assert planned.result() is None
    assert snapshot(table, first["completion_time"]) == [name_of(first)]


def test_a_lease_waits_for_a_clean_that_is_being_planned(table: Table, shared_dsn: str) -> None:
    first, second = write(table), write(table)
    body = {"reader": "r", "as_of": first["completion_time"]}
    with ThreadPoolExecutor(1) as threads, between(shared_dsn, table) as (other, table_id):
        other.execute(
            "UPDATE lake_table SET cleaned_before = moment_of(%s) WHERE table_id = %s",
            [second["completion_time"], table_id],
        )
        taken = threads.submit(post, table, "readers", body)

    refused(taken.result(), 410, "history-cleaned")


def read_earliest_repeatedly(url: str, dsn: str, name: str, stop: Event) -> int:
    """Take leases of the earliest served time and check that no clean deletes their files.

    Returns the number of leases.
    """
    held = 0
    with rest.connect(url) as http, database.connected(dsn) as connection:
        table = Table(http, name)
        while not stop.is_set():
            lease = reading(table, as_of="earliest")
            if lease["as_of"] is not None:
                files = snapshot(table, lease["as_of"])
                succeeded(renew(table, lease))
                assert snapshot(table, lease["as_of"]) == files
                planned = connection.execute(
                    "SELECT file_name FROM file WHERE file_name = ANY (%s) AND cleaned_by IS NOT NULL", [files]
                ).fetchall()
                assert planned == []
                held += 1
            succeeded(http.delete(f"/v1/tables/{name}/readers/{lease['lease_id']}"))
    return held


def test_no_clean_deletes_files_of_a_concurrent_reader(
    shared_server: ServerProcess, shared_dsn: str, table: Table
) -> None:
    stop = Event()
    with ThreadPoolExecutor(READERS) as threads:
        readers: list[Future[int]] = [
            threads.submit(read_earliest_repeatedly, shared_server.url, shared_dsn, table.name, stop)
            for _ in range(READERS)
        ]
        try:
            planned = clean_repeatedly(table)
        finally:
            stop.set()

    assert planned > 1
    assert sum(reader.result() for reader in readers) > READERS


def clean_repeatedly(table: Table) -> int:
    """Write and clean in turn. Returns the number of cleans."""
    planned = 0
    for _ in itertools.repeat(None, ROUNDS):
        write(table)
        plan = clean(table)
        if plan is not None:
            executed(table, plan)
            planned += 1
    return planned
