"""The table of background workers: the start of a server, its metrics and its reference follow from it."""

from __future__ import annotations

import msgspec
import pytest

from chronolake_metastore.settings import Settings
from chronolake_metastore.workers import registry
from tests.docs import markdown
from tests.fix_server import ServerProcess
from tests.server.test_metrics import figures


def test_a_worker_whose_interval_is_0_is_off() -> None:
    everywhere = [worker.name for worker in registry.WORKERS if worker.setting is None]
    intervals = {worker.setting: 0.0 for worker in registry.WORKERS if worker.setting is not None}
    settings = msgspec.structs.replace(Settings(), **intervals)
    assert [worker.name for worker in registry.WORKERS if worker.is_on(settings)] == everywhere


@pytest.mark.parametrize("worker", [worker.name for worker in registry.WORKERS])
def test_a_worker_shows_its_failures_and_is_in_the_reference(shared_server: ServerProcess, worker: str) -> None:
    assert figures(shared_server)["chronolake_worker_failures_total", worker] == 0
    assert f"| {worker} | " in (markdown.ROOT / "docs/reference/settings.md").read_text("utf-8")
