"""Streams by the Python client: files that are really there, left-over files, restores, two epochs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import chronolake
from chronolake import Marker, MarkerKind, State, StreamInstant, WriteStat, errors
from chronolake_model.file_names import bucket_file_id
from tests.client.conftest import Cli


@pytest.fixture
def clicks(client: chronolake.Client, namespace: str, tmp_path: Path) -> chronolake.Table:
    """A merge-on-read table in a folder that is there."""
    return client.create_table(
        f"{namespace}.clicks",
        base_path=tmp_path.as_uri(),
        schema=[chronolake.Field("id", "bigint", nullable=False)],
        record_key_fields=["id"],
        type=chronolake.TableType.MERGE_ON_READ,
    )


def log_of(instant: StreamInstant, bucket: int, attempt: int = 0) -> WriteStat:
    file_id = bucket_file_id(bucket)
    name = f".{file_id}_{instant.requested_time}.log.1_{bucket}-0-{attempt}"
    return WriteStat("", file_id, name, size_bytes=10, records=1, inserts=1)


def mark(table: chronolake.Table, instant: StreamInstant, *stats: WriteStat) -> None:
    write = table.write(instant.requested_time)
    write.mark(*(Marker(stat.partition_path, stat.file_name, MarkerKind.APPEND) for stat in stats))


def test_the_checkpoints_of_a_job_complete_in_order(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job", tasks=1) as stream:
        first, second = stream.instant(-1, "0"), stream.instant(1, "0")
        stream.report(second, "0", [log_of(second, 1)], last_batch=True)
        stream.report(first, "0", [log_of(first, 1)])
        stream.report(first, "0", [log_of(first, 2)], last_batch=True)

        done = stream.complete(2, {"offset": "7"})

        assert [instant.requested_time for instant in done] == [first.requested_time, second.requested_time]
        assert done[0].extra_metadata == {"offset": "7"}
        assert done[0].stream is not None and done[0].stream.checkpoint == -1
        stream.end("0", 2)
        assert stream.complete() == []
        assert not stream.close().is_open


def test_files_of_failed_attempts_are_deleted_before_a_checkpoint_completes(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as stream:
        before, instant = stream.instant(-1, "0"), stream.instant(1, "0")
        kept, earlier = log_of(instant, 1), log_of(before, 1)
        lost = [log_of(instant, bucket % 4, attempt=bucket) for bucket in range(1, 131)]
        mark(clicks, before, earlier)
        mark(clicks, instant, kept, *lost)
        stream.report(before, "0", [earlier], last_batch=True)
        stream.report(instant, "0", [kept], last_batch=True)

        done = stream.complete(2)

        assert [instant.requested_time for instant in done] == [before.requested_time, instant.requested_time]
        deleted = {file.file_name for file in clicks.deletions(instant.requested_time)}
        assert deleted == {stat.file_name for stat in lost}


def test_a_restored_job_rolls_back_what_is_behind_its_checkpoint(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as zombie:
        before, behind = zombie.instant(-1, "0"), zombie.instant(1, "0")
        mark(clicks, behind, log_of(behind, 1))
        zombie.report(before, "0", [log_of(before, 1)], last_batch=True)
        with clicks.open_stream("job", restored_checkpoint=1) as stream:
            [done] = stream.complete(1)
            assert done.requested_time == before.requested_time
            rolled_back = clicks.instant(behind.requested_time)
            assert rolled_back.state is State.ROLLED_BACK
            assert rolled_back.rolled_back_by is not None
            assert clicks.instant(rolled_back.rolled_back_by).state is State.COMPLETED
            with pytest.raises(errors.StreamFenced, match="epoch 2"):
                zombie.complete(2)


def test_tasks_of_other_processes_need_the_epoch_only(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as coordinator:
        task = clicks.stream("job", coordinator.epoch)
        instant = task.instant(-1, "7")
        assert task.report(instant, "7", [log_of(instant, 1)], last_batch=True).files == 1
        assert coordinator.refresh().checkpoints[0].tasks["7"].files == 1


def test_a_task_restarts_alone(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as stream:
        instant = stream.instant(-1, "0")
        stream.report(instant, "0", [log_of(instant, 1)], last_batch=True)
        attempt = stream.restart_task("0", None)
        with pytest.raises(errors.StreamFenced):
            stream.report(instant, "0", [log_of(instant, 2)])
        again = stream.instant(-1, "0", attempt=attempt)
        stream.report(again, "0", [log_of(again, 3)], attempt=attempt, last_batch=True)
        [done] = stream.complete(1)
        assert done.summary is not None and done.summary.files == 1


def test_a_blocking_task_waits_no_longer_than_it_says(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as stream:
        stream.instant(-1, "0", blocking=True)
        began = time.monotonic()
        with pytest.raises(errors.InstantNotYet):
            stream.instant(1, "0", blocking=True, wait_seconds=0.2)
        assert time.monotonic() - began >= 0.2


def test_the_lease_is_renewed_while_the_block_runs(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job", lease_seconds=1) as stream:
        before = stream.refresh().lease_expires_at
        deadline = time.monotonic() + 30
        while stream.refresh().lease_expires_at == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stream.refresh().lease_expires_at > before
        assert stream.lost is None


def test_more_files_than_a_request_takes_are_reported_in_parts(clicks: chronolake.Table) -> None:
    with clicks.open_stream("job") as stream:
        instant = stream.instant(-1, "0")
        stats = [log_of(instant, number % 4, attempt=number) for number in range(10_001)]
        assert stream.report(instant, "0", stats, last_batch=True).files == 10_001
        [done] = stream.complete(1)
        assert done.summary is not None and done.summary.files == 10_001


def test_the_command_lists_streams_with_what_waits(
    cli: Cli, clicks: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clicks.open_stream("job") as stream:
        instant = stream.instant(-1, "0")
        stream.report(instant, "0", [log_of(instant, 1)], last_batch=True)
        listed = cli("streams", clicks.name, "--json").json["streams"]
        assert [(stream["name"], stream["buffered_files"]) for stream in listed] == [("job", 1)]
        assert "open" in cli("streams", clicks.name).out
        monkeypatch.setenv("COLUMNS", "80")
        assert max(len(line) for line in cli("streams", clicks.name).out.splitlines()) <= 80
