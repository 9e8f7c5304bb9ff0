"""``chronolake timeline`` and ``chronolake time``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.instants import Instant, WriteSummary
from chronolake_model.vocabulary import Action, Direction, State

_WIDTH_FOR_UTC = 150
_COLUMNS = ("completed", "action", "operation", "state", "writer", "files#", "records#", "duration#")


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
    wide = console.width >= _WIDTH_FOR_UTC
    columns = ("requested", *(("requested (UTC)",) if wide else ()), *_COLUMNS)
    console.print(output.table_of(columns, (_row(one, wide) for one in instants)))
    if len(instants) == limit:
        console.print(f"The newest {limit}; --limit shows more.")


def _row(instant: Instant, wide: bool) -> tuple[object, ...]:
    summary = instant.summary or WriteSummary()
    counted = instant.summary is not None
    return (
        instant.requested_time,
        *((output.utc(instant.requested_time),) if wide else ()),
        instant.completion_time,
        instant.action,
        instant.operation,
        instant.state,
        instant.writer,
        summary.files if counted else None,
        summary.records if counted else None,
        output.seconds_between(instant.requested_time, instant.completion_time),
    )
