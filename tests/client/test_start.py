"""The entry points of the commands: the version is answered without the imports of a program."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import atexit, importlib, json, sys
module, _, function = sys.argv[1].partition(":")
sys.argv[1:] = ["--version"]
atexit.register(lambda: print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules}))))
getattr(importlib.import_module(module), function)()
"""


WITHOUT_EXTRAS = """
import sys
sys.modules["litestar"] = None
sys.argv[1:] = ["serve"]
import chronolake_start
chronolake_start.server()
"""


def test_the_server_names_its_extra_where_it_is_not_installed() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False)

    [line] = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert "litestar is not installed" in line
    assert "pip install 'chronolake[server]'" in line


@pytest.mark.parametrize("command", ["chronolake", "chronolake-metastore"])
def test_the_version_is_answered_without_importing_a_program(command: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, scripts[command]], capture_output=True, text=True, check=True
    )

    version, modules = ended.stdout.splitlines()
    assert version == f"{command} {importlib.metadata.version('chronolake')}"
    heavy = {"asyncio", "chronolake", "chronolake_metastore", "httpx", "litestar", "msgspec", "rich", "typer"}
    assert set(json.loads(modules)) & heavy == set()
