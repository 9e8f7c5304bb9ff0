"""Reading an archive of the log: the same answers as PostgreSQL, or an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from chronolake_metastore.archive import indexes, reading, rows
from chronolake_metastore.archive.run_reading import RunReader
from chronolake_metastore.archive.storage import ArchiveDamaged
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import ArchivedFile
from chronolake_metastore.store.instants import Filter
from chronolake_model.vocabulary import Direction, TimeOrder
from chronolake_storage import opening
from chronolake_storage.files import CONTENT_BYTES_MAX, Content, Files
from tests.fix_s3 import S3
from tests.store import archive_reads, archiving, tampering
from tests.store.archive_reads import reader_of
from tests.store.archiving import change_rows, forge_run, local, overwrite
from tests.store.history import History


@pytest.fixture
def log_dsn(log_dsn: str) -> str:
    """The DSN of a log with rows in each of its tables, and events with several in a request."""
    tampering.refuse(log_dsn, "shop.clicks")
    tampering.plan(log_dsn)
    return log_dsn


def borders(dsn: str) -> list[int]:
    """Some transactions of the log."""
    with psycopg.connect(dsn) as connection:
        query = "SELECT DISTINCT transaction_id::text::bigint FROM chronolake.event ORDER BY 1"
        return [transaction_id for (transaction_id,) in connection.execute(query)][::4]


@pytest.mark.parametrize("events_max", [1, 5, 1_000])
@pytest.mark.parametrize("every", [1, 3, 100])
def test_a_reader_gives_what_postgresql_gives(
    log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events_max: int, every: int
) -> None:
    monkeypatch.setattr(archives, "CHECKPOINT_EVERY", every)
    archiving.write(log_dsn, local(tmp_path), events_max)

    reader = reader_of(local(tmp_path))
    archive_reads.compare(log_dsn, reader, events_max + every, borders(log_dsn))


def test_large_tables_are_read_from_several_files_and_windows(
    log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 3)
    monkeypatch.setattr(rows, "FILE_BYTES_MAX", 1)
    monkeypatch.setattr(archives, "BLOCK_BYTES", 500)
    monkeypatch.setattr(reading, "WINDOWS", (5, 1))
    monkeypatch.setattr(reading, "WINDOW_BYTES_MAX", 3_000)
    archiving.write(log_dsn, local(tmp_path))

    archive_reads.compare(log_dsn, reader_of(local(tmp_path)))


def test_small_row_groups_share_files(log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    archiving.write(log_dsn, local(tmp_path))

    archive_reads.compare(log_dsn, reader_of(local(tmp_path)))


def test_a_reader_goes_on_while_runs_are_written_merged_and_removed(log_dsn: str, tmp_path: Path) -> None:
    files = local(tmp_path)
    archiving.write(log_dsn, files, 1)
    reader = reader_of(files)
    archive_reads.compare(log_dsn, reader)
    tries: list[int] = []

    def read(runs: Sequence[RunReader]) -> int:
        if not tries:
            for _ in range(12):
                tampering.refuse(log_dsn, "shop.orders")
                archiving.write(log_dsn, files, 1)
            refreshing = threading.Thread(target=reader.refresh)
            refreshing.start()
            refreshing.join()
        tries.append(len(runs))
        return sum(len(list(run.rows("refusal", 0, run.count("refusal")))) for run in runs)

    with psycopg.connect(log_dsn) as connection:
        connection.execute("SET search_path = chronolake")
        before = connection.execute("SELECT count(*) FROM refusal").fetchall()[0][0]

    assert reader.of_runs(read) == before + 12

    assert len(tries) == 2
    archive_reads.compare(log_dsn, reader)


def test_an_archive_on_s3_is_read_as_a_local_one(log_dsn: str, s3: S3) -> None:
    files = opening.open_files(f"s3://{s3.bucket}/archive", s3.options)
    archiving.write(log_dsn, files, 5)

    archive_reads.compare(log_dsn, reader_of(files))


class CountingFiles:
    """Files that count the objects that are read, by name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        self.names.append(path.rpartition("/")[2])
        return self._files.read(path, bytes_max)

    def read_range(self, path: str, begin: int, end: int) -> bytes | None:
        self.names.append(path.rpartition("/")[2])
        return self._files.read_range(path, begin, end)


def test_a_key_that_is_not_archived_costs_no_request(log_dsn: str, tmp_path: Path) -> None:
    archiving.write(log_dsn, local(tmp_path), 5)
    files = CountingFiles(local(tmp_path))
    reader = reader_of(files)
    reader.refresh()
    files.names.clear()

    outcomes = [reader.outcome(str(uuid4())) for _ in range(1_000)]

    assert (set(outcomes), files.names) == ({None}, [])


def test_a_key_is_found_without_the_other_files_of_its_run(log_dsn: str, tmp_path: Path) -> None:
    archiving.write(log_dsn, local(tmp_path))
    files = CountingFiles(local(tmp_path))

    outcome = reader_of(files).outcome("request-3")

    assert outcome is not None
    assert files.names == ["manifest.json", "run.json", "outcome_key.parquet", "outcome.parquet"]


@pytest.mark.parametrize("order_by", TimeOrder)
@pytest.mark.parametrize("direction", Direction)
def test_a_page_of_the_timeline_reads_few_row_groups(
    log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order_by: TimeOrder, direction: Direction
) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    with History(log_dsn, keys="more") as history:
        for _ in range(12):
            history.write("shop.orders", 0)
    archiving.write(log_dsn, local(tmp_path))
    groups = list[str]()
    read_group = RunReader._read_group

    def counting(self: RunReader, file: ArchivedFile, number: int, columns: Sequence[str] | None = None) -> Any:
        groups.append(file.table)
        return read_group(self, file, number, columns)

    monkeypatch.setattr(RunReader, "_read_group", counting)
    with psycopg.connect(log_dsn) as connection:
        query = "SELECT table_id, count(*) FROM chronolake.instant GROUP BY table_id ORDER BY 2 DESC LIMIT 1"
        [[table_id, count]] = connection.execute(query).fetchall()

    wanted = Filter(order_by=order_by, direction=direction)
    page = reader_of(local(tmp_path)).page_of_instants(table_id, wanted, None, 0, 2, 1_000_000)

    assert len(page.instants) == 2
    assert groups.count("instant") <= 6 < count // 2
    assert groups.count("event") <= 12


def test_two_keys_of_one_hash_are_told_apart(
    log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "key_of", len)
    archiving.write(log_dsn, local(tmp_path), 5)

    archive_reads.compare(log_dsn, reader_of(local(tmp_path)))


def _truncate(path: Path) -> None:
    overwrite(path, path.read_bytes()[:-1])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "flip": archiving.flip,
    "truncate": _truncate,
    "remove": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "event.parquet",
        "event_entry.parquet",
        "deleted_file.parquet",
        "outcome.parquet",
        "refusal.parquet",
        "event_order.parquet",
        "outcome_key.parquet",
        "instant.parquet",
    ],
)
def test_a_damaged_file_gives_an_error_and_no_wrong_answer(
    log_dsn: str, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    archiving.write(log_dsn, local(tmp_path), 5)
    for path in list(tmp_path.glob(f"runs/*/{name}")):
        damage(path)

    with pytest.raises(ArchiveDamaged):
        archive_reads.compare(log_dsn, reader_of(local(tmp_path)))


@pytest.mark.parametrize("table", ["event", "outcome", "refusal", "event_order", "outcome_key"])
def test_missing_rows_give_an_error_whatever_the_digests_say(log_dsn: str, tmp_path: Path, table: str) -> None:
    def forge(run: Path, _: dict[str, Any]) -> None:
        change_rows(run / f"{table}.parquet", table, lambda found: found.__delitem__(slice(1, None)))

    archiving.write(log_dsn, local(tmp_path))
    forge_run(tmp_path, 0, forge)

    with pytest.raises(ArchiveDamaged):
        archive_reads.compare(log_dsn, reader_of(local(tmp_path)))
