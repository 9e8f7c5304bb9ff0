"""``chronolake timeline`` and ``chronolake time``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from chronolake.cli import context, options, output
from chronolake_model.instants import Instant
from chronolake_model.times import MICROS_PER_SECOND, from_datetime, parse_time
from chronolake_model.vocabulary import Action, Direction, State

# What a narrow screen does without, in this order; requested time and duration say when an instant completed.
_LEFT_OUT_FIRST = (
    *("requested (UTC)", "completed", "operation", "records"),
    *("files", "duration", "lease", "writer"),
)


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
        # A lease is measured by the server's clock, which is the one that ends it.
        now = client.time().latest if any(one.lease_expires_at for one in found) else None
    if reverse:
        found.reverse()
    output.show({"instants": found}, lambda console: _print_timeline(console, found, limit, now))


def time() -> None:
    """Show the server's time as an interval: certainly not before, certainly not after."""
    with context.client() as client:
        interval = client.time()
    pairs = (
        ("earliest", f"{interval.earliest}  {output.utc(interval.earliest)} UTC"),
        ("latest", f"{interval.latest}  {output.utc(interval.latest)} UTC"),
    )
    output.show(interval, lambda console: output.print_table(console, output.pairs_of(pairs)))


def _print_timeline(console: Console, instants: list[Instant], limit: int, now: str | None) -> None:
    output.print_table(console, _fitting(console, instants, now))
    if len(instants) == limit:
        console.print(f"The newest {limit}; --limit shows more.")


def _fitting(console: Console, instants: list[Instant], now: str | None) -> Table:
    """The timeline with as many columns as the screen has room for."""
    cells = dict(_CELLS)
    if now is not None:
        cells["lease#"] = lambda one: _lease(one, now)
    table = _table_of(cells, instants)
    for name in _LEFT_OUT_FIRST:
        if output.width_min_of(table) <= console.width:
            break
        cells = {column: cell for column, cell in cells.items() if column.rstrip("#~") != name}
        table = _table_of(cells, instants)
    return table


def _table_of(cells: dict[str, Callable[[Instant], object]], instants: list[Instant]) -> Table:
    return output.table_of(cells, ([cell(one) for cell in cells.values()] for one in instants))


def _lease(one: Instant, now: str) -> str | None:
    """How long a pending instant's lease still runs."""
    if one.lease_expires_at is None:
        return None
    seconds = (from_datetime(one.lease_expires_at) - parse_time(now)) / MICROS_PER_SECOND
    return f"{seconds:,.0f} s left" if seconds > 0 else "ended"


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
