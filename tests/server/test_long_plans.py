"""The size of a request in an event is bounded; long lists do not fill the server's memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import rest
from tests.server.rest import Table, refused, succeeded, table_body, write_stat

TOO_MUCH = {f"{number}": "x" * 16_000 for number in range(20)}
ROLLBACKS = 6
FILES = 10_000
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def http(shared_server_url: str) -> Any:
    with rest.connect(shared_server_url) as client:
        succeeded(client.post("/v1/namespaces", json={"name": "bounds"}))
        succeeded(client.post("/v1/tables", json=table_body("bounds.table")))
        yield client


def test_metadata_beyond_its_bytes_is_refused(http: httpx.Client) -> None:
    table = Table(http, "bounds.table")
    begun = table.begun()

    refused(table.complete(begun, extra_metadata=TOO_MUCH), 400, "invalid-request")
    refused(table.begin(plan={"details": TOO_MUCH}), 400, "invalid-request")
    properties = {"name": "other", "properties": TOO_MUCH}
    refused(http.post("/v1/namespaces", json=properties), 400, "invalid-request")
    body = table_body("bounds.other", properties=TOO_MUCH)
    refused(http.post("/v1/tables", json=body), 400, "invalid-request")


def test_a_schema_beyond_its_bytes_is_refused(http: httpx.Client) -> None:
    wide = [{"name": f"c{number}", "type": f"struct<{'x' * 1_000}:int>"} for number in range(1_200)]

    body = table_body("bounds.wide", schema=wide)
    refused(http.post("/v1/tables", json=body), 400, "invalid-request")


@pytest.mark.slow
def test_three_readers_of_six_long_rollbacks_stay_within_memory(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn)
    with rest.connect(server.url) as client:
        succeeded(client.post("/v1/namespaces", json={"name": "long"}))
        succeeded(client.post("/v1/tables", json=table_body("long.plans")))
        table = Table(client, "long.plans")
        rollbacks = [_rolled_back(table, number) for number in range(ROLLBACKS)]
    server.stop()
    server.start()

    with ThreadPoolExecutor(3) as readers:
        totals = list(readers.map(lambda _: _read(server.url, rollbacks), range(3)))

    assert totals == [ROLLBACKS * FILES] * 3
    assert _peak_bytes(server) < 300 * MEBIBYTE


def _rolled_back(table: Table, number: int) -> str:
    instant = table.begun()
    names = [write_stat(instant, index)["file_name"] for index in range(FILES)]
    files = [f"{number}-{'x' * 900}/{name}" for name in names]
    undone: str = succeeded(table.roll_back(instant, files_to_delete=files))["rolled_back_by"]
    return undone


def _read(url: str, rollbacks: list[str]) -> int:
    """Read the log, the timeline and each plan, page by page: how many files the plans name."""
    with rest.connect(url) as client:
        assert len(client.get("/v1/events", params={"limit": 1_000}).content) < MEBIBYTE
        assert len(client.get("/v1/tables/long.plans/instants").content) < MEBIBYTE
        return sum(_files_of(client, rollback) for rollback in rollbacks)


def _files_of(client: httpx.Client, rollback: str) -> int:
    path, files, cursor = f"/v1/tables/long.plans/instants/{rollback}/plan/files", 0, None
    while True:
        query = {"limit": "10000"} | ({} if cursor is None else {"cursor": cursor})
        page = client.get(path, params=query)
        assert len(page.content) < 5 * MEBIBYTE
        document = succeeded(page)
        files += len(document["files"])
        cursor = document["next_cursor"]
        if cursor is None:
            return files


def _peak_bytes(server: ServerProcess) -> int:
    """The most memory that the process had since its start."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+([0-9]+) kB", status)
    assert peak is not None
    return int(peak[1]) * 1024
