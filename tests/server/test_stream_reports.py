"""Reports of tasks of streams beside their files: metadata, and that files depend on what was read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable
from tests.server.rest import log_stat, refused, succeeded


@pytest.fixture
def stream(shared_http: httpx.Client) -> StreamOfTable:
    stream = StreamOfTable(rest.make_table(shared_http, type="merge_on_read"))
    stream.open(tasks=2)
    return stream


def metadata_of(stream: StreamOfTable, requested_time: str) -> rest.Json:
    """The metadata with which an instant was published."""
    path = f"/v1/tables/{stream.table.name}/instants/{requested_time}"
    metadata: rest.Json = succeeded(stream.table.http.get(path))["extra_metadata"]
    return metadata


def test_metadata_that_tasks_report_is_published_with_their_own_instant(stream: StreamOfTable) -> None:
    first = stream.instant(-1)
    stream.reported(-1, log_stat(first, 1), extra_metadata={"rows": "1", "batch": "0"})
    stream.reported(-1, log_stat(first, 2), task="1", extra_metadata={"rows": "2"})
    second = stream.write(1, 1, extra_metadata={"batch": "1"})
    assert stream.completed(2, extra_metadata={"by": "job"}) == [first, second]
    assert metadata_of(stream, first) == {"rows": "2", "batch": "0", "by": "job"}
    assert metadata_of(stream, second) == {"batch": "1", "by": "job"}


def test_more_metadata_than_an_instant_may_have_is_refused(stream: StreamOfTable) -> None:
    half, other = ({f"{name}{number}": "x" * 14_000 for number in range(10)} for name in ("a", "b"))
    instant = stream.write(-1, 1, extra_metadata=half)
    refused(
        stream.report(-1, log_stat(instant, 2), extra_metadata=other),
        422,
        "invalid-write-stat",
    )
    refused(stream.complete(1, extra_metadata=other), 422, "invalid-write-stat")
    assert stream.completed(1) == [instant]


def test_all_tasks_together_report_a_bounded_metadata(stream: StreamOfTable) -> None:
    metadata = {f"name{number}": "x" * 16_000 for number in range(15)}
    instant = stream.instant(-1)
    for task in range(4):
        stream.reported(-1, log_stat(instant, task), task=str(task), extra_metadata=metadata)
    more = stream.report(-1, log_stat(instant, 3, 2), task="4", last_batch=True, extra_metadata=metadata)

    problem = refused(more, 422, "invalid-write-stat")

    assert "all of them together may have 1,048,576" in problem["detail"]
    # A report that adds no metadata is accepted, and what a task drops makes room.
    stream.reported(-1, log_stat(instant, 3, 3), task="3", extra_metadata=metadata)
    stream.restart("0", None)
    stream.reported(-1, log_stat(instant, 3, 2), task="4", extra_metadata=metadata)
    assert stream.completed(1) == [instant]


@pytest.mark.parametrize("how", ["based_on_reads", "keys_looked_up"])
def test_files_that_depend_on_reads_need_a_blocking_instant(stream: StreamOfTable, how: str) -> None:
    instant = stream.instant(-1)
    flag: dict[str, Any] = {how: True}
    refused(stream.report(-1, log_stat(instant), **flag), 409, "may-conflict")


def test_files_that_depend_on_reads_conflict_at_the_acknowledgement(stream: StreamOfTable) -> None:
    instant = stream.instant(-1, blocking=True)
    stream.reported(-1, log_stat(instant), based_on_reads=True)
    other = stream.table.begun(action="deltacommit")
    succeeded(stream.table.complete(other, log_stat(other, number=2)))
    refused(stream.complete(1), 409, "write-conflict")
