"""A server of the release before while a later one migrates writes no more; no command is lost or doubled.

The later release is made by the test. Its migration is the worst that there can be: servers that do not know it
cannot append to the log.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import chronolake_migrations
from chronolake_metastore.store.postgres import schema
from tests.fix_server import ServerProcess
from tests.server import database, next_release, rest
from tests.server.load import Load
from tests.server.rest import refused

WRITERS = 8
BEFORE_AND_AFTER = 32
DEADLINE_SECONDS = 240.0
NEXT = ("-m", "tests.server.next_release")


@dataclass
class Migrated:
    """The records of a load over two servers, the second of which migrated the database."""

    dsn: str
    before: str
    """The address of the server of the release before, which runs on."""
    load: Load
    table: str


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started from now on find the migrations of the next release."""
    [here] = chronolake_migrations.__path__
    shutil.copytree(here, tmp_path / "chronolake_migrations", ignore=shutil.ignore_patterns("__pycache__"))
    next_release.write_migrations(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def start_next(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of the next release."""
    return subprocess.run(
        [sys.executable, *NEXT, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def run_next(*arguments: str) -> str:
    """Run the command line of the next release, which succeeds, and give its output."""
    ended = start_next(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def migrated(dsn: str, server: ServerProcess, later: None, tmp_path: Path) -> Migrated:
    with rest.connect(server.url) as http:
        table = rest.make_table(http, partition_fields=["day"], index={"type": "bucket", "buckets": WRITERS})
    # The options of the embedded PostgreSQL stay: they say where it is, and without them it is a copy.
    present = conninfo_to_dict(dsn).get("options") or ""
    dsn_of_next = make_conninfo(dsn, options=f"{present} {next_release.OPTION}".strip())
    successor = ServerProcess(dsn_of_next, tmp_path / "next.log", program=NEXT)
    load = Load([server.url, successor.url], table.name)

    async def run() -> None:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run_writers(WRITERS))
                await load.wait_for_cycles(BEFORE_AND_AFTER)
                await asyncio.to_thread(run_next, "migrate", "--dsn", dsn_of_next)
                await asyncio.to_thread(successor.start)
                await load.wait_for_cycles(BEFORE_AND_AFTER)
                load.stopping = True
        finally:
            await load.close()

    try:
        asyncio.run(run())
        assert "all holds" in run_next("verify", "--dsn", dsn_of_next)
    finally:
        successor.stop()
    return Migrated(dsn, server.url, load, table.name)


def test_a_server_of_the_previous_release_stops_writing_and_nothing_is_lost(migrated: Migrated) -> None:
    log = database.events(migrated.dsn, migrated.table)
    keys = [row["request_id"] for row in database.query(migrated.dsn, "SELECT request_id FROM outcome")]
    with httpx.Client(base_url=migrated.before, timeout=rest.TIMEOUT_SECONDS) as http:
        unready = refused(http.get("/ready"), 503, "database-unavailable")
        table = rest.Table(http, migrated.table)
        begin = refused(table.begin(), 503, "database-unavailable")
        readable = http.get(f"/v1/tables/{migrated.table}/snapshot")

    assert {unready["context"]["found"], begin["context"]["found"]} == {next_release.NEXT_REVISION}
    assert readable.status_code == 200
    assert set(migrated.load.answers) <= set(keys)
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(log))
    assert all(cycle.completion_time > cycle.requested_time for cycle in migrated.load.cycles)
    assert all(cycle.requested_time > cycle.acknowledged_before for cycle in migrated.load.cycles)


def test_a_server_that_needs_a_later_schema_names_the_migrate_command(dsn: str, later: None) -> None:
    refused_to_serve = start_next("serve", "--dsn", dsn, "--port", "0")

    assert refused_to_serve.returncode != 0
    assert f"this server needs {next_release.NEXT_REVISION}" in refused_to_serve.stderr
    assert "run chronolake-metastore migrate" in refused_to_serve.stderr


def test_a_migration_that_fails_leaves_the_schema_as_it_was(dsn: str, later: None, tmp_path: Path) -> None:
    next_release.write_migrations(str(tmp_path), "CREATE TABLE chronolake.half_made (); SELECT 1 / 0")

    migrated = start_next("migrate", "--dsn", dsn)

    assert migrated.returncode != 0
    assert database.query(dsn, "SELECT version_num FROM alembic_version") == [{"version_num": schema.REVISION}]
    assert database.query(dsn, "SELECT to_regclass('chronolake.half_made') AS made") == [{"made": None}]
