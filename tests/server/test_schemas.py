"""The schema of a table over REST: atomic changes, kept versions, and the version of each write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.operations import operation
from tests.server.rest import Json, Table, keyed, refused, succeeded, write_stat

CHANGE = operation("POST", "/v1/tables/{table}/schema")
NOTE: Json = {"change": "add", "name": "note", "type": "string"}


def change_schema(table: Table, *changes: Json, key: str | None = None, **body: object) -> httpx.Response:
    """Request changes of a table's schema."""
    headers = {} if key is None else keyed(key)
    return table.http.post(
        f"/v1/tables/{table.name}/schema", json={"changes": list(changes)} | body, headers=headers
    )


def shown(table: Table) -> Json:
    """The table as it is shown."""
    return succeeded(table.http.get(f"/v1/tables/{table.name}"))


def added(name: str) -> Json:
    """The change that adds a column."""
    return NOTE | {"name": name}


def test_a_new_table_has_version_1_and_numbered_columns(table: Table) -> None:
    made = shown(table)

    assert made["schema_version"] == 1
    assert [(field["field_id"], field["name"]) for field in made["schema"]] == [
        *((1, "id"), (2, "day"), (3, "name"), (4, "at"))
    ]


def test_changes_make_the_next_version_which_the_table_then_shows(table: Table) -> None:
    changes: list[Json] = [
        NOTE,
        {"change": "rename", "name": "name", "new_name": "title"},
        {"change": "drop", "name": "day"},
        {"change": "add", "name": "count", "type": "int"},
        {"change": "widen", "name": "count", "type": "bigint"},
        {"change": "nullable", "name": "id"},
    ]

    made = succeeded(change_schema(table, *changes, expected_schema_version=1))

    assert (made["schema_version"], made["version"]) == (2, 2)
    assert made["fields"] == shown(table)["schema"]
    assert made["fields"] == [
        {"name": "id", "type": "bigint", "nullable": True, "field_id": 1, "nested": []},
        {"name": "title", "type": "string", "nullable": True, "field_id": 3, "nested": []},
        {"name": "at", "type": "timestamp", "nullable": True, "field_id": 4, "nested": []},
        {"name": "note", "type": "string", "nullable": True, "field_id": 5, "nested": []},
        {"name": "count", "type": "bigint", "nullable": True, "field_id": 6, "nested": []},
    ]


def test_the_event_records_the_changes_and_the_whole_new_schema(
    table: Table, shared_server: ServerProcess
) -> None:
    made = succeeded(change_schema(table, NOTE))

    [payload] = database.query(
        shared_server.dsn,
        "SELECT payload FROM event JOIN lake_table t USING (table_id)"
        " WHERE type = 'TableSchemaChanged' AND t.namespace || '.' || t.name = %s",
        table.name,
    )
    assert payload["payload"] == {
        "v": 1,
        "name": table.name,
        "schema_version": 2,
        "fields": made["fields"],
        "last_field_id": 5,
        "changes": [NOTE | {"nullable": True}],
    }


@pytest.mark.parametrize(
    ("status", "code", "change"),
    [
        (409, "incompatible-schema", {"change": "drop", "name": "id"}),
        (422, "invalid-table", added("_hoodie_file_name")),
    ],
)
def test_a_refused_change_changes_nothing(
    refuse: Callable[..., None], status: int, code: str, change: Json
) -> None:
    refuse(CHANGE, status, code, json={"changes": [added("before"), change, added("behind")]})


def test_of_eight_changes_that_expect_one_version_exactly_one_is_made(
    shared_servers: tuple[ServerProcess, ServerProcess],
) -> None:
    first, second = (rest.connect(server.url) for server in shared_servers)
    with first, second, ThreadPoolExecutor(8) as threads:
        made = rest.make_table(first)
        tables = [made, Table(second, made.name)]
        sent = [
            threads.submit(change_schema, tables[number % 2], added(f"c{number}"), expected_schema_version=1)
            for number in range(8)
        ]
        answers = [response.result() for response in sent]

        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
        assert shown(made)["schema_version"] == 2
        assert len(shown(made)["schema"]) == 5


def test_every_version_is_kept_and_listed_oldest_first_in_pages(table: Table) -> None:
    before = shown(table)
    for name in ("a", "b", "c"):
        succeeded(change_schema(table, added(name)))
    path = f"/v1/tables/{table.name}/schemas"

    first = succeeded(table.http.get(path, params={"limit": 3}))
    rest_ = succeeded(table.http.get(path, params={"limit": 3, "cursor": first["next_cursor"]}))

    assert [schema["schema_version"] for schema in first["schemas"] + rest_["schemas"]] == [1, 2, 3, 4]
    assert rest_["next_cursor"] is None
    assert first["schemas"][0]["fields"] == before["schema"]
    assert first["schemas"][0]["created_at"] == before["created_at"]
    assert succeeded(table.http.get(f"{path}/2")) == first["schemas"][1]


@pytest.mark.parametrize("version", ["2", "2147483647"])
def test_an_unknown_version_is_not_found(table: Table, version: str) -> None:
    answer = table.http.get(f"/v1/tables/{table.name}/schemas/{version}")

    refused(answer, 404, "schema-not-found")


def test_an_instant_writes_with_the_schema_of_its_beginning(table: Table) -> None:
    begun = table.begun()
    succeeded(change_schema(table, NOTE))

    done = succeeded(table.complete(begun, write_stat(begun)))

    assert done["schema_version"] == 1
    assert succeeded(table.begin())["schema_version"] == 2


def test_a_writer_may_name_the_schema_of_its_files(table: Table) -> None:
    begun = table.begun()
    succeeded(change_schema(table, NOTE))

    done = succeeded(table.complete(begun, write_stat(begun), schema_version=2))

    assert done["schema_version"] == 2
    assert succeeded(table.http.get(f"/v1/tables/{table.name}/instants"))["instants"] == [done]


def test_a_schema_that_there_is_not_cannot_have_written_files(table: Table) -> None:
    begun = table.begun()

    answer = table.complete(begun, write_stat(begun), schema_version=2)

    assert "1 to 1" in refused(answer, 422, "invalid-write-stat")["detail"]
    assert table.state(begun) == "inflight"


def test_the_executor_of_a_plan_writes_with_the_schema_of_its_start(table: Table) -> None:
    base = table.begun()
    succeeded(table.complete(base, write_stat(base)))
    group = {"partition_path": "", "file_id": write_stat(base)["file_id"]}
    plan = table.begun(action="clustering", inflight=False, plan={"file_groups": [group]})
    succeeded(change_schema(table, NOTE))

    assert succeeded(table.inflight(plan))["schema_version"] == 2


def test_an_action_without_files_has_no_schema(table: Table) -> None:
    undone = succeeded(table.roll_back(table.begun()))
    rollback = table.http.get(f"/v1/tables/{table.name}/instants/{undone['rolled_back_by']}")

    assert succeeded(rollback)["schema_version"] is None


def test_a_schema_change_does_not_conflict_with_writers(table: Table) -> None:
    first, second = table.begun(), table.begun()
    succeeded(table.complete(first, write_stat(first, 0)))
    succeeded(change_schema(table, NOTE))

    succeeded(table.complete(second, write_stat(second, 1)))
