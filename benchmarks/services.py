"""Table services: planning of very many file groups, compaction and clustering, and what others notice of them.

``GROUPS=10000`` has fewer of them, and ``BENCH_MB=100`` smaller tables; ``CASES=planning,writers`` runs these
alone, and ``CASES=stream MINUTES=60`` the one that is in no other run; ``CHECK=1`` exits 1 when a target is
missed.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import psycopg
from psycopg import sql

from benchmarks import reporting, running, services_arrow, services_spark, services_stream, services_writers
from benchmarks.reporting import Row
from chronolake_metastore.store.postgres import statements

GROUPS: Final = int(os.environ.get("GROUPS", "100000"))
CASES: Final = os.environ.get("CASES", "planning,arrow,spark,clustering,reads,writers").split(",")
SEED: Final = (running.HERE / "seed_services.sql").read_text("utf-8")
ROUNDS: Final = 5
LOGS: Final = 2
_GROUP_SECONDS: Final = re.compile(r"^chronolake_group_seconds_sum (.*)$", re.MULTILINE)
_PARAMETERS: Final = {"sorts": False, "small_file_limit": 104_857_600, "now": 0, "regex": None}


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    reporting.finish(_measure(), f"{ROUNDS} rounds, median")


def _measure() -> Iterator[Row]:
    cases: dict[str, Callable[[str, httpx.Client], Iterator[Row]]] = {
        "planning": _planning,
        "arrow": services_arrow.compaction,
        "spark": services_spark.compaction,
        "clustering": services_spark.clustering,
        "reads": services_spark.reads,
        "writers": _writers,
        "stream": services_stream.reads,
    }
    dsn = running.postgres()
    with running.server(dsn) as client:
        client.post("/v1/namespaces", json={"name": "bench"})
        for case in CASES:
            yield from cases[case](dsn, client)


def _writers(dsn: str, client: httpx.Client) -> Iterator[Row]:
    _make_table(dsn, client, "planned", LOGS, {"type": "merge_on_read"})
    yield from services_writers.writers("bench.planned")


def _make_table(dsn: str, client: httpx.Client, name: str, logs: int, definition: dict[str, Any]) -> object:
    schema = [{"name": "id", "type": "bigint"}, {"name": "day", "type": "date"}]
    running.make_table(client, f"bench.{name}", schema=schema, partition_fields=["day"], **definition)
    return _seed(dsn, name, logs)


def _planning(dsn: str, client: httpx.Client) -> Iterator[Row]:
    """Rounds of compaction and of clustering, off the table's lock and under it, beside their facts alone."""
    for service, logs, definition in (
        ("compaction", LOGS, {"type": "merge_on_read"}),
        ("clustering", 0, {"index": {"type": "simple"}}),
    ):
        name = f"bench.{service}"
        table_id = _make_table(dsn, client, service, logs, definition)
        taken = [_round(client, name, service) for _ in range(ROUNDS)]
        off, under = (statistics.median(figures) for figures in zip(*taken, strict=True))
        facts = statistics.median(_facts(dsn, service, table_id) for _ in range(ROUNDS))
        yield Row(f"{service}: the facts of {GROUPS:,} file groups by plain SQL", f"{facts:.2f} s")
        yield reporting.at_most(f"{service}: planning off the lock", off, 2.0, "s")
        yield reporting.at_most(f"{service}: recording under the lock", under * 1e3, 20.0, "ms")


def _seed(dsn: str, name: str, logs: int) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        parameters = {"name": name, "groups": GROUPS, "logs": logs}
        for statement in SEED.split(";\n"):
            if statement.strip():
                connection.execute(sql.SQL(statement), parameters)
        connection.execute("VACUUM (ANALYZE) chronolake.file")
        [table_id] = connection.execute(
            "SELECT table_id FROM chronolake.lake_table WHERE name = %s", [name]
        ).fetchone() or [None]
        return table_id


def _round(client: httpx.Client, name: str, service: str) -> tuple[float, float]:
    """The seconds of a round off the lock, and of the transaction that records it."""
    before, began = _group_seconds(client), time.perf_counter()
    body = {"writer": "bench", "services": [service], "force": True}
    answer = client.post(f"/v1/tables/{name}/services/plan", json=body, timeout=600).raise_for_status()
    seconds = time.perf_counter() - began
    planned: list[dict[str, Any]] = answer.json()["instants"]
    assert planned, answer.text
    under = _group_seconds(client) - before
    return seconds - under, under


def _group_seconds(client: httpx.Client) -> float:
    match = _GROUP_SECONDS.search(client.get("/metrics").text)
    assert match is not None
    return float(match[1])


def _facts(dsn: str, service: str, table_id: object) -> float:
    statement = {"compaction": "services/log_groups", "clustering": "services/small_groups"}[service]
    with psycopg.connect(dsn, options="-c search_path=chronolake") as connection:
        paths = connection.execute(
            "SELECT array_agg(DISTINCT partition_path) FROM file WHERE table_id = %s", [table_id]
        ).fetchone()
        assert paths is not None
        began = time.perf_counter()
        parameters = _PARAMETERS | {"table_id": table_id, "partition_paths": paths[0]}
        connection.execute(sql.SQL(statements.load(statement)), parameters).fetchall()
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
