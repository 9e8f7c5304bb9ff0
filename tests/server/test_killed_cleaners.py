"""Promise 5: a cleaner that is killed at any step leaves the rest to the next one, and no file is left over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import database, dying_cleaner, dying_server, stored
from tests.server.deleting import DELETES, OTHERS, NewServer, completes, planned_clean, wrote_over
from tests.server.stored import StoredTable

FILES = 12
LEASES = ("--reaper-seconds", "0.1")


def check(table: StoredTable, dsn: str, superseded: list[str], live: list[str]) -> None:
    """Each superseded file is deleted and on record, once; no other file is."""
    assert table.paths() == sorted([OTHERS, *live])
    recorded = database.query(dsn, "SELECT partition_path || '/' || file_name AS path FROM deleted_file")
    assert sorted(row["path"] for row in recorded) == superseded
    assert [orphan.reason for orphan in table.orphans()] == ["not-a-data-file"]
    cleans = database.query(dsn, "SELECT state FROM instant WHERE action = 'clean'")
    assert [clean["state"] for clean in cleans] == ["completed"]


@contextmanager
def doomed(dsn: str, log: Path, *program: str) -> Iterator[ServerProcess]:
    """A server that is going to kill itself."""
    server = ServerProcess(dsn, log, *DELETES, program=("-m", "tests.server.dying_server", *program)).start()
    yield server
    server.wait_killed()


@pytest.mark.parametrize("point", dying_server.CLEANING)
@pytest.mark.slow
@pytest.mark.usefixtures("storage_credentials")
def test_a_server_killed_at_a_step_of_a_clean_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, store: Store, tmp_path: Path, point: str
) -> None:
    quiet = new_server(dsn)
    with stored.table_at(quiet.url, store) as table:
        superseded, live = wrote_over(table, FILES)
        with doomed(dsn, tmp_path / "doomed.log", point):
            clean = planned_clean(table)
        new_server(dsn, *DELETES)
        completes(table, clean)
        check(table, dsn, superseded, live)


@pytest.mark.parametrize("point", dying_cleaner.POINTS)
@pytest.mark.slow
def test_a_client_killed_at_a_step_of_a_clean_leaves_the_rest_to_the_next(
    new_server: NewServer, dsn: str, store: Store, point: str
) -> None:
    server = new_server(dsn, *LEASES)
    with (
        stored.table_at(server.url, store) as table,
        chronolake.connect(server.url, storage_options=store.options) as client,
    ):
        superseded, live = wrote_over(table, FILES)
        arguments = [server.url, table.name, msgspec.json.encode(store.options).decode(), point]
        killed = subprocess.run(
            [sys.executable, "-m", "tests.server.dying_cleaner", *arguments], check=False, timeout=120
        )
        assert killed.returncode == -9

        written = client.table(table.name)
        wait_until(lambda: not list(written.instants(state=chronolake.State.INFLIGHT)))
        written.clean(retain_commits=1)
        check(table, dsn, superseded, live)
