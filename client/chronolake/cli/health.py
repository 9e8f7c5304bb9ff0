"""``chronolake health``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer
from rich.console import Console

from chronolake.cli import context, output
from chronolake_model.health import TableHealth

_COLUMNS: Final = ("table", "publication", "lag", "log files#", "pending plans#", "why not further~")


def health(
    problems: Annotated[
        bool, typer.Option("--problems", help="List only tables that are not published as they are.")
    ] = False,
) -> None:
    """List the state of all tables: publication for Hudi's readers, lag, log files, pending plans.

    The first line says if the server only reads: then it publishes nothing. The exit code is 1 if it only
    reads, and with --problems also if a table is listed.
    """
    with context.client() as client:
        refusal = client.refusal()
        tables = [table for table in client.health() if table.problem or not problems]

    def render(console: Console) -> None:
        if refusal is not None:
            console.print(f"The server only reads: {refusal}", markup=False, soft_wrap=True)
        output.print_table(console, output.table_of(_COLUMNS, _rows(tables)))

    output.show({"refusal": refusal, "tables": tables}, render)
    if refusal is not None or (problems and tables):
        raise typer.Exit(output.FAILED)


def _rows(tables: list[TableHealth]) -> Iterator[tuple[object, ...]]:
    for table in tables:
        publication = table.publication
        lag = f"{publication.lag_seconds:.0f} s" if publication.lag_seconds else ""
        why = table.problem or publication.reason or ""
        yield table.table, publication.state, lag, table.log_files, table.pending_plans, why
