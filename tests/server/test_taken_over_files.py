"""A table that took a folder over deletes no file that a dropped table has published there."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import httpx
import pytest

from chronolake_model.times import parse_time
from tests.server import database, rest
from tests.server.rest import Json, Table, marker, refused, succeeded, write_stat

NOW = "20260101000000000"
"""A time of Hudi's, at which the later table has an instant."""
FILE = {name: write_stat(NOW)[name] for name in ("partition_path", "file_name")}


def adoption(http: httpx.Client, base_path: str, *instants: Json) -> Json:
    name = f"ns_{uuid.uuid4().hex[:12]}.later"
    succeeded(http.post("/v1/namespaces", json={"name": name.partition(".")[0]}))
    definition = rest.table_body(name, base_path=base_path, index={"type": "simple"}, reuse_base_path=True)
    return {"definition": definition, "instants": list(instants), "writer": "w"}


def dropped(http: httpx.Client) -> tuple[str, str]:
    """The base path of a dropped table, and the time of its only instant, which has published a file."""
    table = rest.make_table(http)
    time = table.begun()
    succeeded(table.complete(time, write_stat(time)))
    base_path: str = succeeded(http.get(f"/v1/tables/{table.name}"))["base_path"]
    assert http.delete(f"/v1/tables/{table.name}").status_code == 204
    return base_path, time


def test_an_instant_that_a_dropped_table_has_completed_is_not_adopted_as_pending(
    shared_http: httpx.Client,
) -> None:
    base_path, time = dropped(shared_http)
    request = adoption(shared_http, base_path, {"requested_time": time, "action": "commit"})

    checked = refused(shared_http.post("/v1/tables/adopt/dry-run", json=request), 422, "invalid-table")
    problem = refused(shared_http.post("/v1/tables/adopt", json=request), 422, "invalid-table")

    assert time in problem["detail"]
    assert checked["detail"] == problem["detail"]


def test_an_instant_of_which_a_dropped_table_has_staged_files_is_not_adopted_as_pending(
    shared_http: httpx.Client,
) -> None:
    table = rest.make_table(shared_http)
    published, staged = table.begun(), table.begun()
    succeeded(table.complete(published, write_stat(published)))
    table.staged(staged, write_stat(staged, 1))
    base_path = succeeded(shared_http.get(f"/v1/tables/{table.name}"))["base_path"]
    assert shared_http.delete(f"/v1/tables/{table.name}").status_code == 204
    request = adoption(shared_http, base_path, {"requested_time": staged, "action": "commit"})

    refused(shared_http.post("/v1/tables/adopt", json=request), 422, "invalid-table")


def test_files_of_a_table_are_known_after_a_second_one_in_its_folder_was_dropped_too(
    shared_http: httpx.Client,
) -> None:
    base_path, time = dropped(shared_http)
    second = f"ns_{uuid.uuid4().hex[:12]}.second"
    succeeded(shared_http.post("/v1/namespaces", json={"name": second.partition(".")[0]}))
    definition = rest.table_body(second, base_path=base_path)
    succeeded(shared_http.post("/v1/tables", json=definition | {"reuse_base_path": True}))
    assert shared_http.delete(f"/v1/tables/{second}").status_code == 204

    refused(shared_http.post("/v1/tables", json=definition), 409, "base-path-taken")
    request = adoption(shared_http, base_path, {"requested_time": time, "action": "commit"})
    refused(shared_http.post("/v1/tables/adopt", json=request), 422, "invalid-table")


@pytest.fixture
def later(shared_http: httpx.Client, shared_dsn: str) -> Table:
    """A table whose only instant is pending, in the folder of a dropped one that completed it.

    Such an adoption is refused. So the dropped table's instant gets its time afterwards.
    """
    base_path, time = dropped(shared_http)
    request = adoption(shared_http, base_path, {"requested_time": NOW, "action": "commit"})
    name = succeeded(shared_http.post("/v1/tables/adopt", json=request))["table"]["name"]
    of_dropped = (
        "table_id IN (SELECT table_id FROM lake_table "
        f"WHERE definition ->> 'base_path' = '{base_path}' AND dropped_at IS NOT NULL)"
    )
    at = f"requested_time = moment({parse_time(NOW)})"
    name_then = f"file_name = replace(file_name, '{time}', '{NOW}')"
    with database.connected(shared_dsn) as connection:
        connection.execute(f"UPDATE instant SET {at} WHERE {of_dropped}")
        connection.execute(f"UPDATE file SET {at}, {name_then} WHERE {of_dropped}")
    return Table(shared_http, name)


def by_write(table: Table) -> Json:
    return {"path": f"instants/{NOW}/deletable", "writer": "w"}


def by_rollback(table: Table) -> Json:
    table.marked(NOW, marker(NOW))
    rollback = succeeded(table.roll_back(NOW, execute=True))["rolled_back_by"]
    return {"path": f"instants/{rollback}/deletable", "writer": "w"}


def by_waiting_rollback(table: Table) -> Json:
    rollback = succeeded(table.roll_back(NOW, files_to_delete=[FILE["file_name"]], execute=False))
    taken = table.inflight(rollback["rolled_back_by"])
    assert taken.status_code in (200, 409), taken.text
    return {"path": f"instants/{rollback['rolled_back_by']}/deletable", "writer": "w"}


def by_sweep_of_a_write(table: Table) -> Json:
    succeeded(table.complete(NOW))
    return {"path": f"instants/{NOW}/deletable"}


def by_clean(table: Table) -> Json:
    clean = table.begun(action="clean", operation="unknown")
    return {"path": f"instants/{clean}/deletable", "writer": "w"}


def as_orphan_of_a_rollback(table: Table) -> Json:
    succeeded(table.roll_back(NOW))
    return {"path": "deletable", "unknown_instants": True}


def as_orphan_of_a_commit(table: Table) -> Json:
    succeeded(table.complete(NOW))
    return {"path": "deletable", "unknown_instants": True}


KINDS: list[Callable[[Table], Json]] = [
    by_write,
    by_rollback,
    by_waiting_rollback,
    by_sweep_of_a_write,
    by_clean,
    as_orphan_of_a_rollback,
    as_orphan_of_a_commit,
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_deletion_may_delete_it(later: Table, kind: Callable[[Table], Json]) -> None:
    question = kind(later)
    path = question.pop("path")

    answer = succeeded(later.http.post(f"/v1/tables/{later.name}/{path}", json=question | {"files": [FILE]}))

    assert [refusal["file_name"] for refusal in answer["refused"]] == [FILE["file_name"]]
