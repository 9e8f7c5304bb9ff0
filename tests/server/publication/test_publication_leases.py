"""Publishers that die, race and come late: readers always see a state that the table had."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from typing_extensions import override

import chronolake
from chronolake import Action, Operation, errors
from chronolake._definitions import PUBLICATION_PAUSES
from chronolake_metastore.workers.publisher import LEASE_SECONDS
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.publication import PublicationStep, PublicationSteps
from chronolake_storage import publishing
from chronolake_storage.claims import Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.guard import Guard
from chronolake_storage.local import LocalFiles
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.published import PUBLISHES, PublishedTable, Row, row, wait_until_published
from tests.server import database

Rows = list[Row]


class DyingFiles(LocalFiles):
    """Files whose process dies after a number of operations that change storage."""

    def __init__(self, root: str, operations: int) -> None:
        super().__init__(root)
        self.left = operations

    def _count(self) -> None:
        if self.left == 0:
            raise StorageError("the process died")
        self.left -= 1

    @override
    def create_all(self, bodies: Any, *, in_order: bool) -> list[bool]:
        created = []
        for path, body in bodies:
            self._count()
            created.append(self.create(path, body))
        return created

    @override
    def put(self, path: str, body: bytes) -> None:
        self._count()
        super().put(path, body)

    @override
    def delete_permitted(self, permits: Any) -> Any:
        for permit in permits:
            self._count()
            yield from super().delete_permitted([permit])


class NoMetastore:
    """The metastore as the guard sees it: nothing but the claim is asked."""

    def owner(self) -> None:
        return None

    def tables(self) -> list[Any]:
        return []

    def needed_files(self, deleting: Any, paths: Any, recorded: Any) -> dict[str, str]:
        raise AssertionError

    def is_hidden(self) -> bool:
        raise AssertionError


def with_history(table: PublishedTable) -> list[Rows]:
    """Give a table a history; the rows of each state."""
    states: list[Rows] = [[]]

    def remember() -> None:
        states.append(table.rows())

    table.write(row(1), row(2, day="b"))
    remember()
    savepoint = table.table.savepoint()
    table.write(row(1, name="y"), row(3))
    remember()
    with table.table.begin(action=Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE) as write:
        for stat in table.files(write.requested_time, [row(7)], generation=1):
            write.add(stat)
        write.replace(FileGroupName("day=a", bucket_file_id(0)))
    remember()
    # Three instants are undone, newest first, so readers may see the states between.
    table.table.restore(savepoint.requested_time)
    remember()
    table.write(row(9), bucket=3)
    remember()
    return states


def steps_of(table: PublishedTable, url: str) -> list[PublicationStep]:
    """The steps of the whole log, as for readers that follow it."""
    answer = httpx.get(f"{url}/v1/tables/{table.table.name}/publication/steps")
    return chronolake_steps(answer).steps


def chronolake_steps(answer: httpx.Response) -> PublicationSteps:

    return msgspec.json.decode(answer.content, type=PublicationSteps)


def execute(table: PublishedTable, steps: list[PublicationStep], operations: int, *, is_hidden: bool) -> bool:
    """Execute steps up to a number of operations; whether all were executed."""
    definition = table.table.definition
    owner = Owner(definition.metastore_id, definition.table_id, definition.name)
    files = DyingFiles(str(table.folder), operations)
    try:
        publishing.execute(files, Guard(files, owner, NoMetastore()), steps, is_hidden=is_hidden)
    except StorageError:
        return False
    return True


def seen(table: PublishedTable) -> Rows | None:
    """The rows that hudi-rs shows; None while it finds no table."""
    if not (table.folder / publishing.PROPERTIES_PATH).exists():
        return None
    return table.hudi_rows()


def test_a_publisher_that_dies_between_any_two_files_leaves_a_state_that_the_table_had(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    states = with_history(table)
    steps = steps_of(table, shared_server.url)
    operations = 0
    rows_seen: list[Rows | None] = []
    while not execute(table, steps, operations, is_hidden=False):
        rows = seen(table)
        assert rows is None or rows in states
        rows_seen.append(rows)
        operations += 1
    assert seen(table) == states[-1]
    # Each run begins at the first step again, and found what the runs before had written.
    assert len(rows_seen) > len(states)


def test_a_hidden_table_is_not_seen_before_all_of_it_is_there(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    states = with_history(table)
    steps = steps_of(table, shared_server.url)
    # As the server orders them for a table with a history: the properties come with the last step.
    [first, *others] = steps
    properties = [file for file in first.writes if file.path == publishing.PROPERTIES_PATH]
    plain = [file for file in first.writes if file.path != publishing.PROPERTIES_PATH]
    hidden = [PublicationStep(1, plain), *others, PublicationStep(99, properties)]
    operations = 0
    while not execute(table, hidden, operations, is_hidden=True):
        assert seen(table) is None
        operations += 1
    assert seen(table) == states[-1]


def test_the_same_log_gives_the_same_bytes_whatever_was_there(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    with_history(table)
    first = steps_of(table, shared_server.url)
    table.publish()
    for name in table.timeline()[:3]:
        (table.folder / ".hoodie/timeline" / name).write_bytes(b"damaged")
    written = {file.path: file.content for step in first for file in step.writes}
    removed = {path for step in first for path in step.removes}

    execute(table, first, 10_000, is_hidden=False)

    names = {f".hoodie/timeline/{name}" for name in table.timeline()}
    assert names == {path for path in written if path.startswith(".hoodie/timeline")} - removed
    assert all((table.folder / path).read_bytes() == written[path] for path in names)


def test_while_a_publisher_has_the_lease_another_is_refused(table: PublishedTable) -> None:
    lease = table.lease("one")
    with pytest.raises(errors.LeaseLive, match="'one'"):
        table.lease("two")
    assert table.lease("one").epoch == lease.epoch


def test_a_publisher_whose_lease_another_took_over_cannot_report(table: PublishedTable) -> None:
    first = table.lease("one", lease_seconds=1)
    second = table.lease_later("two")
    assert second.epoch == first.epoch + 1
    with pytest.raises(errors.PublicationFenced):
        table.report(first, 1)
    assert table.report(second, 1).published_version == 1


def test_the_same_log_gives_the_same_bytes_on_every_page(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    table.write(row(1))
    table.table.alter(name=f"{table.table.name}_renamed")
    table.write(row(2), bucket=1)
    url = f"{shared_server.url}/v1/tables/{table.table.name}/publication/steps"
    whole = chronolake_steps(httpx.get(url)).steps
    for step in whole:
        page = chronolake_steps(httpx.get(url, params={"after": step.version - 1})).steps
        assert page[0] == step


def test_a_partition_behind_which_a_page_begins_has_no_nul(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    url = f"{shared_server.url}/v1/tables/{table.table.name}/publication/partitions"
    assert httpx.get(url, params={"after": "\0"}).status_code == 400


def test_a_report_never_moves_the_position_back(table: PublishedTable) -> None:
    table.write(row(1))
    lease = table.lease("one")
    assert table.report(lease, 3).published_version == 3
    assert table.report(lease, 2).published_version == 3
    with pytest.raises(errors.IllegalTransition, match="ends at version 3"):
        table.report(lease, 4)


def test_two_servers_and_a_client_publish_one_table(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    servers = [new_server(dsn, *PUBLISHES) for _ in range(2)]
    with chronolake.connect(servers[0].url) as client:
        table = PublishedTable(client, tmp_path / "lake")

        def publish(number: int) -> None:
            if number % 2:
                table.write(row(number), bucket=number)
                return
            with contextlib.suppress(errors.LeaseLive, errors.PublicationFenced):
                table.publish()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(publish, range(24)))
        table.published()
        assert table.hudi_rows() == table.rows()
        assert len(table.timeline()) == 13


def test_another_server_continues_where_a_killed_one_published(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    first = new_server(dsn, *PUBLISHES)
    with chronolake.connect(first.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        for number in range(4):
            table.write(row(number), bucket=number)
    first.kill()
    second = new_server(dsn, *PUBLISHES)
    with chronolake.connect(second.url) as client:
        table.table = client.table(table.table.name)
        table.expire_lease(dsn)
        table.write(row(5), bucket=5)
        table.published()
        assert table.hudi_rows() == table.rows()


def test_a_table_of_somebody_else_is_not_overwritten(table: PublishedTable) -> None:
    folder = table.folder / ".hoodie"
    folder.mkdir(parents=True)
    (folder / "hoodie.properties").write_text("hoodie.table.name=theirs\n")
    with pytest.raises(errors.StorageFailed, match="of another Hudi table"):
        table.publish()
    assert (folder / "hoodie.properties").read_text() == "hoodie.table.name=theirs\n"


def test_a_new_table_without_a_folder_is_no_alarm_and_its_first_file_is_published(
    publishing_server: ServerProcess, following_table: PublishedTable
) -> None:
    # A publisher was there, and has recorded that it found no folder.
    wait_until(lambda: database.contents(publishing_server.dsn, "publication")["publication"] != [])
    assert following_table.table.publication().failure is None
    assert "cannot be published" not in publishing_server.log()
    # The first file makes the folder, and the next event brings the server back.
    following_table.write(row(1))
    assert following_table.published().failure is None


def test_a_server_warns_if_it_does_not_see_the_folder_of_a_table_that_has_files(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, *PUBLISHES)
    with chronolake.connect(server.url) as client:
        table = PublishedTable(client, tmp_path / "lake", base_path=str(tmp_path / "elsewhere"))
        table.write(row(1))
        table.wait_for(lambda publication: "cannot be published" in server.log())


def test_a_failure_stays_in_the_status_and_holds_no_lease(following_table: PublishedTable, dsn: str) -> None:
    folder = following_table.folder / ".hoodie"
    folder.mkdir(parents=True)
    (folder / "hoodie.properties").write_text("hoodie.table.name=theirs\n")
    following_table.write(row(1))
    following_table.wait_for(lambda publication: "another Hudi table" in str(publication.failure))
    # It is recorded at each attempt, also for the same reason.
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE chronolake.publication SET failure = NULL")
    following_table.write(row(2), bucket=1)
    following_table.wait_for(lambda publication: publication.failure is not None)
    following_table.wait_for(lambda publication: publication.lease_expires_at is None)
    with pytest.raises(errors.StorageFailed, match="of another Hudi table"):
        following_table.publish()
    assert following_table.table.publication().failure is not None


def test_a_table_in_an_object_store_is_published(
    new_server: Callable[..., ServerProcess], dsn: str, store: Store, storage_credentials: None
) -> None:
    options = store.options or {}
    endpoint = options.get("endpoint_override", "http://nowhere")
    server = new_server(dsn, *PUBLISHES, "--storage-endpoint", endpoint)
    names = ("endpoint_override", "region")
    public = {f"storage.{name}": options[name] for name in names if name in options}
    store.open().make_folder()
    with chronolake.connect(server.url, storage_options=store.options) as client:
        client.create_namespace("shop")
        table = client.create_table(
            "shop.orders",
            base_path=store.base_path,
            schema=[chronolake.Field("id", "bigint", nullable=False)],
            record_key_fields=["id"],
            properties=public,
        )
        with table.begin() as write:
            name = base_file_name(bucket_file_id(0), "0-0-0", write.requested_time)
            write.add(chronolake.WriteStat("", bucket_file_id(0), name, 10, 1, 1))
        wait_until_published(table)
    listed = {file.path.partition("_")[0] for file in store.files().listing(".hoodie")}
    assert ".hoodie/hoodie.properties" in listed
    assert f".hoodie/timeline/{write.requested_time}" in listed


def test_foreign_files_are_named_and_what_is_missing_is_put_right(table: PublishedTable) -> None:
    with_history(table)
    table.publish()
    timeline = table.folder / ".hoodie/timeline"
    names, rows = table.timeline(), table.hudi_rows()
    first, second, *_ = names
    (timeline / first).unlink()
    (timeline / second).write_bytes(b"")
    (timeline / "20300101000000000.commit.requested").touch()
    damaged = f"hoodie.table.name=damaged\nchronolake.table-id={table.table.definition.table_id}\n"
    (table.folder / publishing.PROPERTIES_PATH).write_text(damaged)
    publication = table.table.publish(publisher="another")
    assert publication.foreign_files == [".hoodie/timeline/20300101000000000.commit.requested"]
    assert publication.checked_at is not None
    assert [name for name in table.timeline() if not name.startswith("2030")] == names
    assert table.hudi_rows() == rows


def test_a_server_that_takes_over_names_foreign_files(following_table: PublishedTable, dsn: str) -> None:
    following_table.write(row(1))
    following_table.published()
    name = "20300101000000000.commit.requested"
    (following_table.folder / ".hoodie/timeline" / name).touch()
    following_table.lease_later("another")
    following_table.expire_lease(dsn)
    following_table.write(row(2), bucket=1)
    publication = following_table.wait_for(lambda publication: bool(publication.foreign_files))
    assert publication.foreign_files == [f".hoodie/timeline/{name}"]


def test_a_client_publishes_after_each_of_its_writes_if_the_table_says_so(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(client, tmp_path / "lake", properties={"hudi.publisher": "client"})
    for number in range(2):
        table.write(row(number), bucket=number)
        assert table.hudi_rows() == table.rows() != []
    # Another publisher is at it: the write completes, and the next publisher shows it.
    table.lease("another")
    table.write(row(9), bucket=9)
    assert len(table.hudi_rows()) == 2


def test_the_metadata_of_partitions_are_no_orphans(table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    assert table.table.orphans().orphans == []


def test_a_publisher_that_has_published_nothing_has_no_files(
    table: PublishedTable, shared_server: ServerProcess, shared_dsn: str
) -> None:
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO chronolake.publication (table_id, published_completion) VALUES (%s, now())",
            (table.table.definition.table_id,),
        )

    answer = httpx.get(f"{shared_server.url}/v1/tables/{table.table.name}/publication/files")

    assert answer.status_code == 200, answer.text
    assert answer.json()["written"] == {}


def test_an_executor_waits_for_the_publication_of_a_plan_longer_than_the_lease_of_a_killed_publisher() -> None:
    assert sum(PUBLICATION_PAUSES) > LEASE_SECONDS + 20
