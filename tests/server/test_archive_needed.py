"""A server that cannot read the archive which it needs is not ready, and its figures say where that ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.archive_watch import ArchiveWatch
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import rest
from tests.server.rest import refused, succeeded
from tests.store import archiving, tampering


@pytest.fixture
def archive(dsn: str, tmp_path: Path) -> Path:
    """The archive that has the answers which left a database."""
    tampering.make(dsn)
    archiving.write(dsn, archiving.local(tmp_path / "archive"))
    assert archiving.drop(dsn, archiving.local(tmp_path / "archive")).eras == [1]
    return tmp_path / "archive"


def test_a_server_that_starts_without_the_archive_is_ready_when_that_is_back(
    dsn: str, archive: Path, tmp_path: Path
) -> None:
    server = ServerProcess(dsn, tmp_path / "server.log")
    away = archive.rename(tmp_path / "away")
    server.start(ready_status=503)
    try:
        with rest.connect(server.url) as http:
            problem = refused(http.get("/ready"), 503, "archive-unavailable")
            refused(http.post("/v1/namespaces", json={"name": "new"}), 503, "archive-unavailable")
            readable = http.get("/v1/tables/shop.orders/instants")
            away.rename(archive)

            assert "there is no archive of the log" in problem["detail"]
            assert f"put the archive back at {archive}" in problem["detail"]
            assert succeeded(readable)
            wait_until(lambda: http.get("/ready").status_code == 200)
            assert http.post("/v1/namespaces", json={"name": "new"}).status_code == 201
            archive.rename(away)
            assert http.get("/ready").status_code == 200
        assert "the archive of the log cannot be read" in server.log()
    finally:
        server.stop()


def test_a_server_with_another_archive_is_not_ready(dsn: str, archive: Path, tmp_path: Path) -> None:
    server = ServerProcess(dsn, tmp_path / "server.log", "--archive", str(tmp_path / "none"))
    server.start(ready_status=503)
    try:
        with httpx.Client(base_url=server.url) as http:
            problem = refused(http.get("/ready"), 503, "archive-unavailable")
        assert "must name the archive of this database" in problem["detail"]
    finally:
        server.stop()


def test_a_server_is_not_ready_while_it_reads_the_archive(
    dsn: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.5)
    may_read = threading.Event()

    class SlowReader(ArchiveReader):
        @override
        def refresh(self, location: str = "") -> int:
            may_read.wait()
            return super().refresh(location)

    async def look() -> None:
        database = Database(Settings(dsn=dsn), SlowReader)
        probe = readiness.Probe(database)
        try:
            with pytest.raises(errors.ArchiveUnavailable, match="still reads the keys"):
                while True:
                    try:
                        await probe.check()
                    except errors.DatabaseUnavailable:
                        continue
        finally:
            may_read.set()
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 60)
        await probe.check()
        await probe.close()
        await database.close()

    asyncio.run(look())


def figures(dsn: str, location: str | None = None, looks: int = 1) -> Callable[[str], float]:
    """The figures after the archive was looked at."""
    metrics = Metrics()

    async def look() -> None:
        database = Database(Settings(dsn=dsn))
        watch = ArchiveWatch(database, metrics, location)
        for _ in range(looks):
            await watch.look()
        await database.close()

    asyncio.run(look())
    return lambda name: metrics.registry.get_sample_value(f"chronolake_{name}") or 0.0


def test_figures_show_that_archiving_stands_still(dsn: str, tmp_path: Path) -> None:
    tampering.make(dsn)
    archiving.write(dsn, archiving.local(tmp_path))
    before = figures(dsn, str(tmp_path))
    tampering.plan(dsn)
    after = figures(dsn, str(tmp_path))

    assert before("archive_end_transaction") > 0
    assert before("archive_lag_seconds") == 0
    assert after("archive_end_transaction") == before("archive_end_transaction")
    assert after("archive_lag_seconds") > 0
    assert after("archive_lag_transactions") > before("archive_lag_transactions")


def test_each_try_to_read_the_archive_that_fails_is_counted(dsn: str, archive: Path) -> None:
    shown = figures(dsn, str(archive / "none"), looks=3)
    assert shown("archive_failures_total") == 3
    assert shown("archive_lag_seconds") > 0


def test_a_database_without_an_archive_has_no_lag(dsn: str) -> None:
    tampering.make(dsn)
    shown = figures(dsn)
    assert (shown("archive_end_transaction"), shown("archive_lag_seconds")) == (0, 0)


def test_a_server_takes_in_the_archive_before_it_needs_it(dsn: str, tmp_path: Path) -> None:
    tampering.make(dsn)
    archiving.write(dsn, archiving.local(tmp_path / "archive"))
    reader = ArchiveReader()

    async def look() -> None:
        database = Database(Settings(dsn=dsn), lambda: reader)
        await ArchiveWatch(database, Metrics(), str(tmp_path / "archive")).look()
        await database.close()

    asyncio.run(look())

    assert reader.end > 0
    assert reader.may_have_outcome("request-0")
    assert not reader.may_have_outcome("another")
