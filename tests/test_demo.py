"""The demo refuses what it can before it starts a server and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


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
        [sys.executable, str(DEMO), *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    shown = " ".join(ended.stdout.split())
    assert message in shown
    assert "Start the metastore" not in shown
