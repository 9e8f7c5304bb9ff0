"""The server touches no storage of a table whose location was revoked, or whose links lead elsewhere by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import identity
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.table_storage import TableStorage
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.markers import DeletedFile
from chronolake_storage.guard import ICEBERG_FOLDER, Deleting
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.forked_program import run
from tests.processes import wait_until
from tests.published import PUBLISHES, PublishedTable, row
from tests.server import database, located, rest, stored
from tests.server.deleting import DELETES, completes
from tests.server.iceberg_tables import commit, new_table
from tests.server.rest import succeeded

NewServer = Callable[..., ServerProcess]


def namespace_of(table: str) -> str:
    return table.partition(".")[0]


@pytest.mark.parametrize("elsewhere", ["{place}_archive", "{place}/below"])
def test_a_deleter_deletes_nothing_until_the_location_is_allowed_again(
    new_server: NewServer, dsn: str, local_store: Store, elsewhere: str
) -> None:
    with stored.table_at(new_server(dsn).url, local_store) as table:
        namespace, place = namespace_of(table.name), local_store.base_path.rstrip("/")
        rollback, _ = table.given_up()
        before = table.paths()
        located.allow(dsn, namespace, elsewhere.format(place=place))
        deleting = new_server(dsn, *DELETES)
        wait_until(lambda: "locations allow" in deleting.log())

        assert table.paths() == before
        assert table.state(rollback) == "requested"
        located.allow(dsn, namespace, place)
        completes(table, rollback)
        assert len(table.paths()) < len(before)


def test_a_revocation_stops_a_deletion_under_way(dsn: str, new_server: NewServer, local_store: Store) -> None:
    async def delete() -> None:
        opened = Database(Settings(dsn=dsn))
        try:
            async with opened.reading() as connection:
                place = (await identity.tables_to_watch(connection, 1))[0]
            files = await TableStorage(opened, []).opened(place)
            await asyncio.to_thread(located.allow, dsn, namespace_of(place.table), "s3://lake/a")
            deleted = DeletedFile("day=a", base_file_name(bucket_file_id(1), "0-0-0", "20260101000000000"))
            with pytest.raises(errors.ConfigurationError, match="locations allow"):
                await files.delete(Deleting("20260101000000000", "20260101000000000"), [deleted])
        finally:
            await opened.close()

    with stored.table_at(new_server(dsn).url, local_store) as table:
        table.given_up()
        claimed(dsn)
        asyncio.run(delete())


def claimed(dsn: str, *options: str) -> str:
    """The output of the command that claims the storage of all tables."""
    return run("claim", "--dsn", dsn, *options).stdout


def test_claims_are_neither_written_nor_read(new_server: NewServer, dsn: str, local_store: Store) -> None:
    with stored.table_at(new_server(dsn).url, local_store) as table:
        located.allow(dsn, namespace_of(table.name), "s3://lake/a")
        output = claimed(dsn)

        assert "not claimed" in output
        assert "locations allow" in output
        assert [path for path in table.paths() if "claim" in path] == []
        located.revoke(dsn, namespace_of(table.name), "s3://lake/a")
        located.allow(dsn, namespace_of(table.name), local_store.base_path)
        assert "0 tables not claimed" in claimed(dsn)


def test_a_claim_follows_the_locations_of_its_command_line(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    with stored.table_at(new_server(dsn).url, local_store):
        assert "1 table not claimed" in claimed(dsn, "--location", "s3://lake")
        assert "0 tables not claimed" in claimed(dsn, "--location", local_store.base_path)


def test_a_publisher_stops_says_why_and_goes_on_when_the_location_is_allowed_again(
    new_server: NewServer, dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, *PUBLISHES)
    with chronolake.connect(server.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        timeline = timeline_of(tmp_path / "lake")
        located.allow(dsn, namespace_of(table.table.name), tmp_path / "lake2")
        table.write(row(2), bucket=1)

        table.wait_for(lambda publication: "locations allow" in (publication.failure or ""))
        assert timeline_of(tmp_path / "lake") == timeline
        located.allow(dsn, namespace_of(table.table.name), tmp_path / "lake")
        wait_until(lambda: timeline_of(tmp_path / "lake") > timeline)


def timeline_of(folder: Path) -> set[str]:
    """The files of the published timeline."""
    return {path.name for path in (folder / ".hoodie" / "timeline").iterdir()}


def test_iceberg_metadata_is_neither_written_nor_read(new_server: NewServer, dsn: str, tmp_path: Path) -> None:
    server = new_server(dsn)
    with chronolake.connect(server.url) as client, rest.connect(server.url) as http:
        client.create_namespace("ice")
        table = new_table(client, "ice.orders", tmp_path / "orders")
        url = "/iceberg/v1/namespaces/ice/tables/orders"
        assert http.get(url).is_success
        located.allow(dsn, "ice", tmp_path / "other")
        written = sorted((tmp_path / "orders" / ICEBERG_FOLDER).rglob("*"))
        commit(table)

        answer = http.get(url)
        again = http.get(url)

        assert (answer.status_code, again.status_code) == (422, 422)
        assert "locations allow ice" in again.json()["error"]["message"]
        assert sorted((tmp_path / "orders" / ICEBERG_FOLDER).rglob("*")) == written
        located.allow(dsn, "ice", tmp_path / "orders")
        wait_until(lambda: http.get(url).is_success)


def test_a_link_that_replaced_a_folder_later_is_not_followed_out_of_the_location(
    new_server: NewServer, dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    located.allow(dsn, "shop", tmp_path / "lake")
    server = new_server(dsn, *DELETES)
    with rest.connect(server.url) as http:
        succeeded(http.post("/v1/namespaces", json={"name": "shop"}))
        body = rest.table_body("shop.orders", base_path=str(tmp_path / "lake" / "orders"))
        table = rest.Table(http, succeeded(http.post("/v1/tables", json=body))["name"])
        instant = table.begun()
        marker = rest.marker(instant)
        table.marked(instant, marker)
        (tmp_path / "theirs").mkdir()
        precious = tmp_path / "theirs" / marker["file_name"]
        precious.touch()
        (tmp_path / "lake" / "orders").symlink_to(tmp_path / "theirs")
        succeeded(table.roll_back(instant, execute=False))
        wait_until(lambda: "by a link" in server.log())

        assert precious.exists()
        assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [precious.name]


def test_no_worker_of_a_server_uses_storage_outside_of_its_own_locations(
    new_server: NewServer, dsn: str, local_store: Store
) -> None:
    with stored.table_at(new_server(dsn).url, local_store) as table:
        rollback, _ = table.given_up()
        before = table.paths()
        server = new_server(dsn, *DELETES, "--location", "s3://lake/a")
        wait_until(lambda: "locations allow" in server.log())

        assert table.paths() == before
        assert table.state(rollback) == "requested"
        assert database.query(dsn, "SELECT count(*) AS n FROM location") == [{"n": 0}]
        assert httpx.get(f"{server.url}/ready").json()["warnings"] == []
