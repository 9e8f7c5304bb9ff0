"""No unreadable file stays in storage: a writer that completes or gives up deletes its other marked files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake import MarkersType, State, WriteStat, errors
from chronolake_model.markers import DeletedFile
from tests.client.conftest import SCHEMA, Cli
from tests.client.stored import Stored, base, file_of, in_storage, log, written
from tests.fix_s3 import S3, Fault
from tests.fix_stores import Store

ATTEMPTS = 3


@pytest.fixture(params=list(MarkersType))
def marked(request: pytest.FixtureRequest, server_url: str, namespace: str, store: Store) -> Iterator[Stored]:
    """A table for each kind of markers, in each kind of store."""
    with chronolake.connect(server_url, retry_seconds=10, storage_options=store.options) as client:
        yield table_in(client, f"{namespace}.marked", store, {"markers.type": request.param})


def table_in(
    client: chronolake.Client, name: str, store: Store, properties: dict[str, str] | None = None
) -> Stored:
    table = client.create_table(
        name,
        base_path=store.base_path,
        schema=SCHEMA,
        record_key_fields=["id"],
        partition_fields=["name"],
        properties=properties or {},
    )
    return Stored(table, store)


def test_of_all_attempts_one_is_published_and_nothing_is_left_of_the_others(marked: Stored) -> None:
    with marked.table.begin() as write:
        stats = [written(marked, write, bucket, attempt) for bucket in range(2) for attempt in range(ATTEMPTS)]
        winners = [stats[ATTEMPTS - 1], stats[ATTEMPTS]]
        for stat in winners:
            write.add(stat)

    assert write.instant.state is State.COMPLETED
    assert in_storage(marked) == {file_of(stat).path for stat in winners}
    assert marked.orphans() == []
    losers = {file_of(stat) for stat in stats} - {file_of(stat) for stat in winners}
    assert set(marked.table.deletions(write.requested_time)) == losers


def test_write_stats_that_come_with_the_completion_are_kept_too(marked: Stored) -> None:
    write = marked.table.begin()
    loser, winner = (written(marked, write, 0, attempt) for attempt in range(2))

    write.complete([winner])

    assert in_storage(marked) == {file_of(winner).path}
    assert list(marked.table.deletions(write.requested_time)) == [file_of(loser)]


def test_a_writer_that_gives_up_deletes_its_files(marked: Stored) -> None:
    with pytest.raises(ZeroDivisionError), marked.table.begin() as write:
        stats = [written(marked, write, bucket, 0) for bucket in range(3)]
        write.mark(log(write, 5))
        marked.storage.create_empty(log(write, 5).path)
        raise ZeroDivisionError

    rolled_back_by = write.refresh().rolled_back_by
    assert rolled_back_by is not None
    assert marked.table.instant(rolled_back_by).state is State.COMPLETED
    assert in_storage(marked) == set()
    named = DeletedFile(log(write, 5).partition_path, log(write, 5).file_name)
    assert set(marked.table.deletions(rolled_back_by)) == {named, *map(file_of, stats)}
    assert list(marked.storage.listing(".hoodie/.temp")) == []


def test_another_writer_rolls_back_an_abandoned_instant(marked: Stored) -> None:
    kept = marked.publish(3)
    write = marked.table.begin(writer="gone")
    written(marked, write, 0, 0)

    marked.table.rollback(write.requested_time, writer="gone")

    [path] = in_storage(marked)
    assert kept.requested_time in path
    assert marked.orphans() == []


def test_an_unexecuted_rollback_is_finished_by_another_client(marked: Stored) -> None:
    waiting, live = marked.table.begin(writer="gone"), marked.table.begin(writer="gone")
    for write in (waiting, live):
        written(marked, write, 0, 0)
    marked.table.rollback(waiting.requested_time, writer="gone", execute=False)
    undone = marked.table.rollback(live.requested_time, writer="gone", execute=False)
    assert undone.rolled_back_by is not None
    marked.table.execute(undone.rolled_back_by, writer="another")

    done = marked.table.finish_rollbacks()

    assert [(rollback.target, rollback.state) for rollback in done] == [
        (waiting.requested_time, State.COMPLETED)
    ]
    assert len(in_storage(marked)) == 1
    assert marked.table.finish_rollbacks() == []
    assert [rollback.target for rollback in marked.table.finish_rollbacks(writer="another")] == [
        live.requested_time
    ]
    assert in_storage(marked) == set()


def test_a_rollback_that_names_files_of_another_instant_is_refused(stored: Stored) -> None:
    write, kept = stored.table.begin(writer="gone"), stored.publish(3)
    own = stored.write_file(write.requested_time, 0)
    stored.storage.create_all_empty(["name=1/notes", "elsewhere"])
    before = in_storage(stored)
    [published] = [path for path in before if kept.requested_time in path]

    named = [file_of(own).path, published, "name=1/notes", "elsewhere"]
    with pytest.raises(errors.InvalidPlan, match="3 of files_to_delete are not data files") as caught:
        stored.table.rollback(write.requested_time, writer="gone", files_to_delete=named, execute=True)

    assert caught.value.context["file"] == published
    assert write.refresh().state is State.INFLIGHT
    assert in_storage(stored) == before


def test_the_awaited_client_deletes_the_same(marked: Stored, server_url: str, store: Store) -> None:
    async def write_and_give_up() -> tuple[WriteStat, chronolake.Instant, list[chronolake.Instant]]:
        async with chronolake.connect_async(server_url, storage_options=store.options) as client:
            table = await client.table(marked.table.name)
            async with await table.begin() as write:
                stats = [written(marked, write, 0, attempt) for attempt in range(ATTEMPTS)]
                write.add(stats[0])
            with pytest.raises(ZeroDivisionError):
                async with await table.begin() as given_up:
                    written(marked, given_up, 1, 0)
                    raise ZeroDivisionError
            left = await table.begin(writer="gone")
            written(marked, left, 2, 0)
            await table.rollback(left.requested_time, writer="gone", execute=False)
            return stats[0], await given_up.refresh(), await table.finish_rollbacks()

    kept, given_up, finished = asyncio.run(write_and_give_up())

    assert in_storage(marked) == {file_of(kept).path}
    assert given_up.state is State.ROLLED_BACK
    assert [rollback.state for rollback in finished] == [State.COMPLETED]


def test_writes_that_complete_together_leave_nothing(marked: Stored, client: chronolake.Client) -> None:
    writes = [marked.table.begin(), marked.table.begin()]
    for bucket, write in enumerate(writes):
        written(marked, write, bucket, 1)
        write.add(written(marked, write, bucket, 0))

    client.complete_together(writes)

    assert len(in_storage(marked)) == 2
    assert marked.orphans() == []


def test_the_server_deletes_if_the_table_has_the_property(
    client: chronolake.Client, namespace: str, store: Store
) -> None:
    stored = table_in(client, f"{namespace}.served", store, {"deletions.executor": "server"})
    write = stored.table.begin()
    written(stored, write, 0, 0)

    undone = write.rollback("tired")

    assert undone.rolled_back_by is not None
    assert stored.table.instant(undone.rolled_back_by).state is State.REQUESTED
    assert len(in_storage(stored)) == 1


def test_nothing_is_published_as_long_as_a_loser_cannot_be_deleted(
    server_url: str, namespace: str, s3: S3
) -> None:
    store = Store(s3.base_path, s3.options)
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        stored = table_in(client, f"{namespace}.refused", store)
        write = stored.table.begin()
        loser, winner, gone = (written(stored, write, 0, attempt) for attempt in range(3))
        fault = Fault("DELETE", loser.file_name, 403, "AccessDenied")
        s3.faults.append(fault)

        with pytest.raises(errors.StorageFailed, match=f"1 of 2 files .*{loser.file_name}"):
            write.complete([winner])
        assert write.refresh().state is State.INFLIGHT
        assert write.left_over([winner]) == [file_of(loser)]
        assert list(stored.table.deletions(write.requested_time)) == [file_of(gone)]
        fault.times = 0

        assert write.complete([winner]).state is State.COMPLETED
        assert in_storage(stored) == {file_of(winner).path}


def test_a_rollback_whose_files_cannot_be_deleted_waits(server_url: str, namespace: str, s3: S3) -> None:
    store = Store(s3.base_path, s3.options)
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        stored = table_in(client, f"{namespace}.refused", store)
        fault = Fault("DELETE", ".parquet", 403, "AccessDenied")
        with pytest.raises(ZeroDivisionError) as raised, stored.table.begin() as write:
            written(stored, write, 0, 0)
            s3.faults.append(fault)
            raise ZeroDivisionError

        [note] = raised.value.__notes__
        assert "could not be deleted yet" in note
        [waiting] = stored.table.timeline.rollbacks()
        assert waiting.state is State.REQUESTED
        with pytest.raises(errors.StorageFailed):
            stored.table.finish_rollbacks()
        fault.times = 0
        [done] = stored.table.finish_rollbacks()
        assert (done.target, in_storage(stored)) == (write.requested_time, set())


def test_a_request_to_a_busy_store_is_retried(server_url: str, namespace: str, s3: S3) -> None:
    store = Store(s3.base_path, s3.options)
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        stored = table_in(client, f"{namespace}.busy", store)
        write = stored.table.begin()
        for bucket in range(5):
            written(stored, write, bucket, 0)
        s3.faults.append(Fault("DELETE", ".parquet", 503, "SlowDown", times=4))

        write.rollback()

        assert in_storage(stored) == set()


def test_an_interrupted_rollback_leaves_its_deletions_to_others(stored: Stored) -> None:
    with pytest.raises(KeyboardInterrupt), stored.table.begin() as write:
        written(stored, write, 0, 0)
        raise KeyboardInterrupt

    assert write.refresh().state is State.ROLLED_BACK
    [rollback] = stored.table.timeline.rollbacks()
    assert rollback.state is State.REQUESTED


def test_the_terminal_finishes_rollbacks(cli: Cli, stored: Stored, store: Store) -> None:
    options = store.options or {}
    reach = [text for name, value in options.items() for text in ("--storage", f"{name}={value}")]
    first, second = stored.table.begin(writer="gone"), stored.table.begin(writer="gone")
    for write in (first, second):
        written(stored, write, 0, 0)
    cli("rollback", stored.table.name, first.requested_time, "--writer", "gone", "--no-execute")

    done = cli("rollback", stored.table.name, second.requested_time, "--writer", "gone", *reach)
    assert done.code == 0, done.err
    assert len(in_storage(stored)) == 1
    shown = cli("finish-rollbacks", stored.table.name, *reach)
    assert (first.requested_time in shown.out, in_storage(stored)) == (True, set())
    assert "no pending rollback can be executed" in cli("finish-rollbacks", stored.table.name, *reach).out
    assert cli("finish-rollbacks", stored.table.name, *reach, "--json").json["rollbacks"] == []


@pytest.mark.parametrize("markers", list(MarkersType))
def test_where_the_tables_folder_is_not_nothing_counts_as_deleted(
    client: chronolake.Client, namespace: str, tmp_path: Path, markers: MarkersType
) -> None:
    table = client.create_table(
        f"{namespace}.elsewhere", base_path=str(tmp_path / "here"), schema=SCHEMA, record_key_fields=["id"]
    )
    write = table.begin(markers=markers)
    write.mark(base(write, 0))
    if markers is MarkersType.DIRECT:
        (tmp_path / "here").rename(tmp_path / "there")

    with pytest.raises(errors.StorageFailed, match="does not exist"):
        write.rollback()

    [waiting] = table.timeline.rollbacks()
    assert waiting.state is State.REQUESTED
    assert list(table.deletions(write.requested_time)) == []


def test_an_unreachable_base_path_is_reported_with_the_rollback(
    client: chronolake.Client, namespace: str
) -> None:
    table = client.create_table(
        f"{namespace}.nowhere", base_path=f"az://nowhere/{namespace}", schema=SCHEMA, record_key_fields=["id"]
    )
    write = table.begin()
    write.mark(base(write, 0))

    with pytest.raises(errors.StorageFailed, match="nowhere"):
        write.rollback()
    assert write.refresh().state is State.ROLLED_BACK
