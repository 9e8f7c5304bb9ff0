"""The rows that a Flink job has written: read by Chronolake, by hudi-rs and from the log files themselves."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chronolake
import flink_orders
import python_keys
from chronolake import State, TimeOrder
from chronolake_hudi import log_blocks, log_files
from chronolake_metastore.proof import verification
from chronolake_metastore.settings import Settings
from chronolake_model import file_names
from chronolake_model.files import FileSlice
from tests.fix_server import ServerProcess
from tests.spark import hudi_reader


def check_exactly_once(
    table: chronolake.Table, server: ServerProcess, *, rows: int, keys: int, late_files: bool = False
) -> None:
    """All changes of the job are visible once, for every reader; nothing else is left, and the log is sound.

    With ``late_files`` there may be files that a task finished after its instant was rolled back: the next
    sweep deletes them.
    """
    assert changes_in_logs(table) == list(range(rows))
    stored = hudi_reader.rows_of(table).to_pylist()
    assert {row["id"]: (row["n"], row["note"]) for row in stored} == expected(rows, keys)
    assert len(stored) == keys
    table.publish()
    hudi_reader.assert_same_rows(hudi_reader.rows_of_hudi(table), hudi_reader.rows_of(table))
    table.finish_rollbacks()
    orphans = table.orphans()
    if late_files:
        table.delete_orphans(orphans)
    else:
        assert orphans.orphans == []
    assert table.check().totals == []
    assert list(table.instants(pending=True)) == []
    assert [stream.checkpoints for stream in table.streams()] == [[]]
    assert asyncio.run(verification.verify(Settings(dsn=server.dsn))).findings == []


def changes_in_logs(table: chronolake.Table) -> list[int]:
    """The numbers of the changes in all visible log files. One that was written twice is there twice."""
    base = Path(table.definition.base_path)
    return sorted(row["n"] for file_slice in table.snapshot().slices for row in _records(base, file_slice))


def expected(rows: int, keys: int) -> dict[int, tuple[int, str | None]]:
    """The last change of each order."""
    last = range(rows - keys, rows)
    return {n % keys: (n, None if n % 5 == 0 else f"change {n}") for n in last}


def completed_checkpoints(table: chronolake.Table) -> list[int]:
    """The checkpoints of the completed instants, in the order of their completion."""
    instants = table.instants(state=State.COMPLETED, order_by=TimeOrder.COMPLETION_TIME)
    return [instant.stream.checkpoint for instant in instants if instant.stream is not None]


def begun_tasks(client: chronolake.Client, table: chronolake.Table) -> Counter[str]:
    """How often each task has begun."""
    events = client.events(table=table.name)
    return Counter(event.payload["task"] for event in events if event.type == "StreamTaskRestarted")


def _records(base: Path, file_slice: FileSlice) -> Iterator[dict[str, Any]]:
    for file in file_slice.log_files:
        with (base / file.path).open("rb") as stream:
            for block in log_files.read(stream, file.size_bytes, file.path):
                for record in log_blocks.read_avro(block, file.path):
                    assert (f"day={record['day']}", _bucket(record["id"])) == (
                        file_slice.partition_path,
                        file_names.bucket_of(file_slice.file_id),
                    )
                    yield record


@functools.cache
def _bucket(order: int) -> int:
    return python_keys.bucket_of([str(order)], flink_orders.BUCKETS)
