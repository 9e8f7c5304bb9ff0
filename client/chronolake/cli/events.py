"""``chronolake events``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

import chronolake
from chronolake.cli import context, options, output
from chronolake_model.events import LoggedEvent

LIMIT_DEFAULT = 100
"""The default number of events on a page."""

_FOLLOW_RETRY_SECONDS = 60.0
_INTERRUPTED = 130


def events(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE.TABLE]",
            help="Show the events of this table. The default is all tables.",
            callback=options.optional_table_name,
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="CURSOR", help="Start after this event. The default is the beginning."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new events as they come, until interrupted.")
    ] = False,
    from_now: Annotated[
        bool, typer.Option("--from-now", help="With --follow: show only events from now on.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help=f"Show this many events. The default is {LIMIT_DEFAULT}; with --follow there is no limit.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the log: every change, oldest first.

    With --follow --json each event is a JSON document on its own line. A cursor from the events of one table is
    not valid for the events of all tables.
    """
    if from_now and (after is not None or not follow):
        raise typer.BadParameter("use it with --follow and without --after", param_hint="--from-now")
    if follow:
        _follow(table, after, limit, from_now=from_now)
        return
    most = limit or LIMIT_DEFAULT
    with context.client() as client:
        read = list(client.events(after, table, limit=most + 1))
    page, caught_up = read[:most], len(read) <= most
    cursor = page[-1].cursor if page else after
    document = {"events": page, "cursor": cursor, "caught_up": caught_up}
    output.show(document, lambda console: _print_page(console, page, caught_up))


def _follow(table: str | None, after: str | None, limit: int | None, *, from_now: bool) -> None:
    try:
        with context.client(retry_seconds=_FOLLOW_RETRY_SECONDS) as client:
            after = client.end_of_log(table) if from_now else after
            _show_each(islice(_following(client, table, after), limit))
    except KeyboardInterrupt:
        # Ctrl-C is the usual way to stop following, so it is not an error.
        raise typer.Exit(_INTERRUPTED) from None


def _following(client: chronolake.Client, table: str | None, after: str | None) -> Iterator[LoggedEvent]:
    yield from client.follow(after, table)


def _show_each(following: Iterator[LoggedEvent]) -> None:
    if context.wants_json():
        for event in following:
            output.show_line(event)
        return
    console = output.console()
    for event in following:
        console.print(_line(event), soft_wrap=True, markup=False)


def _line(event: LoggedEvent) -> str:
    where = f"{event.table or '-'} {event.version}"
    return f"{output.utc(event.time)}  {event.type:<18} {event.instant or '-':<17}  {where}  {event.actor}"


def _print_page(console: Console, page: list[LoggedEvent], caught_up: bool) -> None:
    columns = ("time (UTC)", "type", "instant", "table~", "version#", "actor~")
    rows = (
        (output.utc(event.time), event.type, event.instant, event.table, event.version, event.actor)
        for event in page
    )
    output.print_table(console, output.fitting_table(console, columns, rows, ("version", "actor")))
    if page:
        outlook = "No more events now" if caught_up else "There are more events"
        console.print(f"{outlook}; continue with --after {page[-1].cursor}", soft_wrap=True)
