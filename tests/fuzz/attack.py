"""One run of schemathesis against a server that has tables with instants in every state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from chronolake_model.file_names import bucket_file_id
from tests.fix_server import ServerProcess
from tests.server import rest
from tests.server.rest import Json, succeeded

ROOT: Final = Path(__file__).parent.parent.parent
CONFIG: Final = Path(__file__).parent / "schemathesis.toml"


def run(server: ServerProcess, folder: Path, seconds: int, seed: int, *flags: str) -> int:
    """Attack ``server`` for some seconds; 0 when no check failed and its log has no stack trace."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG.read_text(encoding="utf-8") + _dictionaries(_seed(server)), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{server.url}/openapi.json", "--seed", str(seed), "--max-time", str(seconds)),
            *("--no-color", *flags),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    if "Traceback" in server.log():
        print(server.log()[-20_000:], file=sys.stderr)
        return done.returncode or 1
    return done.returncode


def _seed(server: ServerProcess) -> dict[str, list[str]]:
    """Make tables with instants in every state; the values that lead to them, by parameter."""
    with rest.connect(server.url) as http:
        tables = [
            rest.make_table(http, "fuzz.copied"),
            rest.make_table(http, "fuzz.fine", tick="1us"),
        ]
        times = [time for table in tables for time in _instants_of(table)]
        lease = succeeded(http.post("/v1/tables/fuzz.copied/readers", json={"reader": "r"}))["lease_id"]
    return {
        "path.table": [table.name for table in tables],
        "path.namespace": ["fuzz"],
        "path.requested_time": times,
        "path.lease_id": [lease],
    }


def _instants_of(table: rest.Table) -> list[str]:
    """Instants in each state; the times of all."""
    completed, superseded, rolled_back, inflight = (table.begun() for _ in range(4))
    for instant in (superseded, completed):
        succeeded(table.complete(instant, rest.write_stat(instant, instant == completed)))
    succeeded(table.roll_back(rolled_back))
    succeeded(table.mark(inflight, rest.marker(inflight)))
    group: Json = {"partition_path": "", "file_id": bucket_file_id(0)}
    planned = table.begun(action="clustering", inflight=False, plan={"file_groups": [group]})
    url = f"/v1/tables/{table.name}/savepoints"
    savepoint = succeeded(table.http.post(url, json={"writer": "w"}))["requested_time"]
    requested = table.begun(inflight=False)
    return [completed, superseded, rolled_back, inflight, planned, savepoint, requested]


def _dictionaries(values: dict[str, list[str]]) -> str:
    """The part of the configuration that directs half of the requests at existing objects."""
    lines = [""]
    for name, of_name in values.items():
        lines += [f'[dictionaries."{name}"]', f"values = {json.dumps(of_name)}"]
    lines += ["[parameters]"]
    lines += [f'"{name}" = {{ dictionary = "{name}", probability = 0.5 }}' for name in values]
    return "\n".join(lines) + "\n"
