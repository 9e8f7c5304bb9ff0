"""Table services in Arrow, without Spark: compaction, log compaction and clustering of planned file groups.

    import chronolake
    from chronolake_spark import services

    with chronolake.connect() as client:
        services.run(client, tables=["shop.orders"], once=True)

``run`` asks the server for plans, takes them under leases and executes them. ``compact``, ``log_compact`` and
``cluster`` execute one plan. ``tasks.run`` executes one file group of a plan, in any process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronolake_spark.services.executing import cluster, compact, execute, log_compact
    from chronolake_spark.services.running import RunOptions, RunResult, run

__all__ = ["RunOptions", "RunResult", "cluster", "compact", "execute", "log_compact", "run"]

_MODULE_OF = {
    "RunOptions": "running",
    "RunResult": "running",
    "cluster": "executing",
    "compact": "executing",
    "execute": "executing",
    "log_compact": "executing",
    "run": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
