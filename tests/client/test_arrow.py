"""The client's answers as Arrow: the same as its others, awaited too; and what is said without pyarrow."""

from __future__ import annotations

import sys

import pytest

import chronolake
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
    paths = [one.base_file.path for one in table.snapshot().slices if one.base_file]
    assert table.snapshot_arrow()["path"].to_pylist() == paths
    assert table.snapshot_batches().read_all()["path"].to_pylist() == paths
    assert table.snapshot_arrow(as_of=first.completion_time).num_rows == 2
    changed = table.changes_arrow(first.completion_time)
    assert changed["side"].to_pylist() == ["before", "after"]
    assert table.changes_batches(first.completion_time).read_all() == changed


@pytest.mark.anyio
async def test_they_can_be_awaited(server_url: str, table: chronolake.Table) -> None:
    written(table, 0)
    async with chronolake.connect_async(server_url) as client:
        awaited = await client.table(table.name)
        assert await awaited.snapshot_arrow() == table.snapshot_arrow()
        assert await awaited.changes_arrow() == table.changes_arrow()


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.BUSY])
def test_whole_answers_are_asked_for_again(
    gateway: Gateway, troubled: chronolake.Table, table: chronolake.Table, fault: Fault
) -> None:
    written(table, 0)
    gateway.faults[:] = [fault]
    assert troubled.snapshot_arrow().num_rows == 1


def test_without_pyarrow_it_says_what_to_install(
    table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for ask in (table.snapshot_arrow, table.snapshot_batches, table.changes_arrow, table.changes_batches):
        with pytest.raises(ImportError, match=r"pip install 'chronolake\[arrow\]'"):
            ask()
