"""Hatchling's hook: each build, also an editable one, generates the blocking client ``chronolake._sync``."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SyncClientHook(BuildHookInterface[Any]):
    """Runs ``tools/async_to_sync.py``; ``artifacts`` in pyproject.toml takes the files, which git ignores."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files into the source tree, before hatchling collects what it packs."""
        generator = runpy.run_path(str(Path(self.root, "tools/async_to_sync.py")))
        generator["main"]([])
