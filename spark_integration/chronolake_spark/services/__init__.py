"""Table services in Arrow, without Spark: compaction, log compaction and clustering of planned file groups.

``compact``, ``log_compact`` and ``cluster`` execute one plan. ``tasks.run`` executes one file group of a plan,
in any process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronolake_spark.services.executing import cluster, compact, execute, log_compact

__all__ = ["cluster", "compact", "execute", "log_compact"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.executing"), name)
