"""``chronolake ingest --follow``: files become commits as they arrive, each once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import Action, State
from chronolake.errors import TableNotFound
from tests import processes
from tests.client.gateway import Holding
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.spark.prices import SPARK_ENGINE, rows_of

pytestmark = pytest.mark.spark

FOLLOW = ("--follow", "--interval", "0.2", "--key", "id")


def commits_of(client: chronolake.Client, name: str) -> int:
    try:
        return len(list(client.table(name).instants(state=State.COMPLETED, action=Action.COMMIT)))
    except TableNotFound:
        return 0


def is_idle(folder: Path) -> bool:
    """Whether each batch that the query has begun is done."""
    begun, done = (
        {file.name for file in folder.glob(f"table.ingest/*/spark/{log}/[0-9]*")}
        for log in ("offsets", "commits")
    )
    return bool(begun) and begun == done


def arrive(folder: Path, name: str, text: str) -> None:
    """A file arrives whole."""
    (folder.parent / name).write_text(text)
    os.utime(folder.parent / name, (1, 1))
    (folder.parent / name).rename(folder / name)


@pytest.fixture
def while_following(
    run: Callable[..., int], client: chronolake.Client, name: str, tmp_path: Path
) -> Callable[..., int]:
    """Follows while files arrive, each after the commits of those before; Ctrl-C ends it. The exit code."""

    def wait_for(least: int) -> None:
        wait_until(lambda: commits_of(client, name) >= least)

    def follow(*files: tuple[str, str], commits: int = 1) -> int:
        before = commits_of(client, name)

        def feed() -> None:
            try:
                for number, (file, text) in enumerate(files):
                    arrive(tmp_path / "in", file, text)
                    wait_for(before + number + commits)
                wait_until(lambda: is_idle(tmp_path))
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        with ThreadPoolExecutor(1) as feeding:
            fed = feeding.submit(feed)
            code = run(*FOLLOW)
            fed.result()
        return code

    return follow


@SPARK_ENGINE
def test_files_become_commits_as_they_arrive_and_a_later_run_goes_on(
    while_following: Callable[..., int],
    client: chronolake.Client,
    name: str,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    first = while_following(("a.csv", "id,n\n1,1\n2,1\n"), ("b.csv", "id,n\n2,2\n"))
    shown = capsys.readouterr()

    assert first == 130, shown.err
    assert [json.loads(line)["source"] for line in shown.out.splitlines()] == ["a.csv", "b.csv"]
    assert f"Interrupted. 2 commits of {name} completed." in shown.err
    assert "Traceback" not in shown.err
    assert rows_of(table()) == [(1, 1), (2, 2)]

    assert while_following(("c.json", '{"id": 3, "n": 3}\n')) == 130
    assert rows_of(table()) == [(1, 1), (2, 2), (3, 3)]
    assert commits_of(client, name) == 3
    [state] = (tmp_path / "table.ingest").iterdir()
    assert state.name.startswith(client.table(name).definition.table_id)


@SPARK_ENGINE
def test_a_bad_file_ends_the_command_with_its_name_and_nothing_is_lost(
    while_following: Callable[..., int],
    run: Callable[..., int],
    client: chronolake.Client,
    name: str,
    table: Callable[[], chronolake.Table],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    arrive(tmp_path / "in", "good.csv", "id,n\n1,1\n")
    assert run("--key", "id") == 0
    arrive(tmp_path / "in", "bad.csv", "id,n\n2,two\n")
    arrive(tmp_path / "in", "c.csv", "id,n\n3,3\n")

    assert run(*FOLLOW) == 1
    shown = capsys.readouterr().err
    assert "bad.csv" in shown and "line 2" in shown and "Traceback" not in shown
    assert rows_of(table()) == [(1, 1)]

    arrive(tmp_path / "in", "bad.csv", "id,n\n2,2\n")
    assert while_following(("d.csv", "id,n\n4,4\n"), commits=2) == 130
    assert rows_of(table()) == [(1, 1), (2, 2), (3, 3), (4, 4)]


@SPARK_ENGINE
def test_options_that_do_not_fit_are_refused_before_spark_starts(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("--follow", "--dry-run") == 2
    assert run("--follow", "--source", str(tmp_path / "missing"), "--key", "id") == 1
    assert "there is no folder" in capsys.readouterr().err


PROGRAM = (sys.executable, "-c", "from chronolake.cli.main import main; main()")


@pytest.mark.slow
@pytest.mark.parametrize("commit", [1, 2], ids=["in the first commit", "in a later commit"])
def test_after_a_kill_the_same_command_loads_each_file_once(
    reaping: ServerProcess, spark: SparkSession, tmp_path: Path, commit: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def command(url: str) -> list[str]:
        where = ["--table", "killed.t", "--base-path", str(tmp_path / "table"), "--source", str(folder)]
        return [*PROGRAM, "ingest", "--url", url, *where, *FOLLOW, "--max-files", "1"]

    arrive(folder, "1.csv", "id,n\n1,1\n2,1\n")
    with (
        Holding(reaping.url, "/complete", commit) as gateway,
        (tmp_path / "killed.log").open("wb") as out,
        subprocess.Popen(command(gateway.url), stdout=out, stderr=out) as following,
        chronolake.connect(reaping.url) as client,
    ):
        if commit == 2:
            wait_until(lambda: commits_of(client, "killed.t") == 1)
        arrive(folder, "2.csv", "id,n\n2,2\n")
        wait_until(lambda: gateway.holds.is_set() or following.poll() is not None)
        processes.kill(following)
    arrive(folder, "3.csv", "id,n\n3,3\n")

    with (
        (tmp_path / "again.log").open("wb") as out,
        subprocess.Popen(command(reaping.url), stdout=out, stderr=out) as following,
        chronolake.connect(reaping.url) as client,
    ):
        wait_until(lambda: commits_of(client, "killed.t") >= 3 or following.poll() is not None)
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130, (tmp_path / "again.log").read_text()
        assert "RuntimeError" not in (tmp_path / "again.log").read_text()
        table = chronolake_spark.table(spark, "killed.t", client=client)
        assert rows_of(table) == [(1, 1), (2, 2), (3, 3)]
        assert commits_of(client, "killed.t") == 3
