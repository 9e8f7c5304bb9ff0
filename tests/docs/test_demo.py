"""The demo refuses what it can before it starts a server, and stops the server, however it is ended."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import wait_until
from tests.server.test_embedded import postgres_of, watchers_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 60.0
PROGRAM = """
import signal, sys
sys.path.insert(0, sys.argv[1])
import demo
with demo.server():
    print("serving", flush=True)
    signal.pause()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # As in fix_postgres: pytest's own folder is closed to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="chronolake-demo-")).resolve()
    folder.chmod(0o755)
    yield folder
    wait_until(lambda: not watchers_of(folder / ".demo/metastore"))
    shutil.rmtree(folder)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_demo_that_is_told_to_end_leaves_no_server_and_no_postgresql(
    folder: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLES)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while running.stdout.readline() != "serving\n":
            assert running.poll() is None
        data_dir = folder / ".demo/metastore"
        assert postgres_of(data_dir)

        running.send_signal(number)
        code = running.wait(SECONDS_MAX)

    wait_until(lambda: not postgres_of(data_dir))
    assert code == 128 + number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "nowhere", "--key", "id"], "no file or folder matches 'nowhere'"),
        (["--data", "in", "--key", "idd"], "have no column called idd; they have id, n"),
        (["--data", "in", "--key", "id", "--ordering", "at"], "have no column called at; they have id, n"),
    ],
)
def test_files_and_columns_that_do_not_exist_are_refused_before_the_server_starts(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,1\n")

    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    shown = " ".join(ended.stdout.split())
    assert message in shown
    assert "Start the metastore" not in shown
