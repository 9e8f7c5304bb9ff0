"""The metrics of a server, for Prometheus."""

from __future__ import annotations

import httpx
import msgspec
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chronolake_metastore.settings import Settings
from chronolake_metastore.workers import registry
from tests.docs import markdown
from tests.fix_server import ServerProcess

HOUR_US = 3_600_000_000


def figures(server: ServerProcess) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    text = httpx.get(f"{server.url}/metrics", verify=False).raise_for_status().text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def make_namespace(server: ServerProcess, name: str) -> int:
    return httpx.post(f"{server.url}/v1/namespaces", json={"name": name}, verify=False).status_code


def test_commands_are_counted_by_kind_and_result(server: ServerProcess) -> None:
    assert [make_namespace(server, "shop"), make_namespace(server, "shop")] == [201, 409]
    seen = figures(server)
    assert seen["chronolake_commands_total", "CreateNamespace", "ok"] == 1
    assert seen["chronolake_commands_total", "CreateNamespace", "namespace-exists"] == 1
    assert seen["chronolake_group_size_count",] == 2
    assert seen["chronolake_group_seconds_count",] == 2


def test_a_clock_that_follows_the_wall_shows_no_wait(server: ServerProcess) -> None:
    make_namespace(server, "shop")
    seen = figures(server)
    assert seen["chronolake_commit_wait_seconds_total",] == 0
    assert seen["chronolake_clock_drift_seconds",] < 1


def test_a_wall_set_back_shows_as_drift_and_as_wait(server: ServerProcess) -> None:
    make_namespace(server, "shop")
    with psycopg.connect(server.dsn) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION chronolake.now_us() RETURNS bigint LANGUAGE sql VOLATILE"
            f" RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - {HOUR_US}"
        )
    assert make_namespace(server, "bakery") == 201
    seen = figures(server)
    assert 3_590 < seen["chronolake_clock_drift_seconds",] < 3_610
    assert seen["chronolake_commit_wait_seconds_total",] > 0


def test_a_transaction_left_open_shows_as_xmin_age(server: ServerProcess) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        make_namespace(server, "shop")
        make_namespace(server, "bakery")
        assert figures(server)["chronolake_xmin_age_transactions",] >= 2


def test_a_worker_whose_interval_is_0_is_off() -> None:
    everywhere = [worker.name for worker in registry.WORKERS if worker.setting is None]
    intervals = {worker.setting: 0.0 for worker in registry.WORKERS if worker.setting is not None}
    settings = msgspec.structs.replace(Settings(), **intervals)
    assert [worker.name for worker in registry.WORKERS if worker.is_on(settings)] == everywhere


@pytest.mark.parametrize("worker", [worker.name for worker in registry.WORKERS])
def test_a_worker_shows_its_failures_and_is_in_the_reference(shared_server: ServerProcess, worker: str) -> None:
    assert figures(shared_server)["chronolake_worker_failures_total", worker] == 0
    assert f"| {worker} | " in (markdown.ROOT / "docs/reference/settings.md").read_text("utf-8")
