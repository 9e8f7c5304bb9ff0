"""Vended credentials: keys for one table alone, with which the client works; the store enforces the policy.

The numbers are those of faults of other catalogs.
"""

from __future__ import annotations

import copy
import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow.fs as pafs
import pytest

import chronolake
from chronolake import _vending, errors as client_errors, storage
from chronolake_model.credentials import StorageAccess
from tests import fix_secrets
from tests.client.rows import SCHEMA
from tests.fix_s3 import S3, Gateway, new_bucket
from tests.fix_secrets import ADMIN_TOKEN, STORAGE_SECRET
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import database, located
from tests.server.access import AccessServer
from tests.server.database import Row
from tests.server.rest import refused, succeeded

TABLE = "shop.orders"
ROWS = [{"id": id_, "amount": id_, "note": "n", "ts": 1, "day": str(id_ % 2)} for id_ in range(40)]
NewServer = Callable[..., ServerProcess]


class Vending:
    """A server that vends for the folder ``tables`` of a bucket, which only sessions may use.

    Each test has a namespace and a folder of its own.
    """

    def __init__(self, access: AccessServer, s3: S3, token_file: Path, refused: list[str]) -> None:
        self.access = access
        self.unguarded = s3.without_guard
        self.server = access.process
        self.bucket = s3.bucket
        self.endpoint = s3.options["endpoint_override"]
        self.token_file = token_file
        self.refused = refused
        self.namespace = f"ns_{uuid.uuid4().hex[:12]}"

    @property
    def name(self) -> str:
        return f"{self.namespace}.orders"

    @property
    def folder(self) -> str:
        return f"{self.bucket}/tables/{self.namespace}/t1"

    @contextmanager
    def client(self) -> Iterator[chronolake.Client]:
        given = {"credentials": "vended"}
        with chronolake.connect(self.server.url, token=ADMIN_TOKEN, storage_options=given) as client:
            yield client

    def table(self, client: chronolake.Client, **definition: Any) -> chronolake.Table:
        client.create_namespace(self.namespace, if_not_exists=True)
        defaults = {"base_path": f"s3://{self.folder}", "schema": SCHEMA, "record_key_fields": ["id"]}
        properties = {"hudi.publish": "false"}
        return client.create_table(
            self.name, **{**defaults, "partition_fields": ["day"], "properties": properties, **definition}
        )

    def get(self, **query: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        return httpx.get(f"{self.server.url}/v1/tables/{self.name}/credentials", params=query, headers=headers)

    def recorded(self) -> list[Row]:
        """The keys for the table that auditors see."""
        query = "SELECT * FROM audit_credentials WHERE table_name = %s ORDER BY version"
        return database.query(self.access.dsn, query, self.name)

    def filesystem(self, access: str) -> Any:
        keys = self.get(access=access).json()
        names = ("access_key", "secret_key", "session_token")
        host = keys["endpoint_override"].removeprefix("http://")
        given = {name: keys[name] for name in names}
        return pafs.S3FileSystem(**given, endpoint_override=host, scheme="http", region=keys["region"])


@pytest.fixture(scope="module")
def vending_server(
    shared_dsn: str, s3_gateway: tuple[str, Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Vending]:
    s3, folder = new_bucket(*s3_gateway), tmp_path_factory.mktemp("vending")
    url = s3.options["endpoint_override"]
    roles = folder / "roles.toml"
    roles.write_text(
        f'[roles.lake]\nlocation = "s3://{s3.bucket}/tables"\nregion = "us-east-1"\nduration_seconds = 900\n'
        f'role_arn = "arn:aws:iam::123456789012:role/lake"\n'
        f'sts_endpoint = "{url}"\nendpoint_override = "{url}"\n'
    )
    server = AccessServer(shared_dsn, folder, "--credentials-file", str(roles), "--log-level", "debug")
    try:
        with pytest.MonkeyPatch.context() as of_server:
            # Only the server has keys of its own.
            of_server.setenv("AWS_ACCESS_KEY_ID", "key")
            of_server.setenv("AWS_SECRET_ACCESS_KEY", STORAGE_SECRET)
            server.process.start()
        with s3.only_sessions() as refused:
            yield Vending(server, s3, folder / "admin", refused)
    finally:
        server.stop()


@pytest.fixture
def vended(vending_server: Vending, monkeypatch: pytest.MonkeyPatch) -> Vending:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    vended = copy.copy(vending_server)
    vended.namespace = f"ns_{uuid.uuid4().hex[:12]}"
    vended.refused.clear()
    return vended


@pytest.mark.parametrize("type_", ["copy_on_write", "merge_on_read"])
def test_a_table_is_written_and_read_with_vended_keys_alone(vended: Vending, type_: str) -> None:
    with vended.client() as client:
        table = vended.table(client, type=type_, properties={"hudi.publish": "false", "markers.type": "direct"})
        table.upsert(ROWS)
        table.upsert([{**ROWS[0], "note": "changed"}])
        given_up = table.begin(operation=chronolake.Operation.UPSERT)
        given_up.rollback("a test")

        assert {row["note"] for row in table.to_arrow().to_pylist() if row["id"] == 0} == {"changed"}
        assert table.to_arrow().num_rows == len(ROWS)
        assert table.check().findings == []
        assert [orphan.path for orphan in table.orphans().orphans] == []
    # Missing objects are forbidden ones; claims of tables above could be read.
    assert vended.refused == []


def test_a_writer_writes_and_reads_without_keys_to_delete(vended: Vending) -> None:
    with vended.client() as client:
        vended.table(client, type="merge_on_read")
    caller = vended.access.caller("etl", **{vended.namespace: "writer"})
    token = caller.http.headers["authorization"].removeprefix("Bearer ")
    options = {"credentials": "vended"}
    with chronolake.connect(vended.server.url, token=token, storage_options=options) as client:
        table = client.table(vended.name)
        table.upsert(ROWS)
        table.upsert([{**ROWS[0], "note": "changed"}])

        assert table.to_arrow().num_rows == len(ROWS)
        held = {access for _, access in table._transport.keys._held}
    assert held == {StorageAccess.READ, StorageAccess.WRITE}
    assert vended.refused == []


def test_t41_the_store_refuses_everything_else_to_these_keys(vended: Vending) -> None:
    sibling, table = f"{vended.folder}0", vended.folder
    with vended.client() as client:
        vended.table(client)
    filesystems = {access: vended.filesystem(access) for access in StorageAccess}

    def writes(access: StorageAccess, path: str) -> bool:
        try:
            with filesystems[access].open_output_stream(path) as stream:
                stream.write(b"x")
        except OSError:
            return False
        return True

    def deletes(access: StorageAccess, path: str) -> bool:
        try:
            filesystems[access].delete_file(path)
        except OSError:
            return False
        return True

    assert [writes(access, f"{table}/a") for access in StorageAccess] == [False, True, True]
    assert not any(writes(access, f"{sibling}/a") for access in StorageAccess)
    assert writes(StorageAccess.WRITE, f"{table}/.hoodie/.temp/20260101000000000/a.marker.CREATE")
    assert [deletes(access, f"{table}/a") for access in StorageAccess] == [False, False, True]
    assert deletes(StorageAccess.WRITE, f"{table}/.hoodie/.temp/20260101000000000/a.marker.CREATE")
    for filesystem in filesystems.values():
        for path in (sibling, vended.bucket, vended.folder.rpartition("/")[0]):
            with pytest.raises(OSError, match=r"(?i)denied"):
                filesystem.get_file_info(pafs.FileSelector(path))


def test_t50_keys_are_in_no_log_no_event_and_no_cache(vended: Vending) -> None:
    with vended.client() as client:
        table = vended.table(client)
        answer = vended.get(access="maintain")
        keys = table.credentials("write")
    body = answer.json()

    assert answer.headers["cache-control"] == "no-store"
    assert body["location"] == f"s3://{vended.folder}/"
    assert (
        timedelta(0) < datetime.fromisoformat(body["expires_at"]) - datetime.now(UTC) <= timedelta(minutes=15)
    )
    assert 0 < body["seconds_left"] <= 900
    wait_until(lambda: len(vended.recorded()) == 2)
    log = vended.server.log()
    assert "access=maintain" in log
    texts = (log, repr(keys), str(keys))
    fix_secrets.search_database(vended.access.dsn)
    secrets = [body[name] for name in ("access_key", "secret_key", "session_token")]
    secrets += [keys.access_key, keys.secret_key, keys.session_token]
    assert not [secret for secret in secrets if any(secret in text for text in texts)]
    with pytest.raises(TypeError):
        pickle.dumps(keys)


def test_credentials_are_recorded_once_for_each_subject_and_access(vended: Vending) -> None:
    with vended.client() as client:
        vended.table(client)
    caller = vended.access.caller("recorded", **{vended.namespace: "writer"})
    path = f"/v1/tables/{vended.name}/credentials"
    answers = [caller.http.get(path, params={"access": access}) for access in ("read", "write") * 2]
    end = datetime.fromisoformat(succeeded(answers[-1])["expires_at"])
    refused(caller.http.get(path, params={"access": "maintain"}), 403, "forbidden")
    assert vended.get().is_success

    wait_until(lambda: len(vended.recorded()) == 3)
    recorded = vended.recorded()
    assert {(row["subject"], row["actor"], row["access"]) for row in recorded} == {
        (caller.subject, caller.subject, "read"),
        (caller.subject, caller.subject, "write"),
        ("admin", "admin", "read"),
    }
    assert all(abs(row["expires_at"] - end) < timedelta(minutes=1) for row in recorded)
    vended.access.run("verify")


def test_t46_keys_are_renewed_at_half_life_and_used_to_their_end_if_the_server_is_gone(
    vended: Vending, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = time.monotonic()

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(_vending, "time", clock)
    with vended.client() as client:
        table = vended.table(client)
        keys, others = _vending.split(table.storage_options)
        assert keys is not None
        assert others == {}
        first = keys(StorageAccess.READ)
        clock.now += 440
        assert keys(StorageAccess.READ) is first
        # T48: other accesses have other keys.
        assert keys(StorageAccess.WRITE).access_key != first.access_key
        clock.now += 20
        second = keys(StorageAccess.READ)
        assert second.access_key != first.access_key
        of_client = table._transport.keys
        gone = msgspec.structs.replace(of_client._endpoint, url="http://127.0.0.1:1", retry_seconds=0.0)
        monkeypatch.setattr(of_client, "_endpoint", gone)
        monkeypatch.setattr(_vending, "_RENEWAL_SECONDS", 0.0)
        clock.now += 800
        assert keys(StorageAccess.READ) is second
        clock.now += 100
        with pytest.raises(client_errors.ConnectionFailed):
            keys(StorageAccess.READ)


def test_another_process_asks_with_its_own_token(vended: Vending, monkeypatch: pytest.MonkeyPatch) -> None:
    with vended.client() as client:
        table = vended.table(client)
        table.upsert(ROWS)
        base_file = table.snapshot().slices[0].base_file
        assert base_file is not None
        path = base_file.path
        shipped = pickle.dumps(table.storage_options)
    assert b"vended" not in shipped
    assert ADMIN_TOKEN.encode() not in shipped
    keys = [entry.keys.secret_key.encode() for entry in table._transport.keys._held.values()]
    assert len(keys) == 2
    assert not [key for key in keys if key in shipped]
    options = pickle.loads(shipped)

    monkeypatch.setenv("CHRONOLAKE_TOKEN_FILE", str(vended.token_file))
    _vending._of_process.cache_clear()
    filesystem, root = storage.open_filesystem(f"s3://{vended.folder}", options)
    assert filesystem.get_file_info(f"{root}/{path}").size > 0
    # A missing file is forbidden in S3, and missing for readers.
    with pytest.raises(FileNotFoundError):
        filesystem.open_input_file(f"{root}/{path}x")
    assert not filesystem.get_file_info(f"{root}/{path}x").is_file


def test_t34_t36_a_location_that_is_not_allowed_any_more_gets_no_keys(vended: Vending, shared_dsn: str) -> None:
    with vended.client() as client:
        vended.table(client)
        assert vended.get().status_code == HTTPStatus.OK
        # T41: the sibling is no location of it.
        located.allow(shared_dsn, vended.namespace, f"s3://{vended.folder}_archive")

        refused = vended.get()
        assert (refused.status_code, refused.json()["code"]) == (422, "location-not-allowed")
        # T35: neither by a name in another namespace.
        with pytest.raises(client_errors.LocationNotAllowed):
            client.table(vended.name).credentials("write")


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ({"base_path": "s3://{bucket}/other/{own}"}, "use credentials of your own"),
        ({"base_path": "s3://{bucket}/tables/{own}/or*ers"}, "a character"),
        ({"base_path": "s3://{bucket}/tables_archive/{own}"}, "use credentials of your own"),
        ({"base_path": "/tmp/{own}"}, "not in S3"),
        ({"properties": {"storage.endpoint_override": "http://evil.example:9000"}}, "another store"),
    ],
)
def test_tables_of_other_places_get_no_keys_and_a_reason(
    vended: Vending, definition: dict[str, Any], why: str
) -> None:
    if "base_path" in definition:
        definition = {"base_path": definition["base_path"].format(bucket=vended.bucket, own=vended.namespace)}
    with vended.client() as client:
        vended.table(client, **definition)

    for access in StorageAccess:
        refused = vended.get(access=access).json()
        assert (refused["status"], refused["code"]) == (409, "credentials-not-vended")
        assert why in refused["detail"]
    assert vended.get(access="admin").json()["code"] == "invalid-parameter"


def test_keys_need_the_right_of_their_access_on_this_table(vended: Vending) -> None:
    with vended.client() as client:
        table = vended.table(client)
        callers = [
            vended.access.caller(role, **{vended.name: role}) for role in ("reader", "writer", "maintainer")
        ]
        path = f"/v1/tables/{vended.name}/credentials"

        answers = [[c.http.get(path, params={"access": access}) for access in StorageAccess] for c in callers]
        assert [[answer.status_code for answer in of_caller] for of_caller in answers] == [
            [200, 403, 403],
            [200, 200, 403],
            [200, 200, 200],
        ]
        assert answers[0][1].json()["code"] == "forbidden"
        stranger = vended.access.caller("stranger", elsewhere="admin")
        hidden = stranger.http.get(path, params={"access": "write"})
        assert (hidden.status_code, hidden.json()["code"]) == (404, "table-not-found")
        # T60: the roles are on the table, and not on its name. The server still knows them by the name.
        table.alter(name=f"{vended.namespace}.former")
        vended.table(client, base_path=f"s3://{vended.folder}_archive")
        assert {c.http.get(path).status_code for c in callers} == {404}


def test_iceberg_clients_get_the_keys_of_readers(vended: Vending) -> None:
    with vended.client() as client:
        vended.table(client)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    path = f"{vended.server.url}/iceberg/v1/namespaces/{vended.namespace}/tables/orders/credentials"

    [entry] = httpx.get(path, headers=headers).json()["storage-credentials"]

    assert entry["prefix"] == f"s3://{vended.folder}/"
    assert entry["config"]["s3.session-token"]
    assert entry["config"]["s3.endpoint"] == vended.endpoint


def test_iceberg_clients_get_keys_with_a_table_if_they_ask(vended: Vending) -> None:
    with vended.client() as client:
        vended.table(client, properties={"storage.endpoint_override": vended.endpoint})
    reader = vended.access.caller("iceberg", **{vended.namespace: "reader"})
    path = f"/iceberg/v1/namespaces/{vended.namespace}/tables/orders"
    asking = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}

    # The server writes metadata with its own keys.
    with vended.unguarded():
        plain = reader.http.get(path)
        answer = reader.http.get(path, headers=asking)

    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers
    [entry] = answer.json()["storage-credentials"]
    assert entry["config"]["s3.session-token"]
    assert answer.json()["config"] == plain.json()["config"] | entry["config"]
    assert answer.json()["metadata"] == plain.json()["metadata"]
    assert plain.json()["storage-credentials"] == []


def test_a_server_without_a_file_says_so(new_server: NewServer, dsn: str) -> None:
    server = new_server(dsn)
    with chronolake.connect(server.url, storage_options={"credentials": "vended"}) as client:
        client.create_namespace("shop")
        table = client.create_table(
            TABLE,
            base_path="s3://lake/orders",
            schema=SCHEMA,
            record_key_fields=["id"],
            partition_fields=["day"],
        )
        with pytest.raises(client_errors.CredentialsNotVended, match="--credentials-file"):
            table.upsert(ROWS)
    with (
        chronolake.connect(server.url, storage_options={"credentials": "vended", "access_key": "a"}) as client,
        pytest.raises(ValueError, match="not both"),
    ):
        client.table(TABLE)
