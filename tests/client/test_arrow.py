"""The client's answers as Arrow, blocking and async: equal to its others; and the error without pyarrow."""

from __future__ import annotations

import functools
import io
import itertools
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import chronolake
from chronolake import col, errors
from chronolake._record_batches import END, MessageSplitter
from chronolake_model.file_names import bucket_file_id
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import stat_of


def written(table: chronolake.Table, *buckets: int) -> chronolake.Instant:
    with table.begin() as write:
        for bucket in buckets:
            write.add(stat_of(write, bucket))
    return write.instant


def test_snapshots_and_changes_have_the_files_of_the_others(table: chronolake.Table) -> None:
    first = written(table, 0, 1)
    written(table, 1)
    paths = [file_slice.base_file.path for file_slice in table.snapshot().slices if file_slice.base_file]
    assert table.snapshot_arrow()["path"].to_pylist() == paths
    assert table.snapshot_batches().read_all()["path"].to_pylist() == paths
    assert table.snapshot_arrow(as_of=first.completion_time).num_rows == 2
    changed = table.changes_arrow(first.completion_time)
    assert changed["side"].to_pylist() == ["before", "after"]
    assert table.changes_batches(first.completion_time).read_all() == changed


def test_a_scan_has_the_files_of_the_other(table: chronolake.Table) -> None:
    first = written(table, 0, 1)
    wanted = col("id") >= 0
    paths = [file_slice.base_file.path for file_slice in table.scan(wanted).slices if file_slice.base_file]
    assert table.scan_arrow(wanted)["path"].to_pylist() == paths
    assert table.scan_batches(wanted).read_all() == table.scan_arrow(wanted)
    assert table.scan_arrow(wanted, as_of=first.requested_time).num_rows == 0
    assert table.scan_arrow(wanted, partition_paths=["elsewhere"]).num_rows == 0
    with pytest.raises(errors.InvalidFilter):
        table.scan_arrow(col("amount") > 1)
    with pytest.raises(errors.InvalidFilter):
        table.scan_batches(col("amount") > 1)


REFUSED_STREAMS = (Fault.TOO_MANY_STREAMS, Fault.BUSY, Fault.LOSE_REQUEST, Fault.TOO_MANY_STREAMS)


def test_a_stream_that_the_server_has_no_room_for_is_retried(
    table: chronolake.Table, troubled: chronolake.Table, gateway: Gateway
) -> None:
    written(table, 0, 1)
    wanted = col("id") >= 0
    rows = table.scan_arrow(wanted)

    gateway.faults.extend(REFUSED_STREAMS)
    assert troubled.scan_arrow(wanted) == rows
    gateway.faults.extend(REFUSED_STREAMS)
    assert troubled.scan_batches(wanted).read_all() == rows
    assert gateway.faults == []


@pytest.mark.anyio
async def test_they_can_be_awaited(server_url: str, table: chronolake.Table) -> None:
    written(table, 0)
    async with chronolake.connect_async(server_url) as client:
        awaited = await client.table(table.name)
        assert await awaited.snapshot_arrow() == table.snapshot_arrow()
        assert await awaited.changes_arrow() == table.changes_arrow()
        wanted = col("id") >= 0
        assert await awaited.scan_arrow(wanted) == table.scan_arrow(wanted)
        for batches, whole in (
            (awaited.snapshot_batches(), table.snapshot_arrow()),
            (awaited.changes_batches(), table.changes_arrow()),
            (awaited.scan_batches(wanted), table.scan_arrow(wanted)),
        ):
            streamed = pa.Table.from_batches([batch async for batch in batches])
            assert streamed.equals(whole, check_metadata=True)
        with pytest.raises(errors.InvalidFilter):
            await anext(awaited.scan_batches(col("amount") > 1))


@given(
    st.lists(st.integers(0, 300), max_size=4),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(0, 20),
)
def test_a_stream_in_any_pieces_gives_its_messages_and_shows_its_end(
    rows: list[int], pieces: list[int], cut_off: int
) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    batches = [pa.record_batch([range(count), ["é"] * count], schema=schema) for count in rows]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream = sink.getvalue()[: len(sink.getvalue()) - cut_off]
    splitter, sizes = MessageSplitter(), itertools.cycle(pieces)
    messages: list[memoryview] = []
    while stream:
        size = next(sizes)
        messages += splitter.messages_in(stream[:size])
        stream = stream[size:]
    assert splitter.has_ended == (cut_off == 0)
    assert len(messages) == len(rows) + 1 or cut_off > len(END)
    assert [pa.ipc.read_record_batch(message, schema) for message in messages[1:]] == batches[
        : len(messages) - 1
    ]


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.BUSY])
def test_a_whole_response_is_retried(
    gateway: Gateway, troubled: chronolake.Table, table: chronolake.Table, fault: Fault
) -> None:
    written(table, 0)
    gateway.faults[:] = [fault]
    assert troubled.snapshot_arrow().num_rows == 1


def test_without_pyarrow_the_error_names_the_package_to_install(
    table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    reads: list[Callable[[], object]] = [
        table.snapshot_arrow,
        table.snapshot_batches,
        table.changes_arrow,
        table.changes_batches,
        functools.partial(table.scan_arrow, col("id") > 1),
        functools.partial(table.scan_batches, col("id") > 1),
    ]
    for read in reads:
        with pytest.raises(ImportError, match=r"pip install 'chronolake\[arrow\]'"):
            read()


def test_published_batches_have_each_superseded_replaced_and_undone_file_once(
    table: chronolake.Table,
) -> None:
    assert table.published_batches().read_all().num_rows == 0
    first = written(table, 0, 1)
    saved = table.savepoint()
    second = written(table, 0)
    with table.begin(action=chronolake.Action.REPLACECOMMIT) as write:
        write.replace(chronolake.FileGroupName("", bucket_file_id(1)))
    before = table.published_batches().read_all()
    table.restore(saved.requested_time)
    table.begin().add(stat_of(write, 5))

    after = table.published_batches().read_all()

    assert after.num_rows == 3
    assert {row["path"] for row in after.to_pylist()} == {
        stat_of(table.write(first.requested_time), 0).file_name,
        stat_of(table.write(first.requested_time), 1).file_name,
        stat_of(table.write(second.requested_time), 0).file_name,
    }
    assert sorted(after["path"].to_pylist()) == sorted(before["path"].to_pylist())
    assert after.schema.metadata[b"chronolake.as_of"].decode() > second.requested_time
