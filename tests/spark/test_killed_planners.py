"""A server that plans services is killed before its answer: each file group is in one plan then."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableService, TableType
from chronolake_spark import services
from chronolake_spark.services.running import RunOptions
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.server import dying_server, stored
from tests.server.rest import keyed, new_key
from tests.spark.test_services import SCHEMA, assert_no_orphans, digest, write_history

ROUNDS = [
    ("services/plan", {"force": True, "details": {"hoodie.log.compaction.blocks.threshold": "2"}}),
    ("cleans", {"retain_commits": 1, "execute": False}),
]


@pytest.mark.parametrize(("path", "body"), ROUNDS, ids=["services", "clean"])
@pytest.mark.parametrize("point", dying_server.PLANNING)
@pytest.mark.slow
def test_a_request_to_plan_that_is_sent_again_after_the_server_was_killed_plans_each_file_group_once(
    new_server: Callable[..., ServerProcess],
    dsn: str,
    store: Store,
    tmp_path: Path,
    point: str,
    path: str,
    body: dict[str, object],
) -> None:
    server = new_server(dsn)
    with chronolake.connect(server.url, storage_options=store.options) as client:
        client.create_namespace("killed")
        table = client.create_table(
            "killed.table",
            base_path=store.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            ordering_field="ts",
            type=TableType.MERGE_ON_READ,
            index=BucketIndex(IndexType.SIMPLE),
            properties=stored.public_options(store) | {"hudi.publish": "false"},
        )
        write_history(table)
        services.compact(
            table, table.services.plan(TableService.COMPACTION, force=True).instants[0].requested_time
        )
        write_history(table)
        before = digest(table)
        doomed = ServerProcess(
            dsn, tmp_path / "doomed.log", program=("-m", "tests.server.dying_server", point)
        ).start()
        request = {"writer": "w", **body}
        key = keyed(new_key())
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{doomed.url}/v1/tables/{table.name}/{path}", json=request, headers=key, timeout=60)
        doomed.wait_killed()
        lost = {plan.requested_time for plan in table.instants(pending=True)}
        assert bool(lost) is (point == "recorded")

        answer = httpx.post(f"{server.url}/v1/tables/{table.name}/{path}", json=request, headers=key)
        assert answer.status_code == 201, answer.text
        plans = list(table.instants(pending=True))
        assert plans
        assert {plan.requested_time for plan in plans} >= lost
        planned = collections.Counter(
            group for plan in plans for group in table.planned_file_groups(plan.requested_time)
        )
        assert set(planned.values()) <= {1}

        result = services.run(client, RunOptions(once=True))
        assert result.failures == 0
        assert not list(table.instants(pending=True))
        assert digest(table) == before
        assert_no_orphans(table)
