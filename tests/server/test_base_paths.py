"""Base paths of tables never overlap, so that no table can have the files of another one deleted."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests import fix_server
from tests.server import database, rest
from tests.server.rest import Json, Table
from tests.store import tampering


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with rest.connect(server_url) as http:
        http.post("/v1/namespaces", json={"name": "shop"})
        yield http


def create(http: httpx.Client, name: str, base_path: str, **fields: object) -> httpx.Response:
    return http.post("/v1/tables", json=rest.table_body(f"shop.{name}", base_path=base_path, **fields))


def deletable(table: Table, instant: str, *files: Json, writer: str | None = "w") -> dict[str, str]:
    """The refused files, by path, and why."""
    named = [{name: file[name] for name in ("partition_path", "file_name")} for file in files]
    body = {"files": named} | ({} if writer is None else {"writer": writer})
    answer = rest.succeeded(table.http.post(f"/v1/tables/{table.name}/instants/{instant}/deletable", json=body))
    return {refusal["file_name"]: refusal["reason"] for refusal in answer["refused"]}


def orphans(table: Table, *files: Json, **options: object) -> dict[str, str]:
    named = [{name: file[name] for name in ("partition_path", "file_name")} for file in files]
    answer = rest.succeeded(
        table.http.post(f"/v1/tables/{table.name}/deletable", json={"files": named} | options)
    )
    return {refusal["file_name"]: refusal["reason"] for refusal in answer["refused"]}


@pytest.mark.parametrize("spelling", ["{a}/child", "file:{parent}//x/../a/", "{link}"])
def test_a_base_path_is_taken_in_every_spelling(http: httpx.Client, tmp_path: Path, spelling: str) -> None:
    (tmp_path / "lake" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "a")
    rest.succeeded(create(http, "a", str(tmp_path / "lake" / "a")))
    other = spelling.format(a=tmp_path / "lake" / "a", parent=tmp_path / "lake", link=tmp_path / "link")

    problem = rest.refused(create(http, "b", other), 409, "base-path-taken")
    again = rest.refused(create(http, "b", other, reuse_base_path=True), 409, "base-path-taken")

    assert problem["context"] | {"table": "shop.a", "dropped": False} == problem["context"]
    assert again["context"]["table"] == "shop.a"
    rest.succeeded(create(http, "beside", f"{tmp_path}/lake/ab"))


def test_a_dry_run_of_creating_is_refused_as_creating_is_and_creates_nothing(http: httpx.Client) -> None:
    def dry_run(name: str, base_path: str, **fields: object) -> httpx.Response:
        return http.post("/v1/tables/dry-run", json=rest.table_body(name, base_path=base_path, **fields))

    rest.succeeded(create(http, "live", "s3://bucket/live"))
    rest.succeeded(create(http, "old", "s3://bucket/old"))
    old = Table(http, "shop.old")
    published = old.begun()
    rest.succeeded(old.complete(published, rest.write_stat(published)))
    assert http.delete("/v1/tables/shop.old").status_code == 204

    assert dry_run("shop.new", "s3://bucket/new").status_code == 204
    assert dry_run("shop.new", "s3://bucket/old/x", reuse_base_path=True).status_code == 204
    assert dry_run("shop.new", "s3://bucket/new").status_code == 204
    rest.refused(dry_run("shop.live", "s3://bucket/new"), 409, "table-exists")
    rest.refused(dry_run("other.new", "s3://bucket/new"), 404, "namespace-not-found")
    rest.refused(dry_run("other.new", "s3://bucket/"), 409, "base-path-taken")
    rest.refused(dry_run("shop.new", "s3://bucket/new", partition_fields=["no"]), 422, "invalid-table")
    taken = rest.refused(dry_run("other.new", "s3a://bucket/old/x"), 409, "base-path-taken")
    assert (taken["context"]["table"], taken["context"]["dropped"]) == ("shop.old", True)
    rest.refused(http.get("/v1/tables/shop.new"), 404, "table-not-found")


def test_a_base_path_with_a_link_that_the_server_cannot_read_is_refused(http: httpx.Client) -> None:
    with subprocess.Popen(["true"]) as ended:
        # Until the process is waited for, this link exists, and leads nowhere for every reader.
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        problem = rest.refused(create(http, "a", f"/proc/{ended.pid}/root/x"), 422, "invalid-table")

    assert "cannot read a link" in problem["detail"]


@pytest.mark.parametrize("spelling", ["S3N://lake/a/b/", "s3://lake"])
def test_a_folder_of_a_bucket_is_taken_by_one_table(http: httpx.Client, spelling: str) -> None:
    rest.succeeded(create(http, "a", "s3://lake/a"))
    rest.refused(create(http, "b", spelling), 409, "base-path-taken")
    rest.succeeded(create(http, "c", "s3://lake/ab"))
    rest.succeeded(create(http, "d", "gs://lake/a"))


def test_a_base_path_that_cannot_be_compared_is_refused(http: httpx.Client) -> None:
    for base_path in ("lake/a", "s3://k:s@lake/a", "/" + "a/" * 800):
        rest.refused(create(http, "a", base_path), 422, "invalid-table")


def test_a_dropped_table_keeps_its_base_path_until_a_request_takes_it_over(
    server: fix_server.ServerProcess, http: httpx.Client
) -> None:
    old = rest.make_table(http, "shop.old", base_path="/lake/a/b")
    instant = old.begun()
    rest.succeeded(old.complete(instant, rest.write_stat(instant)))
    old_id = rest.succeeded(http.get("/v1/tables/shop.old"))["table_id"]
    http.delete("/v1/tables/shop.old")

    problem = rest.refused(create(http, "new", "/lake/a"), 409, "base-path-taken")
    made = rest.succeeded(create(http, "new", "/lake/a", reuse_base_path=True))

    assert (problem["context"]["dropped"], problem["context"]["table"]) == (True, "shop.old")
    taken = database.query(
        server.dsn,
        "SELECT type, payload ->> 'by' AS by FROM event WHERE table_id = %s ORDER BY version DESC LIMIT 2",
        old_id,
    )
    assert [(row["type"], row["by"]) for row in taken] == [
        ("BasePathTakenOver", made["table_id"]),
        ("TableDropped", None),
    ]
    created = database.events(server.dsn, "shop.new")
    assert created[0]["type"] == "TableCreated"
    rest.refused(create(http, "third", "/lake/a/b"), 409, "base-path-taken")
    assert tampering.verify(server.dsn).findings == []
    assert set(tampering.rebuild(server.dsn).repaired.values()) == {0}


def test_a_dropped_table_that_never_published_a_file_is_not_in_the_way(http: httpx.Client) -> None:
    old = rest.make_table(http, "shop.old", base_path="/lake/a")
    rest.succeeded(old.roll_back(old.begun()))
    http.delete("/v1/tables/shop.old")
    rest.succeeded(create(http, "new", "/lake/a"))
    rest.refused(create(http, "third", "/lake/a"), 409, "base-path-taken")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_creates_of_one_folder_at_two_servers_exactly_one_wins(
    new_server: Callable[..., fix_server.ServerProcess], dsn: str
) -> None:
    urls = [new_server(dsn).url, new_server(dsn).url]
    folders = [
        "/lake",
        "/lake/a",
        "/lake/a/b",
        "file:///lake/x/..",
        "/lake//a",
        "file:/lake",
        "/lake/./a",
        "/lake/c/..",
    ]
    async with httpx.AsyncClient(timeout=rest.TIMEOUT_SECONDS) as http:
        await http.post(f"{urls[0]}/v1/namespaces", json={"name": "shop"})
        answers = await asyncio.gather(
            *(
                http.post(
                    f"{urls[number % 2]}/v1/tables", json=rest.table_body(f"shop.t{number}", base_path=folder)
                )
                for number, folder in enumerate(folders)
            )
        )
    # /lake/a and /lake overlap, and so do all: the others lie in one of them.
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


def test_postgresql_itself_refuses_two_tables_whose_folders_overlap(
    server: fix_server.ServerProcess, http: httpx.Client
) -> None:
    rest.succeeded(create(http, "a", "/lake/a"))
    insert = (
        "INSERT INTO chronolake.base_path (table_id, key, is_checked)"
        " VALUES (gen_random_uuid(), 'file:///lake/', true)"
    )
    with (
        psycopg.connect(server.dsn) as connection,
        pytest.raises(psycopg.errors.ExclusionViolation, match="base_path_disjoint"),
    ):
        connection.execute(insert)


def test_a_create_that_is_sent_again_gets_its_answer_though_the_link_leads_elsewhere_by_now(
    http: httpx.Client, tmp_path: Path
) -> None:
    link, body, key = (
        tmp_path / "link",
        rest.table_body("shop.a", base_path=str(tmp_path / "link")),
        rest.new_key(),
    )
    link.symlink_to(tmp_path / "one")
    first = http.post("/v1/tables", json=body, headers=rest.keyed(key))
    link.unlink()
    link.symlink_to(tmp_path / "two")
    again = http.post("/v1/tables", json=body, headers=rest.keyed(key))
    assert rest.succeeded(first) == rest.succeeded(again)


@pytest.fixture
def overlapping(server: fix_server.ServerProcess, http: httpx.Client) -> tuple[Table, Table]:
    """Two tables of one folder, as those of a release could be that did not look."""
    first = rest.make_table(http, "shop.one", base_path="/lake/one")
    second = rest.make_table(http, "shop.two", base_path="/lake/two")
    database.query_nothing(
        server.dsn,
        "UPDATE base_path SET is_checked = false, key = 'file:///lake/one/'"
        " WHERE table_id IN (SELECT table_id FROM lake_table WHERE name IN ('one', 'two'))",
    )
    return first, second


def test_nothing_is_deleted_in_tables_that_overlap_until_one_is_dropped(
    overlapping: tuple[Table, Table],
) -> None:
    first, second = overlapping
    instant = first.begun()
    stat = rest.write_stat(instant)
    body = {"files": [{"partition_path": "", "file_name": stat["file_name"]}], "writer": "w"}
    for table in (first, second):
        response = table.http.post(f"/v1/tables/{table.name}/deletable", json={"files": body["files"]})
        rest.refused(response, 409, "base-path-shared")
    response = first.http.post(f"/v1/tables/{first.name}/instants/{instant}/deletable", json=body)
    rest.refused(response, 409, "base-path-shared")

    first.http.delete(f"/v1/tables/{second.name}")
    assert deletable(first, instant, stat) == {}


def test_an_old_table_at_a_relative_path_blocks_no_other_table(
    server: fix_server.ServerProcess, http: httpx.Client
) -> None:
    relative = rest.make_table(http, "shop.relative")
    database.query_nothing(server.dsn, "UPDATE base_path SET is_checked = false, key = NULL")

    table = rest.make_table(http, "shop.a", base_path="/lake/a")

    instant = table.begun()
    stat = rest.write_stat(instant)
    assert deletable(table, instant, stat) == {}
    files = [{"partition_path": "", "file_name": stat["file_name"]}]
    response = relative.http.post(f"/v1/tables/{relative.name}/deletable", json={"files": files})
    rest.refused(response, 409, "base-path-shared")


def test_nothing_is_deleted_by_a_metastore_whose_database_was_moved(
    server: fix_server.ServerProcess, http: httpx.Client
) -> None:
    table = rest.make_table(http, "shop.a")
    instant = table.begun()
    database.query_nothing(server.dsn, "INSERT INTO metastore (database) VALUES ('elsewhere')")
    body = {"files": [{"partition_path": "", "file_name": rest.write_stat(instant)["file_name"]}]}
    response = http.post(f"/v1/tables/shop.a/instants/{instant}/deletable", json=body)
    assert "chronolake-metastore claim" in rest.refused(response, 409, "metastore-moved")["detail"]


def test_a_pending_write_alone_may_delete_its_own_files_and_no_others(http: httpx.Client) -> None:
    table = rest.make_table(http, "shop.a")
    mine, other = table.begun(), table.begun(writer="other")
    stat, strange = rest.write_stat(mine), rest.write_stat(other, 1)
    table.staged(mine, rest.write_stat(mine, 2))
    named = {"partition_path": "", "file_name": "secret.txt"}

    assert deletable(table, mine, stat, strange, rest.write_stat(mine, 2), named) == {
        strange["file_name"]: "other-instant",
        rest.write_stat(mine, 2)["file_name"]: "staged",
        "secret.txt": "not-a-data-file",
    }
    assert deletable(table, mine, stat, writer="other") == {stat["file_name"]: "pending"}
    assert deletable(table, mine, stat, writer=None) == {stat["file_name"]: "pending"}
    assert orphans(table, stat) == {stat["file_name"]: "pending"}


def test_a_published_file_is_deleted_by_the_clean_that_names_it_and_by_nothing_else(http: httpx.Client) -> None:
    table = rest.make_table(http, "shop.a")
    first = table.begun()
    old, late = rest.write_stat(first), rest.write_stat(first, 1)
    rest.succeeded(table.complete(first, old))
    assert deletable(table, first, old, late) == {old["file_name"]: "live"}
    second = table.begun()
    new = rest.write_stat(second)
    rest.succeeded(table.complete(second, new))
    own = table.begun(action="clean", operation="unknown")

    assert deletable(table, first, old, late) == {old["file_name"]: "published"}
    assert deletable(table, own, old, new, late) == {
        old["file_name"]: "served",
        new["file_name"]: "live",
        late["file_name"]: "other-instant",
    }
    assert orphans(table, old, late) == {old["file_name"]: "published"}
    plan = rest.succeeded(http.post("/v1/tables/shop.a/cleans", json={"writer": "w", "retain_commits": 1}))[
        "clean"
    ]
    clean = plan["requested_time"]
    assert deletable(table, clean, old, new, late) == {
        new["file_name"]: "other-instant",
        late["file_name"]: "other-instant",
    }
    assert deletable(table, clean, old, writer="other") == {old["file_name"]: "pending"}


def test_files_that_a_savepoint_or_a_reader_holds_are_not_deleted(http: httpx.Client) -> None:
    table = rest.make_table(http, "shop.a")
    first = table.begun()
    old = rest.write_stat(first)
    completed = rest.succeeded(table.complete(first, old))["completion_time"]
    rest.succeeded(http.post("/v1/tables/shop.a/readers", json={"reader": "r", "as_of": completed}))
    second = table.begun()
    rest.succeeded(table.complete(second, rest.write_stat(second)))
    own = table.begun(action="clean", operation="unknown")
    assert deletable(table, own, old) == {old["file_name"]: "held"}


def test_an_orphan_of_an_unknown_past_instant_is_deleted_only_on_request(http: httpx.Client) -> None:
    table = rest.make_table(http, "shop.a")
    table.begun()
    past, future = rest.write_stat("20200101000000000"), rest.write_stat("29990101000000000")
    both = {past["file_name"]: "unknown-instant", future["file_name"]: "unknown-instant"}
    assert orphans(table, past, future) == both
    assert orphans(table, past, future, unknown_instants=True) == {future["file_name"]: "unknown-instant"}


def test_a_rollback_may_delete_files_of_its_target_and_no_others(http: httpx.Client) -> None:
    table = rest.make_table(http, "shop.a")
    target, other = table.begun(), table.begun()
    mine, strange = rest.write_stat(target), rest.write_stat(other)
    table.marked(target, rest.marker(target))
    rest.succeeded(table.roll_back(target, execute=True))
    rollbacks = rest.succeeded(http.get("/v1/tables/shop.a/instants", params={"action": "rollback"}))[
        "instants"
    ]
    rollback = rollbacks[0]["requested_time"]
    assert deletable(table, rollback, mine, strange) == {strange["file_name"]: "other-instant"}
    assert deletable(table, rollback, mine, writer="x") == {mine["file_name"]: "pending"}
    assert orphans(table, mine) == {}
