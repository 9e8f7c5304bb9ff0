"""Plug-ins of the command line, as another package would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronolake.cli import context, output


def greet(whom: Annotated[str, typer.Argument()]) -> None:
    """Print a greeting."""
    with context.client() as client:
        output.show({"hello": whom, "url": client.url}, lambda console: console.print(f"hello {whom}"))


def late() -> None:
    """Require a package that is not installed."""
    import no_such_package  # type: ignore[import-not-found]  # noqa: F401, PLC0415


def save(path: Annotated[Path, typer.Argument()]) -> None:
    """Write a file."""
    path.write_text("saved")
