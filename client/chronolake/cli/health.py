"""``chronolake health``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from chronolake.cli import context, output
from chronolake_model.health import TableHealth


def health(
    problems: Annotated[
        bool, typer.Option("--problems", help="List only tables that are not published as they are.")
    ] = False,
) -> None:
    """List the state of all tables: publication for Hudi's readers, lag, log files, pending plans."""
    with context.client() as client:
        tables = [table for table in client.health() if table.problem or not problems]
    columns = ("table", "publication", "lag", "log files#", "pending plans#", "why not further~")
    output.show(
        {"tables": tables},
        lambda console: output.print_table(console, output.table_of(columns, _rows(tables))),
    )


def _rows(tables: list[TableHealth]) -> Iterator[tuple[object, ...]]:
    for table in tables:
        publication = table.publication
        lag = f"{publication.lag_seconds:.0f} s" if publication.lag_versions else ""
        why = table.problem or publication.reason or ""
        yield table.table, publication.state, lag, table.log_files, table.pending_plans, why
