"""``chronolake cut``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.cuts import Cut


def cut(
    namespace: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE]", help="The namespace; all if left out.", callback=options.any_namespace
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TABLE", help="Only this table, namespace.table. May be repeated."),
    ] = None,
) -> None:
    """Show the states of many tables at one position of the log.

    With --json it is a text that --as-of and the other options for times take, as in
    chronolake head shop.orders --as-of "$(chronolake cut shop --json)".
    """
    if namespace is not None and table:
        raise typer.BadParameter("give a namespace or --table, not both", param_hint="--table")
    for name in table or []:
        options.table_name(name)
    with context.client() as client:
        taken = client.cut(namespace, tables=table or None)
    output.show(taken, lambda console: _print(console, taken))


def _print(console: Console, cut: Cut) -> None:
    columns = ("table", "as of", "as of (UTC)", "version#", "schema version#")
    rows = (
        (state.table, state.as_of, output.utc(state.as_of), state.version, state.schema_version)
        for state in sorted(cut.tables, key=lambda state: state.table)
    )
    output.print_table(console, output.table_of(columns, rows))
    lag = "" if cut.caught_up else "; an open transaction keeps later events back"
    console.print(
        f"{output.count(len(cut.tables), 'table')} at position {cut.position}{lag}",
        soft_wrap=True,
        markup=False,
    )
