"""The timeline under load, against plain SQL on the same PostgreSQL in the same run.

A cycle is begin and complete with three write stats, idempotent and durable. ``make bench-timeline`` runs all
cases; ``SECONDS=30`` runs each for longer, in ``ROUNDS`` slices that take turns, so that other load affects
all of them; ``CASES=bc`` runs these alone; ``INSTANTS=100000`` makes the long timeline shorter;
``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import base64
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psycopg

from benchmarks import long_timeline, reporting, running
from benchmarks.reporting import Row
from benchmarks.rest_load import Figures

WRITERS = 64
CLIENTS = (1, 16, 64)
MANY_TABLES = 1_000
BATCH = 1_000
BATCH_WRITERS = 4
CASES = os.environ.get("CASES", "bcdefg")
GRANTS = 10_000
SUBJECTS = 100
SECONDS = float(os.environ.get("SECONDS", "10"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SLICE = SECONDS / ROUNDS


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    reporting.finish(_measure(running.postgres()), f"{SECONDS} s a case in {ROUNDS} slices")


def _measure(dsn: str) -> Iterator[Row]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((running.HERE / "plain_timeline.sql").read_bytes())
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        running.make_table(client, "bench.hot0", tick="1us")
        running.make_table(client, "bench.begun0", tick="1us")
        for number in range(MANY_TABLES):
            running.make_table(client, f"bench.t{number}")
        cases: dict[str, Callable[[], Iterator[Row]]] = {
            "b": lambda: _hot(dsn),
            "c": lambda: _many(dsn),
            "d": _batches,
            "e": lambda: _skew_wait(dsn),
            "g": lambda: _access(dsn),
            "f": lambda: long_timeline.measure(dsn, client, SECONDS),
        }
        for case in CASES:
            yield from cases[case]()


def _hot(dsn: str) -> Iterator[Row]:
    """(a) and (b): one table."""
    plain: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    hot: list[Figures] = []
    for _ in range(ROUNDS):
        for clients, rates in plain.items():
            rates.append(running.pgbench(dsn, "plain_cycle", clients, SLICE))
        hot.append(running.load("bench.hot", 1, WRITERS, SLICE))
    baseline = {clients: statistics.mean(rates) for clients, rates in plain.items()}
    for clients, rate in baseline.items():
        yield Row(f"(a) plain SQL, one table, {clients} clients", f"{rate:,.0f} cycles/s")
    rate = _rate(hot)
    name = f"(b) REST, {WRITERS} writers, one table"
    yield reporting.ratio(f"{name}, against 64 clients", rate, baseline[64], 3.3)
    yield reporting.ratio(f"{name}, against the best", rate, max(baseline.values()), 1.3)
    yield from _calm("(b)", hot)


def _access(dsn: str) -> Iterator[Row]:
    """(g): as (b), with tokens and roles, against a server without them on the same database."""
    with tempfile.TemporaryDirectory() as folder, psycopg.connect(dsn, autocommit=True) as connection:
        keys, admin = Path(folder) / "keys", Path(folder) / "admin"
        keys.write_bytes(base64.b64encode(secrets.token_bytes(32)))
        admin.write_text(secrets.token_urlsafe(32))
        made = _metastore("token", "create", "bench", "--token-key-file", str(keys), "--json", "--dsn", dsn)
        token = msgspec.json.decode(made)
        _metastore("grants", "add", token["subject"], "writer", "bench", "--dsn", dsn)
        connection.execute(
            """
            INSERT INTO chronolake.role_grant (subject, key, prefix, role, granted_at, granted_by)
            SELECT 'oidc:bench:' || n %% %(subjects)s, 'ns' || n, 'ns' || n || '.', 'reader', now(), 'bench'
            FROM generate_series(1, %(grants)s) AS n
            """,
            {"grants": GRANTS, "subjects": SUBJECTS},
        )
        flags = ("--access", "on", "--token-key-file", str(keys), "--admin-token-file", str(admin))
        without: list[Figures] = []
        with_access: list[Figures] = []
        with running.server(dsn, flags=flags, port=running.PORT + 1):

            def measure_without() -> None:
                without.append(running.load("bench.hot", 1, WRITERS, SLICE))

            def measure_with() -> None:
                port = running.PORT + 1
                with_access.append(
                    running.load("bench.hot", 1, WRITERS, SLICE, port=port, token=token["token"])
                )

            for number in range(ROUNDS):
                # In turns, because the second of a pair finds a larger table and a warmer machine.
                both = (measure_without, measure_with)
                for measure in both if number % 2 == 0 else reversed(both):
                    measure()
    name = f"(g) as (b) with a token, its role and {GRANTS:,} roles of others, against without"
    yield reporting.ratio(name, _rate(with_access), _rate(without), 0.97)
    yield from _calm("(g)", with_access)


def _metastore(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "chronolake_metastore", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _many(dsn: str) -> Iterator[Row]:
    """(c): a thousand tables."""
    plain: list[float] = []
    many: list[Figures] = []
    for _ in range(ROUNDS):
        plain.append(running.pgbench(dsn, "plain_cycle", WRITERS, SLICE, MANY_TABLES))
        many.append(running.load("bench.t", MANY_TABLES, WRITERS, SLICE))
    baseline = statistics.mean(plain)
    yield Row(f"plain SQL, {MANY_TABLES} tables, {WRITERS} clients", f"{baseline:,.0f} cycles/s")
    yield reporting.ratio(f"(c) REST, {WRITERS} writers, {MANY_TABLES} tables", _rate(many), baseline, 0.75)
    failed = sum(run.failures + run.conflicts for run in many)
    yield Row("(c) failures and conflicts", str(failed), "0", failed == 0)


def _calm(case: str, runs: Sequence[Figures]) -> Iterator[Row]:
    """No client fails without a cause of its own, and none waits much longer than the others."""
    failed = sum(run.failures + run.conflicts for run in runs)
    yield Row(f"{case} failures and conflicts", str(failed), "0", failed == 0)
    longest = max(runs, key=lambda run: run.latency_ms_max / run.latency_ms_median)
    times = longest.latency_ms_max / longest.latency_ms_median
    waits = f"{longest.latency_ms_max:.0f} ms / {longest.latency_ms_median:.0f} ms"
    yield Row(f"{case} longest wait over median ({waits})", f"{times:.1f} x", "< 5 x", times < 5)


def _skew_wait(dsn: str) -> Iterator[Row]:
    """(e): the cost of a lock and of a wait for clock skew."""
    waiting = running.pgbench(dsn, "plain_begin_and_wait", WRITERS, max(5, SLICE))
    yield Row(f"(e) plain SQL, a lock and 200 ms of waiting, {WRITERS} clients", f"{waiting:,.1f} begins/s")
    ours = _rate([running.load("bench.begun", 1, WRITERS, SLICE, begins=1)])
    yield Row(
        f"(e) REST, {WRITERS} writers, one table", f"{ours:,.0f} begins/s = {ours / waiting:,.0f} x as many"
    )


def _batches() -> Iterator[Row]:
    """(d): begin alone, many at a time."""
    run = running.load("bench.begun", 1, BATCH_WRITERS, SECONDS, begins=BATCH)
    rate = run.cycles_per_second * BATCH
    name = f"(d) begin in batches of {BATCH}, {BATCH_WRITERS} writers, one table"
    figure = f"{run.failures} requests failed" if run.failures else f"{rate:,.0f} instants/s"
    yield Row(name, figure, ">= 30,000", rate >= 30_000 and not run.failures)


def _rate(runs: Sequence[Figures]) -> float:
    return sum(run.cycles for run in runs) / sum(run.seconds for run in runs)


if __name__ == "__main__":
    main()
