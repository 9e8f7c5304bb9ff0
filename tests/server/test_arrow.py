"""Snapshots and changes as Arrow: equal to JSON, whole or failed, and no resources for absent readers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

import chronolake
from chronolake import errors
from chronolake_metastore.store.postgres.stream_slots import STREAMS_MAX
from chronolake_model.files import ARROW
from chronolake_model.times import Tick, format_time, from_datetime
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Table, log_stat, succeeded, write_stat

MANY_FILES = 300_000
WAIT_SECONDS = 20.0
_COLUMNS = (
    "path",
    "size_bytes",
    "records",
    "requested_time",
    "completion_time",
    "schema_version",
    "has_field_ids",
)


@pytest.fixture
def clicks(shared_http: httpx.Client) -> Table:
    return rest.make_table(shared_http, type="merge_on_read")


@pytest.fixture
def client(shared_server: ServerProcess) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server.url, retry_seconds=0) as client:
        yield client


def written(table: Table, *buckets: int, log: bool = False) -> str:
    requested = table.begun(action="deltacommit")
    stats = [log_stat(requested, bucket) if log else write_stat(requested, bucket) for bucket in buckets]
    completed: str = succeeded(table.complete(requested, *stats))["completion_time"]
    return completed


def arrow(table: Table, resource: str, **parameters: str) -> pa.Table:
    answer = table.http.get(
        f"/v1/tables/{table.name}/{resource}", params=parameters, headers={"Accept": f"{ARROW}, */*;q=0.1"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == ARROW
    return pa.ipc.open_stream(answer.content).read_all()


def json(table: Table, resource: str, **parameters: str) -> Any:
    return succeeded(table.http.get(f"/v1/tables/{table.name}/{resource}", params=parameters))


def rows_of(arrow_table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        tuple(
            format_time(from_datetime(value), Tick.MILLISECOND) if hasattr(value, "tzinfo") else value
            for value in row
        )
        for row in zip(*(column.to_pylist() for column in arrow_table.columns), strict=True)
    ]


def rows_of_slices(slices: Sequence[Any], *extra: str) -> list[tuple[Any, ...]]:
    return [
        (
            file_slice["partition_path"],
            file_slice["file_id"],
            file_slice["base_instant_time"],
            kind,
            *(file[name] for name in _COLUMNS),
            *extra,
        )
        for file_slice in slices
        if file_slice is not None
        for kind, files in (
            ("base", [file_slice["base_file"]] if file_slice["base_file"] else []),
            ("log", file_slice["log_files"]),
        )
        for file in files
    ]


def test_a_snapshot_is_the_one_that_json_shows_as_of_every_time(clicks: Table) -> None:
    times = [
        written(clicks, 0, 1),
        written(clicks, 1, 2, log=True),
        written(clicks, 2, 3, log=True),
        written(clicks, 0),
        written(clicks, 1),
        written(clicks, 0, 1, 3, log=True),
    ]
    for at in times:
        streamed, shown = arrow(clicks, "snapshot", as_of=at), json(clicks, "snapshot", as_of=at)
        assert rows_of(streamed) == rows_of_slices(shown["slices"])
        assert streamed.schema.metadata[b"chronolake.as_of"].decode() == shown["as_of"] == at
    now = arrow(clicks, "snapshot")
    assert rows_of(arrow(clicks, "snapshot", partition_path="")) == rows_of(now) != []
    assert rows_of(arrow(clicks, "snapshot", partition_path="it's; --")) == []


def test_changes_are_those_that_json_shows_in_every_range(clicks: Table) -> None:
    times = [
        None,
        written(clicks, 0, 1),
        written(clicks, 1, 2, log=True),
        written(clicks, 1),
        written(clicks, 0),
    ]
    for number, start in enumerate(times):
        for end in times[number:]:
            wanted = {name: at for name, at in (("from", start), ("to", end)) if at is not None}
            streamed, shown = arrow(clicks, "changes", **wanted), json(clicks, "changes", **wanted)
            sides = [
                row
                for group in shown["file_groups"]
                for side in ("before", "after")
                for row in rows_of_slices([group[side]], side)
            ]
            assert rows_of(streamed) == sides
            metadata = {name.decode(): text.decode() for name, text in streamed.schema.metadata.items()}
            assert [metadata.get("chronolake.from"), metadata.get("chronolake.to")] == [
                shown["from"],
                shown["to"],
            ]
            assert msgspec.json.decode(metadata["chronolake.instants"]) == shown["instants"]


def test_a_table_without_files_has_the_columns_all_the_same(table: Table) -> None:
    streamed = arrow(table, "snapshot")
    assert streamed.num_rows == 0
    assert streamed.schema.names[:3] == ["partition_path", "file_id", "base_instant_time"]
    assert b"chronolake.as_of" not in streamed.schema.metadata


@pytest.mark.parametrize("accept", ["*/*", "application/json", f"application/json, {ARROW};q=0.5", "text/html"])
def test_a_request_that_does_not_prefer_arrow_gets_json(table: Table, accept: str) -> None:
    answer = table.http.get(f"/v1/tables/{table.name}/snapshot", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "application/json"


def test_an_error_is_answered_as_a_problem(table: Table) -> None:
    headers = {"Accept": ARROW}
    paged = table.http.get(f"/v1/tables/{table.name}/snapshot", params={"cursor": "x"}, headers=headers)
    assert rest.refused(paged, 400, "invalid-parameter")["context"] == {"parameter": "cursor"}
    another = table.http.get(f"/v1/tables/{table.name}/snapshot", params={"view": "latest"}, headers=headers)
    assert rest.refused(another, 400, "invalid-parameter")["context"] == {"parameter": "view"}
    nowhere = table.http.get("/v1/tables/no.where/changes", headers=headers)
    rest.refused(nowhere, 404, "table-not-found")


@pytest.fixture
def large(shared_server: ServerProcess, table: Table) -> Table:
    """A table with more files than the buffers between server and reader hold."""
    requested = table.begun()
    succeeded(table.complete(requested, write_stat(requested)))
    database.multiply_files(shared_server.dsn, table.name, MANY_FILES)
    return table


def test_a_large_answer_arrives_in_batches(client: chronolake.Client, large: Table) -> None:
    everything = chronolake.col("id") > 0
    for batches in (
        client.table(large.name).snapshot_batches(),
        client.table(large.name).scan_batches(everything),
    ):
        sizes = [batch.num_rows for batch in batches]
        assert sum(sizes) == MANY_FILES + 1
        assert len(sizes) > 5
    assert client.table(large.name).snapshot_arrow().num_rows == MANY_FILES + 1


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_large_answer_can_be_awaited_batch_by_batch(shared_server: ServerProcess, large: Table) -> None:
    async with chronolake.connect_async(shared_server.url, retry_seconds=0) as client:
        table = await client.table(large.name)
        everything = table.scan_batches(chronolake.col("id") > 0)
        sizes = [batch.num_rows async for batch in everything]
        assert sum(sizes) == MANY_FILES + 1
        assert len(sizes) > 5

        broken_off = table.snapshot_batches()
        await anext(broken_off)
        assert database.sever(shared_server.dsn)
        with pytest.raises(errors.ConnectionFailed):
            _ = [batch async for batch in broken_off]


def test_an_answer_that_breaks_off_does_not_pass_for_a_whole_one(
    client: chronolake.Client, shared_server: ServerProcess, large: Table
) -> None:
    batches = client.table(large.name).snapshot_batches()
    batches.read_next_batch()
    assert database.sever(shared_server.dsn)
    with pytest.raises((errors.ConnectionFailed, pa.ArrowException)):
        for _ in batches:
            pass
    assert client.table(large.name).snapshot_arrow().num_rows == MANY_FILES + 1


def test_a_reader_that_disconnects_leaves_no_resources(shared_server: ServerProcess, large: Table) -> None:
    path, headers = f"/v1/tables/{large.name}/snapshot", {"Accept": ARROW}
    for _ in range(STREAMS_MAX + 2):
        with rest.connect(shared_server.url) as http, http.stream("GET", path, headers=headers) as answer:
            next(answer.iter_raw())
    copying = (
        "SELECT count(*) AS copies FROM pg_stat_activity WHERE starts_with(query, 'COPY ') AND state = 'active'"
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while database.query(shared_server.dsn, copying)[0]["copies"]:
        assert time.monotonic() < deadline, "queries go on for readers that went away"
        time.sleep(0.05)
    assert arrow(large, "snapshot").num_rows == MANY_FILES + 1


def test_a_server_without_arrow_requests_does_not_load_it() -> None:
    loaded = "import sys, chronolake_metastore.app; print(*{'pyarrow', 'pandas'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == []
