"""The entry points of the commands: light, so that ``--version`` does not import a whole program."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType
from typing import NoReturn


def client() -> NoReturn:
    """Run ``chronolake``."""
    # Of the time of a short command, collections during imports take a twentieth.
    gc.set_threshold(100_000)
    _start("chronolake", "chronolake.cli.main")


def server() -> NoReturn:
    """Run ``chronolake-metastore``."""
    _start("chronolake-metastore", "chronolake_metastore.cli.main", extra="server")


def _start(command: str, module: str, *, extra: str = "") -> NoReturn:
    if sys.argv[1:] == ["--version"]:
        import importlib.metadata  # noqa: PLC0415  # slow

        print(f"{command} {importlib.metadata.version('chronolake')}")
        sys.exit()
    # The command line of httpx, which it imports with rich and Pygments where these are installed.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: not to be imported
    sys.exit(_program(command, module, extra).main())


def _program(command: str, module: str, extra: str) -> ModuleType:
    """The module of a program. A plain installation has the program too, and not the packages of its extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if not extra or (exc.name or "").startswith("chronolake"):
            raise
        print(
            f"{command}: the package {exc.name} is not installed; the command needs the extra of "
            f"pip install 'chronolake[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(2)
