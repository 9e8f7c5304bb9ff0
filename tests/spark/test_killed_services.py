"""Executors of table services are killed at each step; others take their plans, and no file is left over."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

import chronolake
from chronolake import Action
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, State, TableType
from chronolake_spark import services
from chronolake_spark.services.running import RunOptions
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.processes import wait_until
from tests.server import stored
from tests.spark import dying_service
from tests.spark.test_services import SCHEMA, assert_no_orphans, digest, plan, write_history

FAST = {("local", "in_file", Action.COMPACTION), ("local", "after_complete", Action.CLUSTERING)}
CASES = [
    pytest.param(store, point, action, marks=[] if (store, point, action) in FAST else pytest.mark.slow)
    for store in ("local", "s3")
    for point in dying_service.POINTS
    for action in (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
]


@pytest.mark.parametrize(("store", "point", "action"), CASES, indirect=["store"])
def test_the_plan_of_a_killed_executor_is_executed_by_another_and_no_file_is_left(
    new_server: Callable[..., ServerProcess], dsn: str, store: Store, point: str, action: Action
) -> None:
    """#8567, #7546, #7823: a job that died, or its lock, held up all later compactions."""
    server = new_server(dsn, "--reaper-seconds", "0.1", "--publisher-seconds", "0.1")
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
            properties=stored.public_options(store) | ({"hudi.publish": "false"} if store.options else {}),
        )
        write_history(table)
        before = digest(table)
        planned = plan(table, action)
        options = msgspec.json.encode(store.options).decode()
        arguments = [server.url, table.name, planned.requested_time, point, options]
        killed = subprocess.run(
            [sys.executable, "-m", "tests.spark.dying_service", *arguments], check=False, timeout=120
        )
        assert killed.returncode == -signal.SIGKILL

        if point != "after_complete":
            wait_until(lambda: table.instant(planned.requested_time).state is State.REQUESTED)
        result = services.run(client, RunOptions(once=True, plans=False))

        assert (result.completed, result.failures) == (0 if point == "after_complete" else 1, 0)
        assert table.instant(planned.requested_time).state is State.COMPLETED
        assert digest(table) == before
        assert_no_orphans(table)
