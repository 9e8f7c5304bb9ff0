"""Every command on an instant, in every state that an instant has: done, or refused as its document says."""

from __future__ import annotations

import pytest

from tests.server import operations
from tests.server.operations import Operation
from tests.server.refusals import ServedTable, check_problem, named
from tests.server.rest import Json, Table, keyed, marker, new_key, refused, succeeded, write_stat

ON_AN_INSTANT = tuple(tried for tried in operations.of("requested_time") if tried.method != "GET")
STATES = ("requested", "inflight", "completed", "rolled_back", "planned", "savepoint", "rollback")


def begun(table: Table, state: str) -> str:
    """An instant of a new table in this state, or of a kind that is treated otherwise."""
    if state in ("planned", "savepoint"):
        _completed(table)
    match state:
        case "requested":
            instant = table.begun(inflight=False)
        case "planned":
            plan: Json = {"file_groups": [operations.FILE_GROUP]}
            instant = table.begun(action="clustering", inflight=False, plan=plan)
        case "completed":
            instant = _completed(table)
        case "savepoint":
            made = table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"})
            instant = succeeded(made)["requested_time"]
        case "rolled_back":
            instant = table.begun()
            succeeded(table.roll_back(instant))
        case "rollback":
            target = table.begun()
            succeeded(table.mark(target, marker(target)))
            instant = succeeded(table.roll_back(target, execute=False))["rolled_back_by"]
        case _:
            instant = table.begun()
    return instant


def _completed(table: Table) -> str:
    instant = table.begun()
    succeeded(table.complete(instant, write_stat(instant)))
    return instant


@named(ON_AN_INSTANT)
@pytest.mark.parametrize("state", STATES)
def test_a_command_is_done_or_refused_in_every_state(
    served: ServedTable, table: Table, tried: Operation, state: str
) -> None:
    instant = begun(table, state)
    key = new_key()
    path = tried.path(instant, table=table.name)
    body = tried.body(instant)

    first = served.send(tried, path=path, json=body, headers=keyed(key))
    again = served.send(tried, path=path, json=body, headers=keyed(key))

    if not first.is_success:
        assert check_problem(tried, first).status in (404, 409, 410, 422)
    assert str(first.status_code) in tried.description["responses"]
    if tried in operations.COMMANDS:
        assert (again.status_code, again.content) == (first.status_code, first.content)


@pytest.mark.parametrize("key", ["a", "/", "a/b", "//", "%", "a%2Fb", "?", "#", "a b", "'\";--", "~" * 255])
def test_an_odd_key_names_one_request(table: Table, key: str) -> None:
    key = f"{new_key()}{key}"[-255:]
    begun = succeeded(table.begin(key=key))

    assert succeeded(table.begin(key=key)) == begun
    refused(table.begin(key=key, writer="another"), 422, "idempotency-key-reused")
