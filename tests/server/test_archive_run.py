"""``archive run``: writes and drops again and again, survives outages, and stops at once."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from chronolake_metastore import errors
from chronolake_metastore.cli import repeating
from chronolake_metastore.cli.repeating import Repeated
from tests.fix_secrets import STORAGE_SECRET
from tests.forked_program import ForkedProgram, complaint, run
from tests.processes import wait_until
from tests.store import tampering

OUTPUT, ERRORS = "output", "errors"


class Stopped(Exception):
    """The test ends a loop that has no end."""


@pytest.fixture
def archive_run(tmp_path: Path) -> Iterator[Callable[..., ForkedProgram]]:
    """Starts ``archive run``; it is ended with the test."""
    started: list[ForkedProgram] = []

    def start(*arguments: str) -> ForkedProgram:
        (tmp_path / OUTPUT).touch()
        (tmp_path / ERRORS).touch()
        started.append(ForkedProgram(("archive", "run", *arguments), tmp_path / OUTPUT, tmp_path / ERRORS))
        return started[-1]

    yield start
    for program in started:
        program.send_signal(signal.SIGKILL)
        program.wait(60)


def events(folder: Path) -> int:
    manifest = folder / "manifest.json"
    return (
        sum(listed["events"] for listed in json.loads(manifest.read_bytes())["runs"])
        if manifest.exists()
        else 0
    )


def test_what_is_written_later_is_archived_until_the_command_is_stopped(
    dsn: str, tmp_path: Path, archive_run: Callable[..., ForkedProgram]
) -> None:
    folder = tmp_path / "archive"
    program = archive_run("--dsn", dsn, "--archive", str(folder), "--every-seconds", "1", "--keep-days", "0")
    tampering.make(dsn)
    wait_until(lambda: events(folder) >= tampering.EVENTS)
    wait_until(lambda: "answers of 1 era" in (tmp_path / OUTPUT).read_text())

    program.terminate()

    assert program.wait(60) == 0
    lines = (tmp_path / OUTPUT).read_text().splitlines()
    assert {line.split(":")[0] for line in lines} == {"archive write", "archive drop", "stopped"}
    assert lines[-1] == "stopped"
    # An era that ended after the last write stays until the next try.
    failures = (tmp_path / ERRORS).read_text().splitlines()
    assert [line for line in failures if "run archive write first" not in line] == []


_FAILS_WHEN_STOPPED = """
import os, signal, sys, tempfile, time

from chronolake_metastore.cli import repeating

def work():
    folder = tempfile.gettempdir()
    os.kill(os.getpid(), signal.SIGTERM)
    while os.path.exists(folder):
        time.sleep(0.01)
    failed.append(True)
    raise FileNotFoundError(folder)

class Output:
    def write(self, text):
        return sys.__stdout__.write(text)

    def flush(self):
        while "stopped" in text_of_stop and not failed:
            time.sleep(0.01)
        time.sleep(0.2)

failed, text_of_stop = [], []
repeating.typer.echo = text_of_stop.append
sys.stdout = Output()
repeating.until_stopped(work)
"""


def test_work_that_misses_its_temporary_files_after_a_stop_is_no_failure() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FAILS_WHEN_STOPPED], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_outage_of_the_database_is_a_line_for_each_try(
    tmp_path: Path, archive_run: Callable[..., ForkedProgram]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    archive_run("--dsn", f"host=127.0.0.1 port={port} dbname=none", "--archive", str(tmp_path / "archive"))
    wait_until(lambda: len((tmp_path / ERRORS).read_text().splitlines()) >= 2)

    first, second, *_ = (tmp_path / ERRORS).read_text().splitlines()

    assert first.startswith("archive write failed: ")
    assert first.endswith("; trying again in 1 s")
    assert second.endswith("; trying again in 2 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_storage_that_does_not_answer_delays_no_stop(
    dsn: str,
    tmp_path: Path,
    archive_run: Callable[..., ForkedProgram],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", STORAGE_SECRET)
        program = archive_run("--dsn", dsn, "--archive", "s3://bucket/archive")
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            program.send_signal(number)
            assert program.wait(60) == 0
    assert (tmp_path / OUTPUT).read_text() == "stopped\n"


def test_the_pause_grows_with_the_failures_and_ends_with_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    failures = iter([True, True, True, False, True])
    pauses: list[float] = []

    def write() -> str:
        if next(failures):
            raise errors.DatabaseUnavailable("the database is unavailable")
        return "1 new run"

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            raise Stopped

    with pytest.raises(Stopped):
        repeating.repeat([Repeated("archive write", write)], 3_600, sleep)

    assert [*pauses[:3], pauses[4]] == [1, 2, 4, 1]
    assert 3_000 < pauses[3] <= 3_600
    captured = capsys.readouterr()
    assert captured.out == "archive write: 1 new run\n"
    assert captured.err.splitlines()[2] == (
        "archive write failed: the database is unavailable; trying again in 4 s"
    )


def test_the_pause_has_a_bound() -> None:
    pauses: list[float] = []

    def write() -> str:
        raise errors.ConfigurationError("storage refuses")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 100:
            raise Stopped

    with pytest.raises(Stopped):
        repeating.repeat([Repeated("archive write", write)], 3_600, sleep)
    assert max(pauses) == repeating.RETRY_SECONDS_MAX


def test_what_is_to_be_dropped_needs_the_owner_from_the_beginning(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE archiver LOGIN IN ROLE chronolake_auditor")
    try:
        login = conninfo.make_conninfo(dsn, user="archiver")
        ended = run(
            "archive", "run", "--dsn", login, "--archive", str(tmp_path / "archive"), "--keep-days", "30"
        )
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP ROLE archiver")
    assert "use the login that migrates" in complaint(ended)
