"""Files of tasks that restart: dropped ones are deleted, and the acknowledgement completes the others."""

from __future__ import annotations

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import log_stat, marker, refused, succeeded


@pytest.fixture
def stream(shared_http: httpx.Client) -> StreamOfTable:
    stream = StreamOfTable(rest.make_table(shared_http, type="merge_on_read"))
    stream.open(tasks=2)
    return stream


def test_reported_files_that_a_restart_drops_may_be_deleted_and_others_not(stream: StreamOfTable) -> None:
    instant = stream.instant(1)
    stats = [log_stat(instant, 1), log_stat(instant, 2)]
    markers = [marker(instant, 1) | {"file_name": stat["file_name"], "kind": "APPEND"} for stat in stats]
    succeeded(stream.table.mark(instant, *markers))
    for task, stat in enumerate(stats):
        stream.reported(1, stat, task=str(task))
    names = [{"partition_path": stat["partition_path"], "file_name": stat["file_name"]} for stat in stats]
    assert refusals(stream, instant, names) == {
        stats[0]["file_name"]: "staged",
        stats[1]["file_name"]: "staged",
    }

    stream.restart("1", 1)

    problem = refused(stream.complete(2), 409, "unreconciled-markers")
    assert problem["context"]["files"] == [names[1]]
    assert refusals(stream, instant, names) == {stats[0]["file_name"]: "staged"}
    below = f"/v1/tables/{stream.table.name}/instants/{instant}/deletions"
    succeeded(stream.table.http.post(below, json={"writer": "w", "files": [names[1]]}))
    assert stream.completed(2) == [instant]
    assert live_logs(stream.table) == [("00000001", instant)]


def refusals(stream: StreamOfTable, instant: str, files: list[rest.Json]) -> dict[str, str]:
    """The reasons for which the writer of a stream may not delete files, by their names."""
    path = f"/v1/tables/{stream.table.name}/instants/{instant}/deletable"
    answer = succeeded(stream.table.http.post(path, json={"writer": "w", "files": files}))
    return {file["file_name"]: file["reason"] for file in answer["refused"]}
