"""``chronolake markers``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.markers import Marker


def markers(
    table: options.TableArgument,
    requested_time: options.TimeArgument,
    unpublished: Annotated[
        bool,
        typer.Option(
            "--unpublished",
            help="Only markers of files that the instant has not published. Failed or repeated attempts of "
            "tasks may have left them.",
        ),
    ] = False,
) -> None:
    """List the markers of an instant, by path: the data files that it may have written."""
    with context.client() as client:
        listed = list(client.table(table).markers(requested_time, unpublished=unpublished))
    document = {"table": table, "requested_time": requested_time, "markers": listed}
    output.show(document, lambda console: _print(console, listed))


def _print(console: Console, markers: list[Marker]) -> None:
    rows = ((marker.path, marker.kind) for marker in markers)
    output.print_table(console, output.table_of(("data file~", "kind"), rows))
