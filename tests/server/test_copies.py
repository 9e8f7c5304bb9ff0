"""A copy of a database takes no writes and touches no storage; the original stops when a copy continues it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import chronolake
from chronolake import errors
from chronolake.cli import main as command
from chronolake_metastore import errors as server_errors
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import identity
from chronolake_metastore.store.identity import LastEvent, Standing
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers import identity_watch
from chronolake_metastore.workers.identity_watch import IdentityWatch
from chronolake_metastore.workers.table_storage import TableStorage
from chronolake_model.checks import FindingKind
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.markers import DeletedFile
from chronolake_storage import claims
from chronolake_storage.guard import Deleting
from tests import forked_program
from tests.fix_server import ServerProcess
from tests.published import FIELDS, PUBLISHES, PublishedTable, row

NewServer = Callable[..., ServerProcess]


TRIES = 5


@pytest.fixture
def copied(postgres: str, dsn: str) -> Iterator[Callable[[], str]]:
    """Copies the database beside the running original, as ``pg_dump`` and ``pg_restore`` do."""
    name = f"{conninfo_to_dict(dsn)['dbname']}_copy"

    def copy() -> str:
        with psycopg.connect(postgres, autocommit=True) as connection:
            for tries_left in reversed(range(TRIES)):
                try:
                    copy_once(connection)
                    break
                except psycopg.errors.ObjectInUse:
                    if not tries_left:
                        raise
        return make_conninfo(postgres, dbname=name)

    def copy_once(connection: psycopg.Connection[tuple[object, ...]]) -> None:
        # A template has no other users. The servers connect again, sometimes before the copy begins.
        template = conninfo_to_dict(dsn)["dbname"]
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [template]
        )
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY wal_log')

    yield copy
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def claim(dsn: str, *flags: str) -> None:
    """Run ``chronolake-metastore claim``."""
    done = forked_program.run("claim", "--dsn", dsn, *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def stored(table: PublishedTable) -> dict[str, bytes]:
    """Every file of a table's folder, but the claim: the original records there how far its log has come."""
    return {
        str(path.relative_to(table.folder)): path.read_bytes()
        for path in table.folder.rglob("*")
        if path.is_file() and path != table.folder / claims.PATH
    }


def metric(server: ServerProcess, name: str) -> float:
    lines = httpx.get(f"{server.url}/metrics", verify=False).text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def test_a_server_on_a_copy_only_reads_while_the_original_goes_on(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    original = new_server(dsn, *PUBLISHES)
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        pending = table.table.begin(writer="w").requested_time
        copy = ServerProcess(copied(), tmp_path / "copy.log", *PUBLISHES, "--deleter-seconds", "0.05")
        before = stored(table)
        try:
            copy.start(ready_status=409)
            refuses_everything(copy, table.table.name, pending)
            assert stored(table) == before

            # The original goes on, and Hudi's readers see its values.
            table.write(row(2), bucket=1)
            table.published()
            assert table.hudi_rows() == table.rows()
            assert metric(original, "chronolake_acts") == 1
        finally:
            copy.stop()


@pytest.mark.parametrize("flags", [[], ["--problems"]])
def test_the_health_of_a_copy_says_first_that_it_only_reads(
    new_server: NewServer,
    dsn: str,
    copied: Callable[[], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
) -> None:
    new_server(dsn)
    copy = ServerProcess(copied(), tmp_path / "copy.log")
    try:
        copy.start(ready_status=409)
        code = command.run(["health", *flags, "--url", copy.url])
        printed = capsys.readouterr().out
        body = httpx.get(f"{copy.url}/v1/health").text
    finally:
        copy.stop()

    assert code == 1
    assert printed.startswith("The server only reads: this server does not act for the metastore ")
    assert body.startswith('{"refusal":"this server does not act for the metastore ')


def refuses_everything(copy: ServerProcess, name: str, pending: str) -> None:
    """The copy takes no write of any kind, says why, and reads."""
    with chronolake.connect(copy.url) as client:
        table = client.table(name)
        for write in (
            lambda: table.begin(writer="w"),
            lambda: client.create_namespace("another"),
            lambda: table.rollback(pending, writer="w"),
            table.publish,
            # With nothing to do, too.
            table.sweep,
            table.finish_rollbacks,
            lambda: table.delete_orphans(table.orphans()),
        ):
            with pytest.raises(errors.MetastoreMoved, match="chronolake-metastore claim"):
                write()
        file_name = base_file_name(bucket_file_id(3), "0-0-0", pending)
        marker = {"partition_path": "day=a", "file_name": file_name, "kind": "CREATE"}
        body = {"writer": "w", "markers": [marker]}
        marked = httpx.post(f"{copy.url}/v1/tables/{name}/instants/{pending}/markers", json=body)
        assert marked.json()["code"] == "metastore-moved"
        assert table.snapshot() is not None
        assert "is a copy or was moved" in str(table.publication().failure)
    ready = httpx.get(f"{copy.url}/ready")
    assert (ready.status_code, ready.json()["code"]) == (409, "metastore-moved")
    assert metric(copy, "chronolake_acts") == 0
    assert "this server only reads" in copy.log()
    assert "is a copy or was moved" in copy.log()


def test_an_operator_continues_on_a_copy_and_the_original_that_comes_back_stops(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    original = new_server(dsn, *PUBLISHES)
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
    original.stop()
    restored = copied()
    claim(restored)
    with chronolake.connect(new_server(restored, *PUBLISHES).url) as client:
        table.table = client.table(table.table.name)
        table.write(row(2), bucket=1)
        table.published()
        rows = table.hudi_rows()
        assert rows == table.rows()

        back = ServerProcess(dsn, tmp_path / "back.log", *PUBLISHES)
        try:
            back.start(ready_status=409)
            with (
                chronolake.connect(back.url) as former,
                pytest.raises(errors.MetastoreMoved, match="a copy of its database continues it"),
            ):
                assert "continues it" in str(former.table(table.table.name).publication().failure)
                former.table(table.table.name).begin(writer="w")
        finally:
            back.stop()
        assert table.hudi_rows() == rows


def test_a_running_original_notices_the_claim_of_a_copy(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    async def claimed_meanwhile(watch: IdentityWatch, clock: list[float]) -> None:
        await watch.look()
        watch.refuse()
        await asyncio.to_thread(claim, copied())
        # The original's own check names the claim, and does not blame a writer of Hudi.
        checked = await asyncio.to_thread(table.table.check)
        kinds = {finding.kind for finding in checked.findings}
        assert FindingKind.FOREIGN_CLAIM in kinds
        assert FindingKind.FOREIGN_HUDI_FILE not in kinds
        clock[0] += identity_watch.CLAIMS_SECONDS
        await watch.look()
        with pytest.raises(server_errors.MetastoreMoved, match="a copy of its database continues it"):
            watch.refuse()

        # The operator decides for the original after all.
        await asyncio.to_thread(claim, dsn, "--new-id", "--force")
        await watch.look()
        watch.refuse()

    with chronolake.connect(new_server(dsn, *PUBLISHES).url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        run_watch(dsn, claimed_meanwhile)


def run_watch(dsn: str, use: Callable[[IdentityWatch, list[float]], Awaitable[None]]) -> None:
    """Run with a watch whose time the test moves."""

    async def run() -> None:
        clock = [0.0]
        database = Database(Settings(dsn=dsn))
        try:
            await use(IdentityWatch(database, Settings(dsn=dsn), Metrics(), lambda: clock[0]), clock)
        finally:
            await database.close()

    asyncio.run(run())


def promote(dsn: str) -> None:
    """Make this PostgreSQL the successor of the one that the identity was made in, as a failover does."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO chronolake.metastore (database)"
            " SELECT regexp_replace(chronolake.this_database(), '/[0-9A-F]+$', '/00000000')"
        )


def test_running_servers_follow_a_failover_and_servers_that_start_later_too(dsn: str) -> None:
    async def fail_over(watch: IdentityWatch, _: list[float]) -> None:
        await watch.look()
        await asyncio.to_thread(promote, dsn)
        await watch.look()
        watch.refuse()

    run_watch(dsn, fail_over)
    run_watch(dsn, acts)


async def acts(watch: IdentityWatch, _: list[float]) -> None:
    await watch.look()
    watch.refuse()


def test_a_server_that_starts_on_a_promoted_database_waits_for_an_operator(dsn: str) -> None:
    promote(dsn)

    async def waits(watch: IdentityWatch, _: list[float]) -> None:
        await watch.look()
        with pytest.raises(server_errors.MetastoreMoved, match="was promoted or recovered"):
            watch.refuse()
        await asyncio.to_thread(claim, dsn)
        await watch.look()
        watch.refuse()

    run_watch(dsn, waits)


def test_a_database_that_lacks_an_event_which_a_server_has_seen_is_an_earlier_state(dsn: str) -> None:
    async def run() -> None:
        database = Database(Settings(dsn=dsn))
        try:
            async with database.reading() as connection:
                present = await identity.get(connection)
                earlier = await identity.get(connection, LastEvent("7", 1_000_000, bytes(32)))
        finally:
            await database.close()
        assert (present.standing, present.has_last_event) == (Standing.OWN, True)
        assert (earlier.standing, earlier.has_last_event) == (Standing.OWN, False)

    asyncio.run(run())


def test_a_copy_from_the_past_with_the_identity_of_its_original_publishes_and_deletes_nothing(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    original = new_server(dsn, *PUBLISHES)
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        past = copied()
        keep_identity(past)
        table.write(row(2), bucket=1)
        table.published()
        before = stored(table)

        run_watch(past, is_an_earlier_state)
        asyncio.run(refuses_storage(past))
        assert stored(table) == before

        claim(past)
        run_watch(past, acts)


def test_a_client_of_an_earlier_state_does_not_delete_what_was_published_since(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    original = new_server(dsn, *PUBLISHES)
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        write = table.table.begin(writer="w")
        files = table.files(write.requested_time, [row(1)])
        write.mark(*table.markers(files))
        past = copied()
        keep_identity(past)
        # It reads the claim when it starts, and then only after a minute.
        earlier = ServerProcess(past, tmp_path / "past.log")
        earlier.start()
        try:
            write.complete(files)
            table.published()
            with chronolake.connect(earlier.url) as late:
                same = late.table(table.table.name)
                with pytest.raises(errors.MetastoreMoved, match="which this database lacks"):
                    same.rollback(write.requested_time, writer="w")
        finally:
            earlier.stop()
        assert table.rows() == [row(1)]


def test_a_copy_from_the_past_finds_the_one_table_of_fifty_that_went_on(
    new_server: NewServer, dsn: str, copied: Callable[[], str], tmp_path: Path
) -> None:
    original = new_server(dsn, *PUBLISHES)
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        client.create_namespace("quiet")
        for number in range(49):
            client.create_table(
                f"quiet.t{number}",
                base_path=str(tmp_path / f"quiet_{number}"),
                schema=FIELDS,
                record_key_fields=["id"],
            )
        past = copied()
        keep_identity(past)
        table.write(row(2), bucket=1)
        table.published()

    run_watch(past, is_an_earlier_state)


def keep_identity(copy: str) -> None:
    """Give a copy of a database the identity of its original, as a snapshot of its volume has it."""
    with psycopg.connect(copy) as connection:
        connection.execute("ALTER TABLE chronolake.metastore DISABLE TRIGGER ALL")
        connection.execute("UPDATE chronolake.metastore SET database = chronolake.this_database()")
        connection.execute("ALTER TABLE chronolake.metastore ENABLE ALWAYS TRIGGER metastore_append_only")


async def is_an_earlier_state(watch: IdentityWatch, _: list[float]) -> None:
    """The watch finds at its first look that its database is an earlier state."""
    await watch.look()
    with pytest.raises(server_errors.MetastoreMoved, match="its database is an earlier state"):
        watch.refuse()


async def refuses_storage(dsn: str) -> None:
    """The publisher and the deleter find out themselves, for tables whose claims the watch has not read."""
    database = Database(Settings(dsn=dsn))
    try:
        async with database.reading() as connection:
            place = (await identity.tables_to_watch(connection, 1))[0]
        files = await TableStorage(database, []).opened(place)
        with pytest.raises(server_errors.ConfigurationError, match="the log lacks it"):
            await files.begin_publication(None)
        deleted = DeletedFile("day=a", base_file_name(bucket_file_id(1), "0-0-0", "20260101000000000"))
        with pytest.raises(server_errors.ConfigurationError, match="the log lacks it"):
            await files.delete(Deleting("20260101000000000", "20260101000000000"), [deleted])
    finally:
        await database.close()
