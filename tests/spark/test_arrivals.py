"""The files that arrive in a folder or a bucket: each version of each is in one batch. No Spark."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from chronolake import storage
from chronolake.ingest import arrivals
from chronolake.ingest.arrivals import Arrival, ArrivalLog, FollowOptions
from chronolake_model.tables import BucketIndex, Table
from chronolake_model.times import Tick
from chronolake_model.vocabulary import TableType
from chronolake_spark import errors
from chronolake_spark.ingest import follow_job
from chronolake_spark.ingest.arrivals_source import ArrivalsReader
from tests.fix_s3 import S3

LATER = 2**40


def names(found: list[Arrival]) -> list[str]:
    return [Path(arrival.path).name for arrival in found]


def present(folder: Path) -> list[Arrival]:
    return sorted(arrivals.present(str(folder), LATER))


def test_a_folder_has_the_data_files_that_are_not_hidden(tmp_path: Path) -> None:
    for name in ("b.csv", "a.parquet", "c.jsonl.gz", ".d.csv", "_e.csv", "f.tmp", "g.CSV"):
        (tmp_path / name).write_text("x")
    (tmp_path / "h.csv").mkdir()

    assert names(present(tmp_path)) == ["a.parquet", "b.csv", "c.jsonl.gz", "g.CSV"]
    assert names(sorted(arrivals.present(str(tmp_path / "*.csv"), LATER))) == ["b.csv"]


def test_a_file_that_was_just_written_waits(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x")
    written = file.stat().st_mtime

    assert list(arrivals.present(str(tmp_path), written + 0.5)) == []
    assert names(list(arrivals.present(str(tmp_path), written + 1.5))) == ["a.csv"]


def test_a_file_that_is_moved_in_with_an_old_time_arrives(tmp_path: Path) -> None:
    log = ArrivalLog(tmp_path / "log")
    (tmp_path / "new.csv").write_text("x")
    log.append(1, log.new(present(tmp_path)))
    (tmp_path / "old.csv").write_text("x")
    os.utime(tmp_path / "old.csv", (0, 0))

    assert names(log.new(present(tmp_path))) == ["old.csv"]


def test_a_file_that_is_written_again_arrives_again_and_its_earlier_version_is_gone(tmp_path: Path) -> None:
    log = ArrivalLog(tmp_path / "log")
    (tmp_path / "a.csv").write_text("x")
    [first] = log.new(present(tmp_path))
    log.append(1, [first])
    assert log.new(present(tmp_path)) == []
    (tmp_path / "a.csv").write_text("longer")

    [second] = log.new(present(tmp_path))

    assert arrivals.fetched(second, tmp_path) == tmp_path / "a.csv"
    assert arrivals.fetched(first, tmp_path) is None


@pytest.mark.parametrize("seed", range(5))
def test_over_crashes_each_version_of_a_file_is_in_one_batch(tmp_path: Path, seed: int) -> None:
    """Spark loses the offset that it was about to store, or the process dies within the log's line."""
    chance = random.Random(seed)
    folder, log = tmp_path / "in", tmp_path / "log"
    folder.mkdir()
    written: set[Arrival] = set()
    batches: dict[int, list[Arrival]] = {}
    offset = ArrivalsReader("", "", 0).initialOffset()
    reader = ArrivalsReader(str(folder), str(log), 2)
    for number in range(60):
        match chance.randrange(4):
            case 0:
                file = folder / f"{chance.randrange(8)}.csv"
                file.write_text("x" * (number + 1))
                os.utime(file, (number, number))
                written.add(Arrival(str(file), number + 1, number * 10**9))
            case 1:
                reader = ArrivalsReader(str(folder), str(log), 2)
            case 2:
                reader.latestOffset(offset, None)
                with (log / arrivals.LOG).open("ab") as torn:
                    torn.write(b'[99,[["/cut off')
                reader = ArrivalsReader(str(folder), str(log), 2)
            case _:
                offset = reader.latestOffset(offset, None)
                [task] = reader.partitions({"batch": offset["batch"] - 1}, offset)
                read = [Arrival(*row) for row in reader.read(task)]
                assert batches.setdefault(offset["batch"], read) == read
    while (after := reader.latestOffset(offset, None)) != offset:
        [task] = reader.partitions(offset, after)
        batches[after["batch"]] = [Arrival(*row) for row in reader.read(task)]
        offset = after

    loaded = [arrival for number in sorted(batches) for arrival in batches[number]]
    assert len(loaded) == len(set(loaded))
    assert set(loaded) <= written
    assert set(present(folder)) <= set(loaded)
    assert all(len(batch) <= 2 for batch in batches.values())


def test_objects_of_a_bucket_arrive_and_are_copied(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.options["endpoint_override"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.options["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["secret_key"])
    monkeypatch.setenv("AWS_REGION", s3.options["region"])
    source = f"s3://{s3.bucket}/in"
    filesystem, root = storage.open_filesystem(source)
    with filesystem.open_output_stream(f"{root}/day=1/a.csv") as file:
        file.write(b"id\n1\n")

    [found] = arrivals.present(source, 0)
    copy = arrivals.fetched(found, tmp_path)

    assert found.path == f"{source}/day=1/a.csv"
    assert copy == tmp_path / s3.bucket / "in" / "day=1" / "a.csv"
    assert copy.read_text() == "id\n1\n"
    with filesystem.open_output_stream(f"{root}/day=1/a.csv") as file:
        file.write(b"id\n1\n2\n")
    assert arrivals.fetched(found, tmp_path) is None, "what is there now is another arrival"
    filesystem.delete_file(f"{root}/day=1/a.csv")
    assert arrivals.fetched(found, tmp_path) is None
    arrivals.check(source)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.SourceUnreadable, match="there is no folder"):
        arrivals.check(str(tmp_path / "missing"))

    arrivals.check(str(tmp_path / "*.csv"))


@pytest.fixture
def table() -> Table:
    return Table(
        name="web.raw",
        table_id="id-1",
        metastore_id="m",
        base_path="/lake/web/raw",
        type=TableType.COPY_ON_WRITE,
        schema=[],
        record_key_fields=["id"],
        partition_fields=[],
        ordering_field=None,
        index=BucketIndex(),
        tick=Tick.MILLISECOND,
        properties={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        schema_version=1,
    )


def test_the_state_is_beside_the_table_and_of_this_table_and_source(table: Table) -> None:
    folder = follow_job.folder_of(table, "/in", FollowOptions())
    again = msgspec.structs.replace(table, table_id="id-2")

    assert folder.parent == Path("/lake/web/raw.ingest")
    assert follow_job.folder_of(table, "/in", FollowOptions()) == folder
    assert follow_job.folder_of(table, "/other", FollowOptions()) != folder
    assert follow_job.folder_of(again, "/in", FollowOptions()) != folder


def test_a_table_in_a_bucket_needs_a_folder_for_the_state(table: Table, tmp_path: Path) -> None:
    remote = msgspec.structs.replace(table, base_path="s3://lake/raw")

    with pytest.raises(errors.InvalidOption, match="--checkpoint"):
        follow_job.folder_of(remote, "/in", FollowOptions())

    assert follow_job.folder_of(remote, "/in", FollowOptions(checkpoint=tmp_path)).parent == tmp_path
