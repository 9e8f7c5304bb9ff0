"""A client can name a base path only in the locations of its namespace, by whichever door it comes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest

from chronolake_metastore.cli.options import SettingSource, of_source
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.settings import Settings
from tests.fix_server import ServerProcess
from tests.forked_program import complaint
from tests.server import database, located, rest
from tests.server.rest import Json, keyed, new_key, refused, succeeded
from tests.store import tampering

NewServer = Callable[..., ServerProcess]


class Namespace:
    """A namespace of the test's own, whose tables may be in ``lake``."""

    def __init__(self, server: ServerProcess, http: httpx.Client, lake: Path) -> None:
        self.name = f"ns_{uuid.uuid4().hex[:12]}"
        self.http = http
        self.lake = lake
        self.dsn = server.dsn
        lake.mkdir()
        succeeded(http.post("/v1/namespaces", json={"name": self.name}))
        self.allow(lake)

    def allow(self, location: Path) -> None:
        located.allow(self.dsn, self.name, location)

    def revoke(self, location: Path) -> None:
        located.revoke(self.dsn, self.name, location)

    def run(self, command: str, *location: Path | str) -> str:
        """The output of a command of the operator."""
        ended = located.run(self.dsn, command, self.name, *location)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def create(self, base_path: Path | str, key: str | None = None, **fields: object) -> httpx.Response:
        """Create a table, whose name depends on its base path."""
        return self._post("/v1/tables", self._table(base_path, **fields), key)

    def adopt(self, base_path: Path | str, path: str = "/v1/tables/adopt") -> httpx.Response:
        """Adopt a table without a history."""
        definition = self._table(base_path, index={"type": "simple"})
        return self._post(path, {"definition": definition, "instants": [], "writer": "w"}, None)

    def check(self, base_path: Path | str) -> httpx.Response:
        """Ask whether a table could be created."""
        return self._post("/v1/tables/dry-run", self._table(base_path), None)

    def _table(self, base_path: Path | str, **fields: object) -> Json:
        name = f"t_{uuid.uuid5(uuid.NAMESPACE_URL, str(base_path)).hex}"
        return rest.table_body(f"{self.name}.{name}", base_path=str(base_path), **fields)

    def _post(self, path: str, body: Json, key: str | None) -> httpx.Response:
        return self.http.post(path, json=body, headers={} if key is None else keyed(key))


@pytest.fixture
def namespace(shared_server: ServerProcess, shared_http: httpx.Client, tmp_path: Path) -> Namespace:
    return Namespace(shared_server, shared_http, tmp_path / "lake")


def is_outside(answer: httpx.Response) -> None:
    refused(answer, 422, "location-not-allowed")


@pytest.mark.parametrize("door", [Namespace.create, Namespace.check, Namespace.adopt])
def test_no_door_leads_out_of_the_location(
    namespace: Namespace, door: Callable[[Namespace, Path | str], httpx.Response], tmp_path: Path
) -> None:
    (namespace.lake / "link").symlink_to(tmp_path / "elsewhere")
    for base_path in (
        tmp_path / "elsewhere",
        f"{namespace.lake}_archive/t1",
        f"{namespace.lake}/../elsewhere",
        f"file://{namespace.lake}/%2e%2e/elsewhere",
        namespace.lake / "link" / "t1",
        tmp_path,
        f"s3://lake{namespace.lake}/t1",
    ):
        is_outside(door(namespace, base_path))

    assert door(namespace, namespace.lake / "t1").is_success


def test_a_refusal_does_not_say_where_a_link_leads(namespace: Namespace, tmp_path: Path) -> None:
    (namespace.lake / "link").symlink_to(tmp_path / "secret")

    of_link = refused(namespace.check(namespace.lake / "link" / "t1"), 422, "location-not-allowed")
    of_process = refused(namespace.check("/proc/self/exe"), 422, "location-not-allowed")

    assert "elsewhere by a link" in of_link["detail"]
    assert "secret" not in str(of_link)
    assert "python" not in str(of_process)


def test_an_adoption_can_be_checked_before(namespace: Namespace, tmp_path: Path) -> None:
    is_outside(namespace.adopt(tmp_path / "elsewhere", "/v1/tables/adopt/dry-run"))

    succeeded(namespace.adopt(namespace.lake / "t1", "/v1/tables/adopt/dry-run"))


def test_a_link_in_the_path_of_a_location_is_resolved_as_that_of_a_base_path(
    namespace: Namespace, tmp_path: Path
) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "mounted")
    namespace.allow(tmp_path / "data")

    succeeded(namespace.create(tmp_path / "data" / "t1"))
    succeeded(namespace.create(tmp_path / "mounted" / "t2"))


def test_a_refusal_is_on_record_and_says_what_the_operator_runs(namespace: Namespace, tmp_path: Path) -> None:
    problem = refused(namespace.create(tmp_path / "other"), 422, "location-not-allowed")

    assert problem["context"]["locations"] == [f"file://{namespace.lake}/"]
    assert f"chronolake-metastore locations allow {namespace.name}" in problem["detail"]


def test_a_table_is_renamed_only_into_a_namespace_that_may_have_it(
    namespace: Namespace, shared_server: ServerProcess, shared_http: httpx.Client, tmp_path: Path
) -> None:
    other = Namespace(shared_server, shared_http, tmp_path / "theirs")
    table = succeeded(namespace.create(namespace.lake / "t1"))["name"]

    is_outside(shared_http.patch(f"/v1/tables/{table}", json={"name": f"{other.name}.t1"}))
    succeeded(shared_http.patch(f"/v1/tables/{table}", json={"name": f"{namespace.name}.t2"}))
    other.allow(namespace.lake)

    succeeded(shared_http.patch(f"/v1/tables/{namespace.name}.t2", json={"name": f"{other.name}.t1"}))


def test_after_a_revocation_a_table_gets_no_other_storage_and_nobody_takes_its_folder_over(
    namespace: Namespace, shared_http: httpx.Client
) -> None:
    table = succeeded(namespace.create(namespace.lake / "t1"))["name"]
    dropped = rest.Table(shared_http, succeeded(namespace.create(namespace.lake / "t2"))["name"])
    instant = dropped.begun()
    succeeded(dropped.complete(instant, rest.write_stat(instant)))
    assert shared_http.delete(f"/v1/tables/{dropped.name}").is_success
    namespace.revoke(namespace.lake)

    for change in ({"set": {"storage.region": "eu"}}, {"set": {"storage.endpoint_override": "http://a:1"}}):
        is_outside(shared_http.patch(f"/v1/tables/{table}", json=change))
    is_outside(namespace.create(namespace.lake / "t2", reuse_base_path=True))
    succeeded(shared_http.patch(f"/v1/tables/{table}", json={"set": {"owner": "ann"}}))


def test_after_a_revocation_timelines_go_on(namespace: Namespace, shared_http: httpx.Client) -> None:
    table = rest.Table(shared_http, succeeded(namespace.create(namespace.lake / "t1"))["name"])
    pending = table.begun()
    namespace.revoke(namespace.lake)

    succeeded(table.complete(pending, rest.write_stat(pending)))
    instant = table.begun()
    succeeded(table.complete(instant, rest.write_stat(instant, 1)))

    assert len(succeeded(shared_http.get(f"/v1/tables/{table.name}/snapshot"))["slices"]) == 2
    assert shared_http.delete(f"/v1/tables/{table.name}").is_success


def test_a_repeated_request_gets_its_first_answer_whatever_the_list_says_by_now(
    namespace: Namespace, tmp_path: Path
) -> None:
    created, outside = new_key(), new_key()
    first = succeeded(namespace.create(namespace.lake / "t1", created))
    is_outside(namespace.create(tmp_path / "other", outside))
    namespace.revoke(namespace.lake)
    namespace.allow(tmp_path / "other")

    assert succeeded(namespace.create(namespace.lake / "t1", created)) == first
    is_outside(namespace.create(tmp_path / "other", outside))


def test_no_table_is_created_after_its_location_was_revoked(
    namespace: Namespace, shared_server: ServerProcess, shared_http: httpx.Client
) -> None:
    with ThreadPoolExecutor(9) as threads:
        revoking = threads.submit(namespace.revoke, namespace.lake)
        number, answers = 0, list[httpx.Response]()
        while not revoking.done():
            paths = [namespace.lake / f"t{number + each}" for each in range(8)]
            answers += threads.map(namespace.create, paths)
            number += 8

    assert {answer.status_code for answer in answers} <= {201, 422}
    is_outside(namespace.create(namespace.lake / "late"))
    [late] = database.query(
        shared_server.dsn,
        """
        SELECT count(*) AS tables
        FROM event created, event revoked
        WHERE created.type = 'TableCreated' AND revoked.type = 'LocationRevoked'
            AND created.payload -> 'definition' ->> 'name' LIKE %s || '.%%'
            AND revoked.payload ->> 'namespace' = %s AND created.position > revoked.position
        """,
        namespace.name,
        namespace.name,
    )
    assert late["tables"] == 0


def test_a_namespace_that_is_dropped_and_created_anew_keeps_its_list(
    namespace: Namespace, shared_http: httpx.Client, tmp_path: Path
) -> None:
    assert shared_http.delete(f"/v1/namespaces/{namespace.name}").is_success
    succeeded(shared_http.post("/v1/namespaces", json={"name": namespace.name}))

    is_outside(namespace.create(tmp_path / "other"))


# ------------------------------------------------------------------------------- the operator's commands


def test_each_command_may_run_again_and_only_changes_are_events(
    namespace: Namespace, shared_server: ServerProcess
) -> None:
    assert "was allowed before" in namespace.run("allow", f"{namespace.lake}/")
    assert namespace.run("list") == f"{namespace.name}: file://{namespace.lake}/\n"
    namespace.run("revoke", namespace.lake)
    again = located.run(shared_server.dsn, "revoke", namespace.name, namespace.lake)

    assert "see locations list" in complaint(again)
    assert namespace.run("list") == f"{namespace.name}: file://{namespace.lake}/ (revoked)\n"
    events = database.query(
        shared_server.dsn,
        "SELECT type, actor FROM audit_history WHERE payload ->> 'namespace' = %s ORDER BY position",
        namespace.name,
    )
    assert [event["type"] for event in events] == ["LocationAllowed", "LocationRevoked"]
    assert {event["actor"].partition("/")[0] for event in events} == {"server"}


def test_a_link_that_leads_elsewhere_by_now_can_still_be_revoked(namespace: Namespace, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(namespace.lake)
    assert "was allowed before" in namespace.run("allow", link)
    link.unlink()
    link.symlink_to(tmp_path)

    assert "is revoked" in namespace.run("revoke", f"file://{namespace.lake}")


@pytest.mark.parametrize(
    ("namespace", "location", "message"),
    [
        ("shop", "s3://lake/a/../b", "cannot be used"),
        ("shop", "http://lake/a", "the schemes are"),
        ("shop", "s3://user:secret@lake/a", "has a user or a password"),
        ("shop.orders", "s3://lake/a", "is not the name of a namespace"),
    ],
)
def test_what_is_no_location_or_no_namespace_is_refused(
    shared_dsn: str, namespace: str, location: str, message: str
) -> None:
    ended = located.run(shared_dsn, "allow", namespace, location)

    assert message in complaint(ended)
    assert "secret" not in ended.stderr


def test_events_and_rows_are_proved_and_rebuilt(dsn: str) -> None:
    for change in (("allow", "s3://lake/a"), ("allow", "s3://lake/b"), ("revoke", "s3://lake/a")):
        assert located.run(dsn, change[0], "shop", change[1]).returncode == 0
    tampering.tamper(dsn, "UPDATE location SET is_allowed = true", "DELETE FROM location WHERE location ~ 'b'")

    assert len(tampering.verify(dsn).findings) == 2
    assert tampering.rebuild(dsn).repaired["location"] == 2
    assert located.run(dsn, "list").stdout == "shop: s3://lake/a/ (revoked)\nshop: s3://lake/b/\n"


# ----------------------------------------------------------------------------- the default of the server


def test_the_locations_of_a_server_are_those_of_namespaces_without_a_list(
    new_server: NewServer, dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, "--location", str(tmp_path / "lake"), "--location", "s3://lake")
    with rest.connect(server.url) as http:
        own = Namespace(server, http, tmp_path / "own")
        succeeded(http.post("/v1/namespaces", json={"name": "shop"}))

        def create(base_path: str) -> httpx.Response:
            body = rest.table_body(f"shop.t_{uuid.uuid4().hex}", base_path=base_path)
            return http.post("/v1/tables", json=body)

        is_outside(create(f"{tmp_path}/other"))
        is_outside(create("s3://lake-2/t1"))
        succeeded(create(f"{tmp_path}/lake/t1"))
        succeeded(create("s3a://lake/t1"))
        is_outside(own.create(tmp_path / "lake" / "t2"))
        succeeded(own.create(own.lake / "t1"))
        assert http.get("/ready").json() == {"status": "ok", "warnings": []}
    assert "locations allow" not in server.log()


def test_a_server_without_any_locations_says_so_at_its_start_and_when_it_is_ready(
    shared_server: ServerProcess, shared_http: httpx.Client
) -> None:
    [warning] = shared_http.get("/ready").json()["warnings"]

    assert "give --location, or run chronolake-metastore locations allow" in warning
    assert warning in shared_server.log()


def test_an_embedded_server_takes_tables_in_its_data_folder_and_not_among_the_files_of_postgresql(
    tmp_path: Path,
) -> None:
    source = SettingSource("host=/socket", EmbeddedPostgres(tmp_path / "data"))
    settings = Settings(data_dir=tmp_path / "data")

    assert of_source(settings, source).locations == [f"file://{tmp_path}/data/tables/"]
    assert of_source(settings, SettingSource("host=elsewhere")).locations == ()
    given = msgspec.structs.replace(settings, locations=["s3://lake/"])
    assert of_source(given, source).locations == ["s3://lake/"]
