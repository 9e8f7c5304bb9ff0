"""Two databases and one folder: only the metastore that has the claim of the folder deletes there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import chronolake
from chronolake import errors
from chronolake_model.file_names import bucket_file_id
from chronolake_storage import claims
from tests.client.stored import base
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.processes import wait_until

SCHEMA = [chronolake.Field("id", "bigint", nullable=False)]
DELETES = ("--deleter-seconds", "0.1")
NewServer = Callable[..., ServerProcess]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def made(client: chronolake.Client, root: Path, **properties: str) -> chronolake.Table:
    client.create_namespace("shop")
    return client.create_table(
        "shop.orders", base_path=str(root), schema=SCHEMA, record_key_fields=["id"], properties=properties
    )


def wrote(table: chronolake.Table, root: Path) -> tuple[chronolake.Write, Path]:
    """A write that has marked a file, and the file; the writer does not look at the claim."""
    write = table.begin(writer="gone")
    marker = base(write, 0)
    table.markers_of(write.requested_time, writer="gone").create([marker])
    path = root / marker.path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"rows")
    return write, path


def claim(dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run("claim", "--dsn", dsn, *options)


@pytest.fixture
def copied(postgres: str, dsn: str) -> Iterator[Callable[[], str]]:
    """Copies the database of the test, as a restore does."""
    name = f"{conninfo_to_dict(dsn)['dbname']}_copy"

    def copy() -> str:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{conninfo_to_dict(dsn)["dbname"]}"')
        return make_conninfo(postgres, dbname=name)

    with psycopg.connect(postgres, autocommit=True) as connection:
        yield copy
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def test_after_a_move_an_operator_claims_the_tables_and_the_old_database_deletes_nothing(
    new_server: NewServer, dsn: str, copied: Callable[[], str], root: Path
) -> None:
    first = new_server(dsn)
    with chronolake.connect(first.url) as client:
        table = made(client, root)
        table.claim_storage()
        write, path = wrote(table, root)
    before = (root / claims.PATH).read_bytes()
    first.stop()
    moved = copied()
    old = new_server(dsn)

    planned = claim(moved, "--dry-run")
    assert (planned.returncode, "its claim would be renewed" in planned.stdout) == (0, True)
    assert (root / claims.PATH).read_bytes() == before
    done, again = claim(moved), claim(moved)

    assert (done.returncode, "shop.orders: claim renewed" in done.stdout) == (0, True)
    assert "shop.orders: its claim was correct" in again.stdout
    with chronolake.connect(old.url) as client:
        with pytest.raises(errors.StorageFailed, match=r"is claimed by the table shop\.orders"):
            client.table("shop.orders").rollback(write.requested_time, writer="gone")
        assert path.exists()
    with chronolake.connect(new_server(moved).url) as client:
        client.table("shop.orders").rollback(write.requested_time, writer="gone")
        assert not path.exists()


def test_a_new_id_in_one_of_two_copies_keeps_the_other_from_deleting(
    new_server: NewServer, dsn: str, root: Path
) -> None:
    with chronolake.connect(new_server(dsn).url) as client:
        table = made(client, root)
        table.claim_storage()
    before = (root / claims.PATH).read_bytes()

    kept, planned = claim(dsn), claim(dsn, "--new-id", "--dry-run")
    assert "as before" in kept.stdout
    assert "shop.orders: its claim would be renewed" in planned.stdout
    assert (root / claims.PATH).read_bytes() == before
    renewed = claim(dsn, "--new-id")

    assert (renewed.returncode, "shop.orders: claim renewed" in renewed.stdout) == (0, True)
    assert (root / claims.PATH).read_bytes() != before
    assert claim(dsn, "--new-id", "--table", "shop.orders").returncode == 2


def test_a_table_that_was_never_written_has_nothing_to_claim_and_one_that_was_is_claimed(
    new_server: NewServer, dsn: str, root: Path
) -> None:
    with chronolake.connect(new_server(dsn).url) as client:
        dropped = made(client, root)
        dropped.claim_storage()
        write, _ = wrote(dropped, root)
        write.rollback("given up")
        client.drop_table("shop.orders")
        orders = client.create_table(
            "shop.orders", base_path=str(root), schema=SCHEMA, record_key_fields=["id"], reuse_base_path=True
        )
        client.create_table("shop.new", base_path=f"{root.parent}/new", schema=SCHEMA, record_key_fields=["id"])
        lost = client.create_table(
            "shop.lost", base_path=f"{root.parent}/lost", schema=SCHEMA, record_key_fields=["id"]
        )
        fine = claim(dsn)
        lost.begin()
        failed = claim(dsn)

    assert (fine.returncode, fine.stdout.count("never written, nothing to claim")) == (0, 2)
    assert "shop.orders: claim renewed" in fine.stdout
    assert orders.definition.table_id in (root / claims.PATH).read_text(encoding="utf-8")
    assert failed.returncode == 1
    assert f"shop.lost: not claimed: {root.parent}/lost does not exist" in failed.stdout
    assert "; 1 table not claimed" in failed.stdout
    assert not (root.parent / "new").exists()


def test_of_two_metastores_at_one_folder_the_second_deletes_nothing(
    new_server: NewServer, new_database: Callable[[], str], root: Path
) -> None:
    ours, theirs = new_database(), new_database()
    with chronolake.connect(new_server(ours).url) as client:
        made(client, root).claim_storage()
    with chronolake.connect(new_server(theirs).url) as client:
        stranger = made(client, root)
        write, path = wrote(stranger, root)
        direct = stranger.begin(markers=chronolake.MarkersType.DIRECT)

        with pytest.raises(errors.StorageFailed, match="is claimed by"):
            stranger.claim_storage()
        with pytest.raises(errors.StorageFailed, match="is claimed by"):
            direct.mark(base(direct, 0))
        with pytest.raises(errors.StorageFailed, match="is claimed by"):
            stranger.rollback(write.requested_time, writer="gone")
        assert path.exists()
        refused, forced = claim(theirs), claim(theirs, "--force", "--table", "shop.orders")
        assert (refused.returncode, "not claimed" in refused.stdout) == (1, True)
        assert "chronolake-metastore claim --table shop.orders --force." in refused.stdout
        assert (forced.returncode, "by force" in forced.stdout) == (0, True)
        stranger.finish_rollbacks()
        assert not path.exists()


def test_a_server_deletes_nothing_where_another_metastore_has_the_claim(
    new_server: NewServer, dsn: str, root: Path
) -> None:
    (root / ".hoodie").mkdir()
    foreign = claims.Claim(1, "another-metastore", "another-table", "other.orders", "2026-11-22T00:00:00+00:00")
    (root / claims.PATH).write_bytes(msgspec.json.encode(foreign))
    server = new_server(dsn, *DELETES)
    with chronolake.connect(server.url) as client:
        table = made(client, root, **{"deletions.executor": "server"})
        write, path = wrote(table, root)
        table.rollback(write.requested_time, writer="gone")

        wait_until(lambda: "is claimed by the table other.orders" in server.log())

        assert path.exists()
        assert "Traceback" not in server.log()


def test_of_two_live_tables_in_one_folder_only_the_first_has_the_claim(
    new_server: NewServer, dsn: str, root: Path
) -> None:
    server = new_server(dsn, *DELETES)
    with chronolake.connect(server.url) as client:
        first = made(client, root)
        # The server cannot see that the folder has this second name, too: it is made later.
        other = client.create_table(
            "shop.other", base_path=f"{root.parent}/alias", schema=SCHEMA, record_key_fields=["id"]
        )
        write, path = wrote(first, root)
        first.claim_storage()
        (root.parent / "alias").symlink_to(root)

        with pytest.raises(errors.StorageFailed, match=r"is claimed by the table shop\.orders "):
            other.claim_storage()
        refused = claim(dsn, "--table", "shop.other")

        assert (refused.returncode, "not claimed" in refused.stdout) == (1, True)
        # Files of the other table, which has no claim, may be in the folder.
        with pytest.raises(errors.StorageFailed, match=r"overlaps .* of the table shop\.other"):
            first.rollback(write.requested_time, writer="gone")
        assert path.exists()
        (root.parent / "alias").unlink()
        # The server executes the rollback, which waits.
        wait_until(lambda: not path.exists())


def test_nothing_is_claimed_or_deleted_where_a_link_leads_to_a_dropped_table(
    new_server: NewServer, dsn: str, root: Path
) -> None:
    server = new_server(dsn, *DELETES)
    with chronolake.connect(server.url) as client:
        dropped = made(client, root, **{"hudi.publish": "false"})
        with dropped.begin() as published:
            file_name = base(published, 0).file_name
            published.add(chronolake.WriteStat("", bucket_file_id(0), file_name, 100, 3))
        client.drop_table("shop.orders")
        # A writer in another language may have made none.
        (root / claims.PATH).unlink(missing_ok=True)
        other = client.create_table(
            "shop.other", base_path=f"{root.parent}/alias", schema=SCHEMA, record_key_fields=["id"]
        )
        (root.parent / "alias").symlink_to(root)
        write, path = wrote(other, root)
        assert [table.name for table in client.dropped_tables()] == ["shop.orders"]

        with pytest.raises(errors.StorageFailed, match=r"overlaps .* of the dropped table shop\.orders"):
            other.claim_storage()
        refused = claim(dsn, "--table", "shop.other")
        assert (refused.returncode, "the dropped table shop.orders" in refused.stdout) == (1, True)
        other.rollback(write.requested_time, writer="gone", execute=False)
        wait_until(lambda: "of the dropped table shop.orders" in server.log())

        assert path.exists()
        assert not (root / claims.PATH).exists()
