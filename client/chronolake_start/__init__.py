"""The entry points of the commands: light, so that ``--version`` does not import a whole program."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from typing import NoReturn


def client() -> NoReturn:
    """Run ``chronolake``."""
    _start("chronolake", "chronolake.cli.main")


def server() -> NoReturn:
    """Run ``chronolake-metastore``."""
    _start("chronolake-metastore", "chronolake_metastore.cli.main")


def _start(command: str, module: str) -> NoReturn:
    if sys.argv[1:] == ["--version"]:
        print(f"{command} {importlib.metadata.version('chronolake')}")
        sys.exit()
    sys.exit(importlib.import_module(module).main())
