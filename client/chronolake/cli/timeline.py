"""``chronolake timeline`` and ``chronolake time``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, Direction, State

_WIDTH_FOR_OPERATION = 95
_WIDTH_FOR_COMPLETED = 110
_WIDTH_FOR_UTC = 140


def timeline(
    table: options.TableArgument,
    state: Annotated[list[State] | None, typer.Option("--state", help="May be repeated.")] = None,
    action: Annotated[list[Action] | None, typer.Option("--action", help="May be repeated.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", callback=options.moment, help="Requested after this time."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", callback=options.moment, help="Requested at it or before."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    reverse: Annotated[bool, typer.Option("--reverse", help="Show the oldest of them first.")] = False,
) -> None:
    """Show a table's timeline, newest first.

    A TIME is an instant's digits (yyyyMMddHHmmssSSS) or an ISO 8601 date or time in UTC.
    """
    with context.client() as client:
        newest = client.table(table).instants(
            state=state or (),
            action=action or (),
            requested_from=since,
            requested_to=until,
            direction=Direction.DESCENDING,
            limit=limit,
        )
        found = list(newest)
    if reverse:
        found.reverse()
    output.show({"instants": found}, lambda console: _print_timeline(console, found, limit))


def time() -> None:
    """Show the server's time as an interval: certainly not before, certainly not after."""
    with context.client() as client:
        interval = client.time()
    pairs = (
        ("earliest", f"{interval.earliest}  {output.utc(interval.earliest)} UTC"),
        ("latest", f"{interval.latest}  {output.utc(interval.latest)} UTC"),
    )
    output.show(interval, lambda console: console.print(output.pairs_of(pairs)))


def _print_timeline(console: Console, instants: list[Instant], limit: int) -> None:
    # Requested time and duration say when an instant completed: a narrow screen does without that column.
    left_out = {
        *(("operation",) if console.width < _WIDTH_FOR_OPERATION else ()),
        *(("completed",) if console.width < _WIDTH_FOR_COMPLETED else ()),
        *(("requested (UTC)",) if console.width < _WIDTH_FOR_UTC else ()),
    }
    shown = [name for name in _CELLS if name not in left_out]
    rows = ([_CELLS[name](one) for name in shown] for one in instants)
    console.print(output.table_of(shown, rows))
    if len(instants) == limit:
        console.print(f"The newest {limit}; --limit shows more.")


_CELLS: dict[str, Callable[[Instant], object]] = {
    "requested": lambda one: one.requested_time,
    "requested (UTC)": lambda one: output.utc(one.requested_time),
    "completed": lambda one: one.completion_time,
    "action": lambda one: one.action,
    "operation": lambda one: one.operation,
    "state": lambda one: one.state,
    "writer~": lambda one: one.writer,
    "files#": lambda one: one.summary.files if one.summary else None,
    "records#": lambda one: one.summary.records if one.summary else None,
    "duration#": lambda one: output.seconds_between(one.requested_time, one.completion_time),
}
