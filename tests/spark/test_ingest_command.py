"""``chronolake ingest`` as far as it gets without a JVM: its help, and what it says before Spark runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from chronolake.cli import main as command_line


@pytest.fixture
def run(shared_server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs ``chronolake ingest`` on the test's folder up to the moment at which Spark has started."""

    def interrupted(while_starting: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        with while_starting():
            raise KeyboardInterrupt

    def run(*options: str) -> int:
        where = ["--url", shared_server_url, "--table", "ingest.t", "--source", str(tmp_path)]
        return command_line.run(["ingest", *where, *options])

    monkeypatch.setattr("chronolake_spark.sessions.borrowed", interrupted)
    return run


def test_no_text_of_the_help_is_cut_off_on_a_screen_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert command_line.run(["ingest", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--partition" in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


@pytest.mark.parametrize(("options", "step"), [((), "load"), (("--dry-run",), "look at")])
def test_what_is_begun_and_its_interruption_are_said_on_stderr(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: tuple[str, ...],
    step: str,
) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").touch()

    assert run(*options) == 130
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Starting Spark to {step} 2 CSV files ...\n")
    assert shown.err.endswith("Interrupted while Spark started or stopped.\n")
    assert shown.out == ""


def test_with_json_stderr_is_for_failures(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").touch()

    assert run("--json") == 130
    assert "Starting Spark" not in capsys.readouterr().err


def test_a_source_that_is_not_there_is_refused_before_spark_starts(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 1
    shown = capsys.readouterr().err
    assert "holds no Parquet, CSV or JSON lines files" in shown
    assert "Starting Spark" not in shown
