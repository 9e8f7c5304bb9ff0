"""Changes of a table's name and properties: refusals, the view of pending writers, and races for a name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from chronolake_metastore.proof import verification
from chronolake_metastore.settings import Settings
from tests.fix_server import ServerProcess
from tests.server import database as sql, rest
from tests.server.rest import Json, Table, marker, refused, succeeded, write_stat

KIB = 1024
HOUR_US = 3_600_000_000


def alter(table: Table, key: str | None = None, **body: object) -> httpx.Response:
    """Change a table, by its present name."""
    headers = {} if key is None else rest.keyed(key)
    return table.http.patch(f"/v1/tables/{table.name}", json=body, headers=headers)


def renamed(table: Table, name: str) -> Table:
    """The table under its new name."""
    assert succeeded(alter(table, name=name))["name"] == name
    return Table(table.http, name)


def definition(table: Table) -> Json:
    """The present table."""
    return succeeded(table.http.get(f"/v1/tables/{table.name}"))


def events(table: Table) -> list[Json]:
    """The log of a table."""
    page = succeeded(table.http.get("/v1/events", params={"table": table.name, "limit": 1_000}))
    log: list[Json] = page["events"]
    return log


def beside(table: Table, suffix: str = "_new") -> Table:
    """Another table in the same namespace."""
    return rest.make_table(table.http, f"{table.name}{suffix}")


def test_properties_are_set_and_removed_one_by_one(table: Table) -> None:
    succeeded(alter(table, set={"owner": "ann", "team": "a"}))

    answer = succeeded(alter(table, set={"team": "b"}, unset=["owner", "never-set"]))

    assert answer["properties"] == {"team": "b"} == definition(table)["properties"]
    last = events(table)[-1]
    assert last["type"] == "TableAltered"
    assert last["payload"] == {
        "name": table.name,
        "new_name": None,
        "set": {"team": "b"},
        "unset": ["owner"],
        "v": 1,
    }


def test_a_change_that_changes_nothing_is_no_event(table: Table) -> None:
    succeeded(alter(table, set={"owner": "ann"}))
    before = events(table)

    succeeded(alter(table, name=table.name, set={"owner": "ann"}, unset=["team"]))

    assert events(table) == before


@pytest.mark.parametrize(
    ("body", "status", "code", "detail"),
    [
        ({}, 422, "invalid-table", "would change"),
        ({"name": None, "set": {}, "unset": []}, 422, "invalid-table", "would change"),
        ({"set": {"a": "1"}, "unset": ["a"]}, 422, "invalid-table", "'a' is named twice"),
        ({"unset": ["a", "a"]}, 422, "invalid-table", "'a' is named twice"),
        ({"base_path": "/elsewhere"}, 400, "invalid-request", "create another table"),
        ({"set": {"a": "1"}, "tick": "1us"}, 400, "invalid-request", "create another table"),
        ({"properties": {"a": "1"}}, 400, "invalid-request", "by set and unset"),
        ({"set": {"markers.required": "maybe"}}, 422, "invalid-table", "true or false"),
        ({"set": {"storage.secret_key": "s"}}, 422, "invalid-table", "for good"),
        ({"set": {"storage.bucket": "b"}}, 422, "invalid-table", "bucket"),
        ({"set": {"hudi.publsih": "false"}}, 422, "invalid-table", "did you mean hudi.publish? "),
    ],
)
def test_a_change_that_no_table_could_have_is_refused(
    table: Table, body: Json, status: int, code: str, detail: str
) -> None:
    before = events(table)

    assert detail in refused(alter(table, **body), status, code)["detail"]

    assert events(table) == before


def test_half_a_surrogate_pair_is_refused_by_its_name(table: Table) -> None:
    headers = {"Content-Type": "application/json"}

    for body in (rb'{"set": {"a": "\ud800"}}', rb'{"set": {"a": "\ud800", "another": "property"}}'):
        response = table.http.patch(f"/v1/tables/{table.name}", content=body, headers=headers)
        assert "surrogate" in refused(response, 400, "invalid-request")["detail"]


def test_properties_are_bounded_together(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, properties={str(number): "" for number in range(999)})
    succeeded(alter(table, set={"one": ""}))

    refused(alter(table, set={"more": ""}), 422, "invalid-table")
    succeeded(alter(table, set={"more": ""}, unset=["one"]))
    succeeded(alter(table, set={str(number): "x" * 15 * KIB for number in range(10)}))
    refused(alter(table, set={str(number): "x" * 15 * KIB for number in range(10, 20)}), 422, "invalid-table")


def test_pending_instants_block_changes_of_the_storage_location(table: Table) -> None:
    pending = table.begun()

    problem = refused(alter(table, set={"storage.region": "mars"}), 409, "illegal-transition")

    assert problem["context"]["instants"] == [pending]
    assert pending in problem["detail"]
    succeeded(alter(table, set={"owner": "ann"}))
    succeeded(table.roll_back(pending))
    succeeded(alter(table, set={"storage.region": "mars"}))
    succeeded(alter(table, unset=["storage.region"]))


def test_a_write_that_began_before_markers_were_required_completes_without(table: Table) -> None:
    before = table.begun()
    succeeded(alter(table, set={"markers.required": "true"}))
    since = table.begun()

    succeeded(table.complete(before, write_stat(before, 1)))
    refused(table.complete(since, write_stat(since, 2)), 422, "invalid-write-stat")
    table.marked(since, marker(since, 2))
    succeeded(table.complete(since, write_stat(since, 2)))


def test_a_pending_write_completes_without_markers_once_they_are_no_longer_required(table: Table) -> None:
    succeeded(alter(table, set={"markers.required": "true"}))
    pending = table.begun()
    refused(table.complete(pending, write_stat(pending)), 422, "invalid-write-stat")

    succeeded(alter(table, unset=["markers.required"]))

    succeeded(table.complete(pending, write_stat(pending)))


def test_a_pending_write_keeps_the_type_of_its_markers(table: Table) -> None:
    before = table.begun()
    succeeded(alter(table, set={"markers.type": "direct"}))
    since = succeeded(table.begin())

    assert since["plan"]["direct_markers"]
    assert table.marked(before, marker(before)) == ["created"]
    succeeded(table.report(before, marker(before)))
    succeeded(table.complete(before))


def test_a_renamed_table_keeps_all_but_its_name(table: Table) -> None:
    done, pending = table.begun(), table.begun(lease_seconds=600)
    succeeded(table.complete(done, write_stat(done)))
    before, log = definition(table), events(table)
    shown = succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{pending}"))

    new = renamed(table, f"{table.name}_2")

    assert definition(new) == before | {"name": new.name}
    after = succeeded(table.http.get(f"/v1/tables/{new.name}/instants/{pending}"))
    assert after == shown | {"table": new.name}
    assert [event["payload"] for event in events(new)[:-1]] == [event["payload"] for event in log]
    succeeded(new.heartbeat(pending))
    succeeded(new.complete(pending, write_stat(pending, 1)))
    for response in (table.begin(), table.complete(pending), table.mark(pending, marker(pending))):
        assert refused(response, 404, "table-not-found")["context"]["renamed_to"] == new.name
    gone = table.http.get(f"/v1/tables/{table.name}")
    assert refused(gone, 404, "table-not-found")["context"]["renamed_to"] == new.name


def test_a_writer_whose_name_went_to_another_table_learns_the_new_name(table: Table) -> None:
    pending = table.begun()
    replacement = beside(table)
    old = renamed(renamed(table, f"{table.name}_2"), f"{table.name}_old")
    renamed(replacement, table.name)

    shown = table.http.get(f"/v1/tables/{table.name}/instants/{pending}")
    for response in (table.heartbeat(pending), table.mark(pending, marker(pending)), shown):
        assert refused(response, 404, "instant-not-found")["context"]["renamed_to"] == old.name
    succeeded(old.complete(pending, write_stat(pending)))


def test_a_request_with_the_id_of_a_table_never_reaches_another_one_of_its_name(table: Table) -> None:
    table_id, replacement = definition(table)["table_id"], beside(table)
    done, pending = table.begun(), table.begun()
    succeeded(table.complete(done, write_stat(done)))
    old = renamed(table, f"{table.name}_old")
    other = renamed(replacement, table.name)
    before = events(other), events(old)
    with httpx.Client(base_url=table.http.base_url, headers={"Chronolake-Table-Id": table_id}) as http:
        stale, fresh = Table(http, table.name), Table(http, old.name)

        path = f"/v1/tables/{table.name}"
        responses = [
            stale.begin(),
            stale.heartbeat(pending),
            stale.complete(pending, write_stat(pending)),
            stale.mark(pending, marker(pending)),
            alter(stale, set={"owner": "ann"}),
            http.post(f"{path}/schema", json={"changes": [{"change": "add", "name": "x", "type": "int"}]}),
            http.post(f"{path}/cleans", json={"writer": "w", "retain_commits": 1}),
            http.get(path),
            http.get(f"{path}/snapshot"),
            http.get(f"{path}/instants"),
            http.get("/v1/events", params={"table": table.name}),
            http.delete(path),
        ]

        for response in responses:
            problem = refused(response, 404, "table-not-found")
            assert problem["context"] | {"table_id": table_id, "renamed_to": old.name} == problem["context"]
        assert (events(other), events(old)) == before
        succeeded(fresh.mark(pending, marker(pending, 1)))
        succeeded(fresh.complete(pending, write_stat(pending, 1)))
        assert http.delete(f"/v1/tables/{old.name}").status_code == 204
        assert "renamed_to" not in refused(stale.begin(), 404, "table-not-found")["context"]
        assert http.get("/v1/namespaces").status_code == 200


def test_a_table_moves_to_another_namespace_and_leaves_its_own_empty(table: Table) -> None:
    namespace, _, name = table.name.partition(".")
    other = f"{namespace}_2"
    refused(alter(table, name=f"{other}.{name}"), 404, "namespace-not-found")
    succeeded(table.http.post("/v1/namespaces", json={"name": other}))

    renamed(table, f"{other}.{name}")

    refused(table.http.delete(f"/v1/namespaces/{other}"), 409, "namespace-not-empty")
    assert table.http.delete(f"/v1/namespaces/{namespace}").status_code == 204


def test_a_name_that_is_taken_or_a_table_that_is_gone_is_refused(table: Table) -> None:
    other = beside(table)

    refused(alter(table, name=other.name, set={"owner": "ann"}), 409, "table-exists")
    assert definition(table)["properties"] == {}
    assert table.http.delete(f"/v1/tables/{table.name}").status_code == 204
    refused(alter(table, name=f"{table.name}_3"), 404, "table-not-found")
    refused(alter(table, set={"owner": "ann"}), 404, "table-not-found")


def test_cursors_and_answers_outlive_a_rename(table: Table) -> None:
    for _ in range(3):
        table.begun()
    page = succeeded(table.http.get(f"/v1/tables/{table.name}/instants", params={"limit": 1}))
    cursor = events(table)[-1]["cursor"]
    key, name = rest.new_key(), f"{table.name}_2"
    first = alter(table, key, name=name)

    new = Table(table.http, name)
    rest_of_page = table.http.get(
        f"/v1/tables/{name}/instants", params={"limit": 5, "cursor": page["next_cursor"]}
    )
    later = table.http.get("/v1/events", params={"table": name, "after": cursor})

    assert len(succeeded(rest_of_page)["instants"]) == 2
    assert [event["type"] for event in succeeded(later)["events"]] == ["TableAltered"]
    assert alter(table, key, name=name).content == first.content
    assert definition(new) == first.json()


def stop_wall_clock(server: ServerProcess) -> None:
    """Make all tables issue the same times: each clock advances by one tick at a time."""
    [row] = sql.query(server.dsn, "SELECT now_us() AS now")
    sql.set_wall_clock(server.dsn, str(row["now"] + 60_000_000))


@pytest.fixture
def stopped(server: ServerProcess, http: httpx.Client) -> Iterator[httpx.Client]:
    """A client of a server whose wall clock stands still."""
    stop_wall_clock(server)
    yield http
    sql.set_wall_clock(server.dsn, sql.WALL_CLOCK)


def test_a_table_of_a_name_that_was_given_up_never_issues_its_times_again(stopped: httpx.Client) -> None:
    table = rest.make_table(stopped, "shop.orders")
    old = [table.begun() for _ in range(5)]
    moved = renamed(table, "shop.moved")

    again = rest.make_table(stopped, "shop.orders", base_path="file:///lake/again")

    assert again.begun() > max(old)
    for time in old:
        refused(again.complete(time), 404, "instant-not-found")
    succeeded(moved.complete(old[0], write_stat(old[0])))


@pytest.mark.parametrize("drop", [False, True])
def test_a_table_that_takes_a_name_continues_after_the_times_of_the_name(
    stopped: httpx.Client, drop: bool
) -> None:
    new = rest.make_table(stopped, "shop.orders_new")
    table = rest.make_table(stopped, "shop.orders")
    old = [table.begun() for _ in range(5)]
    if drop:
        assert stopped.delete("/v1/tables/shop.orders").status_code == 204
    else:
        renamed(table, "shop.orders_old")

    swapped = renamed(new, "shop.orders")

    assert swapped.begun() > max(old)
    refused(swapped.complete(old[0]), 404, "instant-not-found")


@pytest.mark.parametrize("ended", ["shop.orders_new", "shop.orders_old"])
def test_a_table_does_not_take_a_name_with_instants_that_its_writers_could_confuse(
    stopped: httpx.Client, ended: str
) -> None:
    table, new = rest.make_table(stopped, "shop.orders"), rest.make_table(stopped, "shop.orders_new")
    times = table.begun(), new.begun()
    old = renamed(table, "shop.orders_old")
    assert times[0] == times[1]

    problem = refused(alter(new, name="shop.orders"), 409, "illegal-transition")

    assert problem["context"]["instants"] == [times[0]]
    succeeded(Table(stopped, ended).roll_back(times[0]))
    refused(alter(new, name="shop.orders"), 409, "illegal-transition")
    for owner in (old, new):
        if owner.name != ended:
            succeeded(owner.roll_back(times[0]))
    renamed(new, "shop.orders")


def test_a_table_takes_its_own_name_back_with_its_pending_instants(stopped: httpx.Client) -> None:
    table = rest.make_table(stopped, "shop.orders")
    pending = table.begun()

    back = renamed(renamed(table, "shop.moved"), "shop.orders")

    succeeded(back.complete(pending, write_stat(pending)))


def test_of_racing_requests_for_a_name_exactly_one_gets_it(
    shared_servers: tuple[ServerProcess, ServerProcess],
) -> None:
    with rest.connect(shared_servers[0].url) as first, rest.connect(shared_servers[1].url) as second:
        tables = [rest.make_table(first)]
        tables += [beside(tables[0], f"_{number}") for number in range(3)]
        name = f"{tables[0].name}_wanted"
        body = rest.table_body(name)

        def take(number: int) -> int:
            http = (first, second)[number % 2]
            if number == len(tables):
                return http.post("/v1/tables", json=body).status_code
            return alter(Table(http, tables[number].name), name=name).status_code

        with ThreadPoolExecutor(5) as pool:
            statuses = list(pool.map(take, range(5)))

        assert sorted(statuses)[1:] == [409] * 4
        assert sorted(statuses)[0] in (200, 201)


def test_names_that_are_given_up_and_taken_at_random_are_replayed(
    shared_servers: tuple[ServerProcess, ServerProcess],
) -> None:
    first, second = (rest.connect(server.url) for server in shared_servers)
    with first, second:
        namespace = rest.make_table(first).name.partition(".")[0]
        names = [f"{namespace}.{letter}" for letter in "abc"]

        def act(number: int) -> None:
            chosen = random.Random(number)
            http, name = chosen.choice((first, second)), chosen.choice(names)
            match chosen.randrange(5):
                case 0:
                    http.post(
                        "/v1/tables", json=rest.table_body(name, base_path=f"file:///lake/{namespace}/{number}")
                    )
                case 1:
                    http.delete(f"/v1/tables/{name}")
                case 2:
                    Table(http, name).begin()
                case _:
                    response = alter(Table(http, name), name=chosen.choice(names), set={"n": str(number)})
                    assert response.status_code in (200, 404, 409), response.text

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(act, range(150)))
    report = asyncio.run(verification.verify(Settings(dsn=shared_servers[0].dsn)))
    assert report.findings == []


def test_the_name_of_a_dropped_table_does_not_lead_to_a_table_that_had_it_before(table: Table) -> None:
    name = table.name
    renamed(table, f"{name}_2")
    last = rest.make_table(table.http, name, base_path=f"file:///lake/{name}_last")
    assert table.http.delete(f"/v1/tables/{name}").status_code == 204

    for response in (table.http.get(f"/v1/tables/{name}"), last.begin()):
        assert "renamed_to" not in refused(response, 404, "table-not-found").get("context", {})
