"""The benchmark of archived instants gives the same answers from the archive as from PostgreSQL, in small."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from benchmarks import archived_instants
from benchmarks.archived_instants import TABLE
from chronolake_metastore.archive import instant_reading
from chronolake_metastore.store import archive
from tests.store.archive_reads import reader_of
from tests.store.archiving import local

INSTANTS = 1_234


def test_both_have_the_same_rows_and_every_read_gives_its_figure(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "EVENTS_MAX", 200)
    archived_instants.fill(dsn, INSTANTS)
    archived_instants.write(str(tmp_path), INSTANTS)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT chronolake.micros(requested_time), chronolake.micros(completion_time), action, operation, "
            "state FROM chronolake.instant ORDER BY requested_time"
        ).fetchall()

    found = reader_of(local(tmp_path)).of_runs(
        lambda runs: instant_reading.timeline(runs, TABLE, instant_reading.ALL, INSTANTS).to_pylist()
    )
    figures = list(archived_instants.measure_reads(dsn, str(tmp_path), INSTANTS))

    assert [tuple(instant.values()) for instant in found] == rows
    assert len(figures) == 14


def test_a_server_that_starts_has_all_keys() -> None:
    [figure] = archived_instants.measure_keys(1_000)

    assert "1,000" in figure.name
