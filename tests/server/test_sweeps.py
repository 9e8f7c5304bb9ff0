"""Deleted files are due for a sweep, until a sweep finds no late file."""

from __future__ import annotations

import asyncio

import httpx

from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, Table, keyed, marker, new_key, refused, succeeded, write_stat
from tests.server.test_planned_cleans import cleaned, executed, write


def due(table: Table, **parameters: int) -> list[Json]:
    """The instants that are due at this moment, by default without a grace period."""
    page = succeeded(
        table.http.get(f"/v1/tables/{table.name}/unswept", params={"grace_seconds": 0} | parameters)
    )
    listed: list[Json] = page["instants"]
    return listed


def times(table: Table) -> list[str]:
    return [instant["requested_time"] for instant in due(table)]


def since(table: Table) -> str:
    [instant] = due(table)
    time: str = instant["unswept_since"]
    return time


def sweep(table: Table, instant: str, since: str, *late_files: Json, key: str | None = None) -> httpx.Response:
    """Record a sweep that found the files of these markers."""
    named = [{name: file[name] for name in ("partition_path", "file_name")} for file in late_files]
    headers = {} if key is None else keyed(key)
    body = {"unswept_since": since, "late_files": named}
    return table.http.post(f"/v1/tables/{table.name}/instants/{instant}/sweep", json=body, headers=headers)


def completed(table: Table) -> tuple[str, Json]:
    """An instant that completed, and the marker of a file that it had deleted before."""
    instant = table.begun()
    lost = marker(instant, 1)
    table.marked(instant, marker(instant), lost)
    succeeded(table.report(instant, lost))
    succeeded(table.complete(instant, write_stat(instant)))
    return instant, lost


def unpublished(table: Table, instant: str) -> list[Json]:
    page = table.http.get(f"/v1/tables/{table.name}/instants/{instant}/deletions", params={"unpublished": True})
    files: list[Json] = succeeded(page)["files"]
    return files


def sweeps_of(dsn: str, table: Table) -> int:
    return sum(event["type"] == "DeletionsSwept" for event in database.events(dsn, table.name))


def test_an_instant_is_due_from_its_end_on_if_it_had_files_deleted(table: Table) -> None:
    pending = table.begun()
    table.marked(pending, marker(pending))
    succeeded(table.report(pending, marker(pending)))
    plain = table.begun()
    succeeded(table.complete(plain, write_stat(plain, 3)))
    instant, _ = completed(table)

    assert times(table) == [instant]
    assert due(table)[0] | {"unswept_since": ""} == {
        "requested_time": instant,
        "action": "commit",
        "state": "completed",
        "unswept_since": "",
        "direct_markers_of": None,
    }


def test_it_is_due_after_the_grace_period_of_the_table_and_no_sooner_than_its_lease_lasts(
    table: Table, shared_server: ServerProcess
) -> None:
    hasty = rest.make_table(table.http, properties={"deletions.grace-seconds": "0"})
    for swept_table in (table, hasty):
        completed(swept_table)
    listed = {swept_table: f"/v1/tables/{swept_table.name}/unswept" for swept_table in (table, hasty)}

    assert succeeded(table.http.get(listed[table]))["instants"] == []
    assert succeeded(table.http.get(listed[hasty]))["instants"] == []
    assert len(due(hasty)) == 1


def test_after_an_empty_sweep_nothing_is_due_and_a_repeat_changes_nothing(
    table: Table, shared_server: ServerProcess
) -> None:
    instant, _ = completed(table)
    last, key = since(table), new_key()

    first = succeeded(sweep(table, instant, last, key=key))
    again = [succeeded(sweep(table, instant, last, key=request_key)) for request_key in (key, new_key())]

    assert first == {"table": table.name, "requested_time": instant, "late_files": 0, "unswept_since": None}
    assert again == [first, first]
    assert (times(table), sweeps_of(shared_server.dsn, table)) == ([], 1)


def test_a_late_file_is_recorded_again_and_due_again(table: Table) -> None:
    instant, lost = completed(table)
    last = since(table)

    recorded = succeeded(sweep(table, instant, last, lost))

    assert recorded["late_files"] == 1
    assert recorded["unswept_since"] == since(table) > last
    assert table.deletions(instant) == [lost["file_name"]]


def test_a_sweep_that_did_not_see_the_last_deletion_ends_nothing(table: Table) -> None:
    instant, lost = completed(table)
    seen = since(table)
    succeeded(table.report(instant, lost))

    assert succeeded(sweep(table, instant, seen))["unswept_since"] == since(table) > seen


def test_a_rollback_and_the_deletions_of_its_target_are_both_due(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0), marker(instant, 1))
    succeeded(table.report(instant, marker(instant, 0)))
    rollback = succeeded(table.roll_back(instant))["rolled_back_by"]
    succeeded(table.report(rollback, marker(instant, 1)))
    assert times(table) == [instant]
    succeeded(table.complete(rollback))

    first, second = due(table)

    assert [first["requested_time"], second["requested_time"]] == [instant, rollback]
    assert len(unpublished(table, rollback)) == 2
    for unswept in (first, second):
        succeeded(sweep(table, unswept["requested_time"], unswept["unswept_since"], marker(instant, 0)))
    for unswept in due(table):
        succeeded(sweep(table, unswept["requested_time"], unswept["unswept_since"]))
    assert times(table) == []


def test_a_file_that_was_published_after_it_was_deleted_is_not_looked_for(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0), marker(instant, 1))
    succeeded(table.report(instant, marker(instant, 0), marker(instant, 1)))
    table.marked(instant, marker(instant, 0))
    succeeded(table.complete(instant, write_stat(instant, 0)))

    lost = marker(instant, 1)
    assert unpublished(table, instant) == [{"partition_path": "", "file_name": lost["file_name"]}]
    refused(sweep(table, instant, since(table), marker(instant, 0)), 422, "invalid-deletion")


def test_files_undone_by_a_restore_count_as_published(table: Table) -> None:
    before = table.begun()
    succeeded(table.complete(before, write_stat(before, 2)))
    savepoint = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.report(instant, marker(instant)))
    table.marked(instant, marker(instant))
    succeeded(table.complete(instant, write_stat(instant)))
    restored = {"writer": "w", "savepoint": savepoint["requested_time"]}
    succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=restored))

    assert (times(table), unpublished(table, instant)) == ([instant], [])
    refused(sweep(table, instant, since(table), marker(instant)), 422, "invalid-deletion")
    assert succeeded(sweep(table, instant, since(table)))["unswept_since"] is None


def test_a_file_that_was_never_marked_is_refused(table: Table) -> None:
    instant, _ = completed(table)

    refused(sweep(table, instant, since(table), marker(instant, 7)), 422, "invalid-deletion")


def test_a_page_continues_after_the_one_before(table: Table) -> None:
    instants = [completed(table)[0]]
    for bucket in (2, 3):
        instant = table.begun()
        table.marked(instant, marker(instant, bucket), marker(instant, 1))
        succeeded(table.report(instant, marker(instant, 1)))
        succeeded(table.complete(instant, write_stat(instant, bucket)))
        instants.append(instant)
    path = f"/v1/tables/{table.name}/unswept"

    first = succeeded(table.http.get(path, params={"grace_seconds": 0, "limit": 2}))
    second = succeeded(
        table.http.get(path, params={"grace_seconds": 0, "limit": 2, "cursor": first["next_cursor"]})
    )

    assert [instant["requested_time"] for instant in first["instants"] + second["instants"]] == instants
    assert second["next_cursor"] is None


def test_due_sweeps_follow_from_the_log(server: ServerProcess) -> None:
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        swept, lost = completed(table)
        succeeded(sweep(table, swept, since(table), lost))
        succeeded(sweep(table, swept, since(table)))
        test_a_rollback_and_the_deletions_of_its_target_are_both_due(rest.make_table(http))
        completed(rest.make_table(http))
    server.stop()
    settings = Settings(dsn=server.dsn)

    assert asyncio.run(verification.verify(settings)).findings == []
    assert set(asyncio.run(rebuilding.rebuild(settings)).repaired.values()) == {0}
    database.query_nothing(server.dsn, "UPDATE instant SET unswept_since = '2026-01-01'")
    assert len(asyncio.run(verification.verify(settings)).findings) >= 3
    assert asyncio.run(rebuilding.rebuild(settings)).repaired["instant"] >= 3
    assert asyncio.run(verification.verify(settings)).findings == []


def test_files_deleted_by_a_clean_are_not_due(server: ServerProcess) -> None:
    """The file was published: no writer writes it again."""
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        write(table)
        write(table)

        executed(table, cleaned(table))

        assert due(table) == []
    server.stop()
    settings = Settings(dsn=server.dsn)
    assert asyncio.run(verification.verify(settings)).findings == []
    assert set(asyncio.run(rebuilding.rebuild(settings)).repaired.values()) == {0}


def test_the_rollback_of_an_instant_that_marks_in_storage_is_due_whether_it_deleted_anything_or_not(
    server: ServerProcess,
) -> None:
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        instant = table.begun(markers="direct")
        rollback = succeeded(table.roll_back(instant))["rolled_back_by"]
        assert due(table) == []
        succeeded(table.complete(rollback))

        [unswept] = due(table)

        assert (unswept["requested_time"], unswept["direct_markers_of"]) == (rollback, instant)
        # A file marked there since then is recognised by its name.
        succeeded(sweep(table, rollback, unswept["unswept_since"], marker(instant)))
        assert table.deletions(rollback) == [marker(instant)["file_name"]]
    server.stop()
    assert asyncio.run(verification.verify(Settings(dsn=server.dsn))).findings == []
