"""The dialect of Iceberg's REST specification: what a reader asks, and the refusal of all else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest

import chronolake
from chronolake_model.meta_columns import META
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType
from chronolake_storage.guard import ICEBERG_FOLDER
from tests.fix_server import ServerProcess
from tests.server.iceberg_tables import SCHEMA, commit, new_table

READ_ONLY = "this catalog is read-only"


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("ice", properties={"owner": "ann"})
        yield client


@pytest.fixture(scope="module")
def rest(shared_server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{shared_server_url}/iceberg/v1") as rest:
        yield rest


@pytest.fixture(scope="module")
def table(client: chronolake.Client, tmp_path_factory: pytest.TempPathFactory) -> chronolake.Table:
    """A table with one commit, whose file does not exist."""
    return new_table(client, "ice.orders", tmp_path_factory.mktemp("tables") / "orders")


def error(answer: httpx.Response) -> tuple[int, str]:
    """Status and type of an error that has Iceberg's form."""
    document = answer.json()["error"]
    assert document["code"] == answer.status_code
    assert document["message"]
    return answer.status_code, document["type"]


def test_the_configuration_lists_endpoints_that_read(rest: httpx.Client) -> None:
    document = rest.get("/config", params={"warehouse": "any"}).json()
    assert (document["defaults"], document["overrides"]) == ({}, {})
    methods = {endpoint.split()[0] for endpoint in document["endpoints"]}
    assert methods == {"GET", "HEAD", "POST"}
    assert [each for each in document["endpoints"] if each.startswith("POST")] == [
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"
    ]


def test_a_client_at_the_url_of_the_server_is_told_that_of_the_catalog(shared_http: httpx.Client) -> None:
    refused = shared_http.get("/v1/config", params={"warehouse": "lake"})

    assert (refused.status_code, "with /iceberg at its end" in refused.json()["detail"]) == (404, True)


def test_namespaces_and_tables_are_listed(rest: httpx.Client, table: chronolake.Table) -> None:
    assert ["ice"] in rest.get("/namespaces").json()["namespaces"]
    assert rest.get("/namespaces", params={"parent": "ice"}).json()["namespaces"] == []
    assert rest.get("/namespaces/ice").json() == {"namespace": ["ice"], "properties": {"owner": "ann"}}
    assert rest.head("/namespaces/ice").status_code == 204
    listed = rest.get("/namespaces/ice/tables").json()["identifiers"]
    assert {"namespace": ["ice"], "name": "orders"} in listed
    assert rest.head("/namespaces/ice/tables/orders").status_code == 204
    credentials = rest.get("/namespaces/ice/tables/orders/credentials").json()
    assert credentials == {"storage-credentials": []}


def test_lists_come_in_pages_for_clients_that_ask_for_them(
    rest: httpx.Client, client: chronolake.Client
) -> None:
    for name in ("page-a", "page-b"):
        client.create_namespace(name)
    page = rest.get("/namespaces", params={"pageToken": "", "pageSize": "1"}).json()
    assert len(page["namespaces"]) == 1
    names = page["namespaces"]
    while page["next-page-token"] is not None:
        page = rest.get("/namespaces", params={"pageToken": page["next-page-token"], "pageSize": "1"}).json()
        names += page["namespaces"]
    assert [name for name in names if name[0].startswith("page-")] == [["page-a"], ["page-b"]]


def test_a_table_is_loaded_once_for_the_same_state(rest: httpx.Client, table: chronolake.Table) -> None:
    first = rest.get("/namespaces/ice/tables/orders")
    document = first.json()
    location = document["metadata-location"]
    stored = json.loads(Path(location.removeprefix("file://")).read_text())
    assert stored["table-uuid"] == table.definition.table_id
    assert stored["snapshots"] == document["metadata"]["snapshots"]
    assert document["config"] == {}
    again = rest.get("/namespaces/ice/tables/orders", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    commit(table)
    changed = rest.get("/namespaces/ice/tables/orders", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    snapshots = changed.json()["metadata"]["snapshots"]
    assert len(snapshots) == len(stored["snapshots"]) + 1
    assert snapshots[-1]["summary"]["operation"] == "overwrite"


def test_refs_alone_have_the_present_snapshot_and_those_of_savepoints(
    rest: httpx.Client, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.saved", tmp_path / "saved")
    table.savepoint()
    commit(table)
    commit(table)
    path = "/namespaces/ice/tables/saved"
    rest.get(path)
    wait_until(lambda: len(rest.get(path).json()["metadata"]["snapshots"]) == 3)
    whole = rest.get(path)
    refs = rest.get(path, params={"snapshots": "refs"})
    ids = [snapshot["snapshot-id"] for snapshot in whole.json()["metadata"]["snapshots"]]
    assert len(ids) == 3
    kept = [snapshot["snapshot-id"] for snapshot in refs.json()["metadata"]["snapshots"]]
    assert kept == [ids[0], ids[2]]
    assert whole.headers["ETag"] != refs.headers["ETag"]
    assert error(rest.get(path, params={"snapshots": "some"})) == (400, "BadRequestException")


def test_a_restarted_server_goes_on_with_the_metadata_of_the_former_one(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    first, second = new_server(dsn), new_server(dsn)
    with chronolake.connect(first.url) as client:
        client.create_namespace("ice")
        table = new_table(client, "ice.orders", tmp_path / "orders")
        path = "/iceberg/v1/namespaces/ice/tables/orders"
        before = httpx.get(first.url + path).json()["metadata"]["snapshots"]
        folder = tmp_path / "orders" / ICEBERG_FOLDER / table.definition.table_id
        files = set(folder.iterdir())
        assert httpx.get(second.url + path).json()["metadata"]["snapshots"] == before
        assert set(folder.iterdir()) == files
        commit(table)
        answers = [httpx.get(server.url + path).json() for server in (second, first)]
        assert answers[0] == answers[1]
        assert answers[0]["metadata"]["snapshots"][:-1] == before


def test_snapshots_of_loaded_tables_alone_are_made_without_a_request(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn)
    with chronolake.connect(server.url) as client:
        client.create_namespace("ice")
        followed, other = (new_table(client, f"ice.{name}", tmp_path / name) for name in ("followed", "other"))
        commit(followed)
        httpx.get(f"{server.url}/iceberg/v1/namespaces/ice/tables/followed")
        folder = tmp_path / "followed" / ICEBERG_FOLDER / followed.definition.table_id
        wait_until(lambda: len(list(folder.glob("snap-*"))) == 2)
        commit(followed)
        wait_until(lambda: len(list(folder.glob("snap-*"))) == 3)
        commit(other)
        assert not (tmp_path / "other" / ICEBERG_FOLDER).exists()


def test_metadata_that_no_retained_state_needs_is_removed(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, "--iceberg-expiry-seconds", "0.05")
    with chronolake.connect(server.url) as client:
        client.create_namespace("ice")
        table = new_table(client, "ice.orders", tmp_path / "orders", index=BucketIndex(IndexType.SIMPLE))
        path = f"{server.url}/iceberg/v1/namespaces/ice/tables/orders"
        # A chunk ends after the first of them.
        commit(table, file_id="00000001-0000-0000-0000-000000000097-0")
        commit(table, file_id="00000002-0000-0000-0000-000000000000-0")
        for _ in range(5):
            commit(table)
            httpx.get(path)
        table.clean(retain_commits=2)
        metadata = httpx.get(path).json()["metadata"]
        folder = tmp_path / "orders" / ICEBERG_FOLDER / table.definition.table_id
        lists = {snapshot["manifest-list"].rpartition("/")[2] for snapshot in metadata["snapshots"]}
        needed = {name for of_list in lists for name in manifests_of(folder / of_list)}
        # The chunk of the file group that has not changed is older than the snapshots.
        assert len({name.partition("-")[0] for name in needed}) > len(lists) == 2
        wait_until(lambda: {file.name for file in folder.glob("*.avro")} == lists | needed)
        newest = metadata["current-snapshot-id"]
        wait_until(lambda: {file.name.partition("-")[0] for file in folder.glob("*.json")} == {str(newest)})


def manifests_of(manifest_list: Path) -> list[str]:
    """The names of the manifests in a list."""
    with manifest_list.open("rb") as content:
        records: list[dict[str, str]] = list(fastavro.reader(content))  # type: ignore[arg-type]
    return [record["manifest_path"].rpartition("/")[2] for record in records]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_file_without_field_ids_is_read_by_the_names_that_it_was_written_with(
    rest: httpx.Client, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.by_names", tmp_path / "by_names")
    commit(table, has_field_ids=False)
    table.change_schema([chronolake.RenameColumn("value", "title")])
    metadata = rest.get("/namespaces/ice/tables/by_names").json()["metadata"]
    mapping = json.loads(metadata["properties"]["schema.name-mapping.default"])
    assert mapping[:2] == [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["value"]}]
    assert [field["names"] for field in mapping[2:]] == [[name] for name in META]


def test_a_name_that_stood_for_two_columns_in_files_without_field_ids_is_refused(
    rest: httpx.Client, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.twice", tmp_path / "twice")
    commit(table, has_field_ids=False)
    table.change_schema([chronolake.DropColumn("value"), chronolake.AddColumn("value", "string")])
    commit(table, has_field_ids=False)
    # The one that reads right is listed alone.
    assert len(rest.get("/namespaces/ice/tables/twice").json()["metadata"]["snapshots"]) == 1
    commit(table, has_field_ids=False, file_id="00000001-0000-0000-0000-000000000000-0")
    table.change_schema([chronolake.DropColumn("value"), chronolake.AddColumn("value", "string")])
    commit(table, has_field_ids=False)
    answer = rest.get("/namespaces/ice/tables/twice")
    assert error(answer) == (400, "BadRequestException")
    assert "'value' stood for two columns" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/namespaces/none", (404, "NoSuchNamespaceException")),
        ("GET", "/namespaces/a%1Fb", (404, "NoSuchNamespaceException")),
        ("GET", "/namespaces/none/tables", (404, "NoSuchNamespaceException")),
        ("GET", "/namespaces/ice/tables/none", (404, "NoSuchTableException")),
        ("GET", "/namespaces/ice/tables/..%2F..%2Fetc", (404, "NoSuchTableException")),
        ("GET", "/namespaces/ice/views", (404, "NotFoundException")),
        ("GET", "/elsewhere", (404, "NotFoundException")),
        ("GET", "/namespaces?pageToken=x", (400, "BadRequestException")),
        ("GET", "/namespaces?pageSize=x", (400, "BadRequestException")),
        ("POST", "/namespaces", (406, "UnsupportedOperationException")),
        ("DELETE", "/namespaces/ice", (406, "UnsupportedOperationException")),
        ("POST", "/namespaces/ice/tables", (406, "UnsupportedOperationException")),
        ("POST", "/namespaces/ice/tables/orders", (406, "UnsupportedOperationException")),
        ("DELETE", "/namespaces/ice/tables/orders", (406, "UnsupportedOperationException")),
        ("POST", "/tables/rename", (406, "UnsupportedOperationException")),
        ("POST", "/transactions/commit", (406, "UnsupportedOperationException")),
        ("POST", "/namespaces/ice/register", (406, "UnsupportedOperationException")),
        ("POST", "/namespaces/ice/views", (406, "UnsupportedOperationException")),
    ],
)
def test_all_else_is_refused_in_the_form_of_iceberg(
    rest: httpx.Client, client: chronolake.Client, method: str, path: str, expected: tuple[int, str]
) -> None:
    body: dict[str, Any] = {"json": {}} if method == "POST" else {}
    answer = rest.request(method, path, **body)
    assert error(answer) == expected
    assert (READ_ONLY in answer.text) is (expected[0] == 406)


def test_reports_of_clients_are_taken_up_to_a_size(rest: httpx.Client, table: chronolake.Table) -> None:
    path = "/namespaces/ice/tables/orders/metrics"
    assert rest.post(path, json={"report-type": "scan-report"}).status_code == 204
    assert rest.post(path, content=b"x" * 2_000_000).status_code == 413


def test_a_table_that_was_never_written_is_empty_until_its_first_commit(
    rest: httpx.Client, client: chronolake.Client, tmp_path: Path
) -> None:
    folder = tmp_path / "unwritten"
    table = client.create_table(
        "ice.unwritten", base_path=str(folder), schema=list(SCHEMA), record_key_fields=["id"]
    )
    path = "/namespaces/ice/tables/unwritten"
    assert rest.get(path).json()["metadata"]["snapshots"] == []
    assert not folder.exists()
    table.claim_storage()
    commit(table)
    loaded = rest.get(path).json()
    assert len(loaded["metadata"]["snapshots"]) == 1
    assert Path(loaded["metadata-location"].removeprefix("file://")).exists()


def test_storage_that_fails_is_unavailable_and_names_the_reason(
    rest: httpx.Client, client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, "ice.lost", tmp_path / "lost")
    Path(table.definition.base_path).rename(tmp_path / "elsewhere")
    assert error(rest.get("/namespaces/ice/tables/lost")) == (503, "ServiceUnavailableException")


def test_a_server_without_the_catalog_has_no_such_endpoint(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn, "--iceberg-snapshots-max", "0")
    assert httpx.get(f"{server.url}/iceberg/v1/config").status_code == 404
