"""The demo stops its server, however it is ended."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.test_embedded import postgres_of, watchers_of
from tests.waiting import wait_until

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
