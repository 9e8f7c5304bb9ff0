"""An executor that deletes permitted files much later: no file that is needed by then is deleted.

``Metastore.needed_files`` is the last question before a deletion. The guard does not see the events between
its answer and the deletion: so nothing may make a file of a clean or of a rollback needed again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import chronolake
from chronolake import Marker, MarkerKind, State, WriteStat, errors
from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_storage.claims import Owner
from chronolake_storage.guard import Deleting, Metastore
from chronolake_storage.overlaps import TablePlace

SLOW = "slow"
"""The writer that two executors call themselves: so the second one need not wait for the end of a lease."""

Meanwhile = Callable[[], None]


class Interrupted:
    """The metastore of a slow executor: other commands are executed after its first answer."""

    def __init__(self, metastore: Metastore, meanwhile: Meanwhile) -> None:
        self._metastore = metastore
        self._left = [meanwhile]

    def owner(self) -> Owner | None:
        return self._metastore.owner()

    def tables(self) -> Iterable[TablePlace]:
        return self._metastore.tables()

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        answer = self._metastore.needed_files(deleting, paths, recorded)
        while self._left:
            self._left.pop()()
        return answer

    def is_hidden(self) -> bool:
        return self._metastore.is_hidden()


class PinnedTable:
    """A table with real files of three commits: the second is pinned by a savepoint, the last is live."""

    def __init__(self, client: chronolake.Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        namespace = client.create_namespace(f"ns_{uuid.uuid4().hex[:12]}").name
        schema = [chronolake.Field("id", "bigint", nullable=False)]
        self.table = client.create_table(
            f"{namespace}.orders", base_path=str(folder), schema=schema, record_key_fields=["id"]
        )
        self.table.claim_storage()
        self.first, self.pinned = self.publish(), self.publish()
        self.savepoint = self.table.savepoint(self.pinned.requested_time)
        self.last = self.publish()
        self.promised: list[str | None] = [None, self.pinned.completion_time]
        """The times as of which readers were promised that they may read; None for now."""

    def slow(self, meanwhile: Meanwhile) -> chronolake.Table:
        """The table, for an executor that is slow to delete its permitted files."""
        table = self._client.table(self.table.name)
        table._location._metastore = Interrupted(table._location._metastore, meanwhile)
        return table

    def publish(self) -> chronolake.Instant:
        with self.table.begin() as write:
            write.add(self.written(write))
        return write.instant

    def written(self, write: chronolake.Write) -> WriteStat:
        """A file that was marked and written; of the same file group each time."""
        file_id = bucket_file_id(0)
        name = base_file_name(file_id, "0-0-0", write.requested_time)
        write.mark(Marker("", name, MarkerKind.CREATE))
        (self._folder / name).write_bytes(name.encode())
        return WriteStat("", file_id, name, size_bytes=len(name), records=1, inserts=1)

    def readable(self) -> list[bool]:
        """For each promised time, whether all files that the table shows as of it exist."""
        snapshots = [self.table.snapshot(as_of) for as_of in self.promised]
        return [
            all(
                file_slice.base_file and (self._folder / file_slice.base_file.path).exists()
                for file_slice in snapshot.slices
            )
            for snapshot in snapshots
        ]

    def files(self) -> set[str]:
        return {path.name for path in self._folder.glob("*.parquet")}


@pytest.fixture
def pinned_table(shared_server_url: str, tmp_path: Path) -> Iterator[PinnedTable]:
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        yield PinnedTable(client, tmp_path / "orders")


def restore(pinned_table: PinnedTable) -> None:
    pinned_table.table.restore(pinned_table.savepoint.requested_time)


def restore_and_write(pinned_table: PinnedTable) -> None:
    restore(pinned_table)
    pinned_table.publish()


def release_and_pin_the_last(pinned_table: PinnedTable) -> None:
    restore(pinned_table)
    pinned_table.table.release_savepoint(pinned_table.savepoint.requested_time)
    pinned_table.table.savepoint()


def pin_a_file_to_delete(pinned_table: PinnedTable) -> None:
    with pytest.raises(errors.HistoryCleaned):
        pinned_table.table.savepoint(pinned_table.first.requested_time)


def read_a_file_to_delete(pinned_table: PinnedTable) -> None:
    with pytest.raises(errors.HistoryCleaned):
        pinned_table.table.reading(pinned_table.first.completion_time)


def read_the_earliest(pinned_table: PinnedTable) -> None:
    pinned_table.promised.append(pinned_table.table.reading("earliest").as_of)


def execute_it(pinned_table: PinnedTable) -> None:
    pinned_table.table.clean(retain_commits=1, writer=SLOW)


def execute_it_and_restore(pinned_table: PinnedTable) -> None:
    execute_it(pinned_table)
    restore_and_write(pinned_table)


@pytest.mark.parametrize(
    "meanwhile",
    [
        restore,
        restore_and_write,
        release_and_pin_the_last,
        pin_a_file_to_delete,
        read_a_file_to_delete,
        read_the_earliest,
        execute_it,
        execute_it_and_restore,
    ],
)
def test_no_file_that_a_slow_clean_deletes_is_needed_again(
    pinned_table: PinnedTable, meanwhile: Callable[[PinnedTable], None]
) -> None:
    [planned] = pinned_table.table.preview_clean(retain_commits=1).files_to_delete

    cleans = pinned_table.slow(lambda: meanwhile(pinned_table)).clean(retain_commits=1, writer=SLOW)

    assert {clean.state for clean in cleans} == {State.COMPLETED}
    assert planned not in pinned_table.files()
    assert all(pinned_table.readable())


def test_no_file_that_a_slow_rollback_deletes_is_needed_again(pinned_table: PinnedTable) -> None:
    write = pinned_table.table.begin(writer=SLOW)
    stat = pinned_table.written(write)

    def meanwhile() -> None:
        for late in (
            lambda: write.mark(Marker("", stat.file_name, MarkerKind.CREATE)),
            lambda: write.complete([stat]),
        ):
            with pytest.raises(errors.InstantRolledBack):
                late()
        assert [rollback.target for rollback in pinned_table.table.finish_rollbacks(writer=SLOW)] == [
            write.requested_time
        ]
        restore_and_write(pinned_table)

    pinned_table.slow(meanwhile).rollback(write.requested_time, writer=SLOW)

    assert stat.file_name not in pinned_table.files()
    assert [rollback.state for rollback in pinned_table.table.timeline.rollbacks()] == [State.COMPLETED]
    assert all(pinned_table.readable())
