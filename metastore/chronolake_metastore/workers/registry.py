"""The background workers of a server, in the order of the reference, and their start."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, Final

from chronolake_metastore.settings import Settings
from chronolake_metastore.workers import (
    archive_watch,
    deleter,
    iceberg_expiry,
    iceberg_snapshots,
    publisher_process,
    reaper,
    steady_clock,
    sweeper,
    tail,
)
from chronolake_metastore.workers.identity_watch import IdentityWatch
from chronolake_metastore.workers.worker import Resources, Worker

WORKERS: Final[tuple[Worker, ...]] = (
    reaper.WORKER,
    publisher_process.WORKER,
    deleter.WORKER,
    sweeper.WORKER,
    tail.WORKER,
    steady_clock.WORKER,
    archive_watch.WORKER,
    iceberg_expiry.WORKER,
    iceberg_snapshots.WORKER,
)
assert {worker.setting for worker in WORKERS} <= {None, *Settings.__struct_fields__}
assert len({worker.name for worker in WORKERS}) == len(WORKERS)


def started(resources: Resources, watch: IdentityWatch) -> Iterator[Coroutine[Any, Any, None]]:
    """The runs of all workers that are on; the ``watch`` pauses them while this server may not act."""
    yield watch.run()
    for worker in WORKERS:
        # The figures of each worker begin at 0, so that an alert sees the first failure.
        resources.metrics.worker_failures.labels(worker.name)
        if worker.is_on(resources.settings):
            run = partial(worker.run, resources)
            yield watch.run_while_acting(run) if worker.acts else run()
