"""Servers that delete, and tables whose rollbacks and cleans wait for them."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx

from chronolake_model.times import parse_time
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import database, rest, stored
from tests.server.rest import succeeded
from tests.server.stored import StoredTable, path_of
from tests.store import tampering

DELETES = ("--deleter-seconds", "0.1", "--deleter-lease-seconds", "2", "--reaper-seconds", "0.1")
OTHERS = "day=0/not-a-data-file"
"""A file that belongs to no instant."""
NewServer = Callable[..., ServerProcess]


def completes(table: StoredTable, *rollbacks: str) -> None:
    wait_until(lambda: all(map(table.is_completed, rollbacks)))


def files_deleted(server: ServerProcess) -> float:
    """The value of the server's own metric."""
    metrics = httpx.get(f"{server.url}/metrics", verify=False).text
    [figure] = re.findall(r"^chronolake_files_deleted_total (\S+)$", metrics, re.MULTILINE)
    return float(figure)


def plan_of(table: rest.Table, instant: str) -> rest.Json:
    return succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}"))


def name_in_plan(dsn: str, rollback: str, name: str) -> None:
    """Make the plan of a rollback name another file, which no request may."""
    time = f"chronolake.moment({parse_time(rollback)})"
    tampering.tamper(dsn, f"UPDATE event_entry SET name = '{name}' WHERE instant = {time}")


def given_back(server: ServerProcess) -> list[str]:
    """The server's log lines of rollbacks that it could not execute."""
    return [line for line in server.log().splitlines() if "rollback given back" in line]


def kill_in_the_middle(server: ServerProcess, dsn: str, reported: int) -> None:
    """Kill a server that deletes after it has reported this number of files."""
    with database.connected(dsn) as other, other.transaction():
        database.wait_until(dsn, f"(SELECT count(*) FROM deleted_file) >= {reported}")
        # A file that is already deleted from storage cannot be reported any more.
        other.execute("LOCK TABLE deleted_file IN SHARE MODE")
        server.kill()


def table_files(dsn: str) -> list[str]:
    return [row["file_name"] for row in database.query(dsn, "SELECT file_name FROM deleted_file")]


def marked_directly(table: StoredTable, files: int = 3) -> tuple[str, list[rest.Json]]:
    """An instant that has marked files in storage, and written them."""
    instant = table.begun(markers="direct")
    markers = [stored.marker_of(instant, number) for number in range(files)]
    names = [f".hoodie/.temp/{instant}/{path_of(marker)}.marker.CREATE" for marker in markers]
    table.storage.create_all_empty([*names, *map(path_of, markers)])
    return instant, markers


def wrote_over(table: StoredTable, files: int) -> tuple[list[str], list[str]]:
    """The paths of the files of a commit that the next commit superseded, and of the superseding files."""
    commits = []
    for _ in range(2):
        instant = table.begun()
        stats = [rest.write_stat(instant, number % 4, f"day={number // 4}") for number in range(files)]
        paths = sorted(map(path_of, stats))
        table.storage.create_all_empty(paths)
        succeeded(table.complete(instant, *stats))
        commits.append(paths)
    superseded, live = commits
    return superseded, live


def planned_clean(table: StoredTable, **options: object) -> str:
    """A clean whose plan waits."""
    body = {"writer": "w", "retain_commits": 1, "execute": False} | options
    clean = succeeded(table.http.post(f"/v1/tables/{table.name}/cleans", json=body))["clean"]
    requested_time: str = clean["requested_time"]
    return requested_time
