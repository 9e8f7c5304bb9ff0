"""The status of table services, over REST and in the view of auditors: pending plans, executors, last runs."""

from __future__ import annotations

import re

import httpx

from tests.fix_server import ServerProcess
from tests.server import database, planned
from tests.server.planned import append, compact, merge_on_read, planned as plan
from tests.server.rest import succeeded


def test_a_table_shows_the_plans_that_nobody_executes_and_what_the_last_run_saved(
    shared_http: httpx.Client,
) -> None:
    """#9019: the oldest plan that nobody executes is shown."""
    table = merge_on_read(shared_http)
    append(table, times=5)
    [done] = plan(table, services=["compaction"])
    planned.compact(table, done)
    append(table, times=5)
    [waiting] = plan(table, services=["compaction"])

    status = table.services()

    assert status["oldest_waiting_seconds"] >= 0
    [pending] = status["pending"]
    assert (pending["requested_time"], pending["executor"]) == (waiting["requested_time"], None)
    [run] = status["last_runs"]
    assert (run["service"], run["files_before"], run["files_after"]) == ("compaction", 6, 1)
    figures = shared_http.get("/metrics").text
    assert re.search(r'^chronolake_service_plans\{service="compaction"\} [1-9]', figures, re.MULTILINE)
    assert "chronolake_service_oldest_waiting_seconds" in figures
    assert "chronolake_service_executions_max" in figures
    listed = succeeded(shared_http.get("/v1/services"))["tables"]
    assert table.name in {entry["table"] for entry in listed}


def test_a_plan_that_executors_return_is_told_from_one_that_none_takes(
    shared_server: ServerProcess, shared_http: httpx.Client
) -> None:
    table = merge_on_read(shared_http)
    append(table, times=5)
    [waiting] = plan(table, services=["compaction"])
    requested = waiting["requested_time"]
    [before] = table.services()["pending"]
    for _ in range(2):
        succeeded(table.inflight(requested))
        succeeded(planned.give_back(table, requested, "no space left"))
    succeeded(table.inflight(requested))

    [after] = table.services()["pending"]
    with database.connected(shared_server.dsn) as auditor:
        [seen] = auditor.execute(
            "SELECT executions, last_executor, last_failure, last_failed_at IS NULL AS never"
            " FROM audit_services WHERE requested_digits = %s",
            [requested],
        ).fetchall()

    assert (before["executions"], before["last_executor"], before["failed_seconds_ago"]) == (0, None, None)
    assert (after["executions"], after["last_executor"], after["last_failure"]) == (
        3,
        "planner",
        "no space left",
    )
    assert after["age_seconds"] >= after["failed_seconds_ago"] >= 0
    assert seen == {
        "executions": 3,
        "last_executor": "planner",
        "last_failure": "no space left",
        "never": False,
    }


def test_a_plan_of_a_dropped_table_is_no_pending_work(
    shared_server: ServerProcess, shared_http: httpx.Client
) -> None:
    table = merge_on_read(shared_http)
    append(table, times=5)
    [done] = plan(table, services=["compaction"])
    compact(table, done)
    append(table, times=5)
    [left] = plan(table, services=["compaction"])
    succeeded(table.inflight(left["requested_time"]))

    shared_http.delete(f"/v1/tables/{table.name}").raise_for_status()

    with database.connected(shared_server.dsn) as auditor:
        seen = auditor.execute(
            "SELECT requested_digits FROM audit_services WHERE table_name = %s", [table.name]
        ).fetchall()
    listed = succeeded(shared_http.get("/v1/services"))["tables"]
    assert seen == [{"requested_digits": done["requested_time"]}]
    assert table.name not in {entry["table"] for entry in listed}
