"""The tools that fetch environments of hundreds of megabytes fetch nothing when they are asked for help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"


@pytest.mark.parametrize("tool", ["make_flink_env", "make_hudi_env"])
@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), ([], 2), (["--no-such-option"], 2)])
def test_a_tool_explains_itself_and_fetches_nothing(
    tmp_path: Path, tool: str, arguments: list[str], status: int
) -> None:
    command = [sys.executable, str(TOOLS / f"{tool}.py"), *arguments]
    # A tool that fetches all the same finds no package.
    offline = os.environ | {"PIP_NO_INDEX": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, check=False)

    assert (ended.returncode, "folder" in ended.stdout + ended.stderr) == (status, True)
    assert list(tmp_path.iterdir()) == []
