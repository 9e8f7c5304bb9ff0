"""``chronolake timeline`` and ``chronolake time``."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from chronolake import Timeline
from chronolake._timeline_filter import PENDING
from chronolake.cli import context, options, output
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, Operation, State

# The columns that are left out on a narrow screen, in this order. Completion times come last, because reads
# as of a time need them.
_LEFT_OUT_FIRST = (
    *("requested (UTC)", "records", "operation", "duration"),
    *("files", "target", "lease", "writer", "completed"),
)


class By(enum.StrEnum):
    """The time of an instant that orders the list."""

    REQUESTED = "requested"
    COMPLETION = "completion"


def timeline(  # noqa: PLR0913, PLR0917  # one option per filter of the timeline
    table: options.TableArgument,
    state: Annotated[list[State] | None, typer.Option("--state", help="May be repeated.")] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="The same as --state requested --state inflight.")
    ] = False,
    action: Annotated[list[Action] | None, typer.Option("--action", help="May be repeated.")] = None,
    rollbacks: Annotated[bool, typer.Option("--rollbacks", help="The same as --action rollback.")] = False,
    operation: Annotated[list[Operation] | None, typer.Option("--operation", help="May be repeated.")] = None,
    writer: Annotated[
        str | None, typer.Option("--writer", metavar="NAME", help="Only instants of this writer.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", callback=options.moment, help="Requested after this time."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", callback=options.moment, help="Requested at this time or before."
        ),
    ] = None,
    completed_since: Annotated[
        str | None,
        typer.Option(
            "--completed-since", metavar="TIME", callback=options.moment, help="Completed after this time."
        ),
    ] = None,
    completed_until: Annotated[
        str | None,
        typer.Option(
            "--completed-until",
            metavar="TIME",
            callback=options.moment,
            help="Completed at this time or before.",
        ),
    ] = None,
    active_only: Annotated[
        bool, typer.Option("--active-only", help="Without the instants that are in the archive of the log.")
    ] = False,
    by: Annotated[
        By,
        typer.Option("--by", help="The time that orders the list. completion lists completed instants only."),
    ] = By.REQUESTED,
    first: Annotated[bool, typer.Option("--first", help="Show the oldest match only.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Show the newest match only.")] = False,
    nth: Annotated[
        int | None,
        typer.Option(
            "--nth", min=0, max=1_000_000, help="Show one match only: 0 is the oldest, 1 the second oldest."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show this many of the newest matches.")] = 20,
    reverse: Annotated[bool, typer.Option("--reverse", help="Show the oldest first.")] = False,
) -> None:
    """Show a table's timeline, newest first.

    A TIME is an instant's digits (yyyyMMddHHmmssSSS) or an ISO 8601 date or time in UTC.
    """
    fetch_one = _fetch_one_by(first, last, nth)
    with context.client() as client:
        selected = client.table(table).timeline.where(
            state=[*(state or ()), *(PENDING if pending else ())],
            action=[*(action or ()), *([Action.ROLLBACK] if rollbacks else ())],
            operation=operation or (),
            writer=writer,
        )
        if active_only:
            selected = selected.active()
        selected = _between(selected.by_completion_time(), completed_since, completed_until)
        selected = _between(selected.by_requested_time(), since, until)
        if by is By.COMPLETION:
            selected = selected.by_completion_time()
        if fetch_one is None:
            instants = list(selected.reverse().take(limit))
        else:
            instants = [instant for instant in (fetch_one(selected),) if instant is not None]
    if reverse:
        instants.reverse()
    cut_at = limit if fetch_one is None and len(instants) == limit else None
    output.show({"instants": instants}, lambda console: _print_timeline(console, instants, cut_at))


def time() -> None:
    """Show the server's time as an interval that contains the true time."""
    with context.client() as client:
        interval = client.time()
    pairs = (
        ("earliest", f"{interval.earliest}  {output.utc(interval.earliest)} UTC"),
        ("latest", f"{interval.latest}  {output.utc(interval.latest)} UTC"),
    )
    output.show(interval, lambda console: output.print_table(console, output.pairs_of(pairs)))


def _fetch_one_by(first: bool, last: bool, nth: int | None) -> Callable[[Timeline], Instant | None] | None:
    """The function that fetches a single instant; None if none of the options is given."""
    if first + last + (nth is not None) > 1:
        raise typer.BadParameter("give only one of these options", param_hint="--first, --last, --nth")
    if last:
        return Timeline.last
    if first or nth is not None:
        return lambda timeline: timeline.nth(nth or 0)
    return None


def _between(timeline: Timeline, after: str | None, to: str | None) -> Timeline:
    if after is not None:
        timeline = timeline.after(after)
    return timeline if to is None else timeline.before_or_on(to)


def _print_timeline(console: Console, instants: list[Instant], cut_at: int | None) -> None:
    output.print_table(console, _fitting(console, instants))
    if cut_at is not None:
        console.print(f"These are the newest {cut_at}; --limit shows more.")


def _fitting(console: Console, instants: list[Instant]) -> Table:
    """The timeline with as many columns as fit on the screen."""
    cells = dict(_CELLS)
    if any(instant.lease_expires_at for instant in instants):
        now = datetime.now(UTC)
        cells["lease#"] = lambda instant: _lease(instant, now)
    if any(instant.target for instant in instants):
        cells["target"] = lambda instant: instant.target
    rows = ([cell(instant) for cell in cells.values()] for instant in instants)
    return output.fitting_table(console, cells, rows, _LEFT_OUT_FIRST)


def _lease(instant: Instant, now: datetime) -> str | None:
    """The remaining time of a pending instant's lease."""
    if instant.lease_expires_at is None:
        return None
    seconds = (instant.lease_expires_at - now).total_seconds()
    return f"{seconds:,.0f} s left" if seconds > 0 else "ended"


_CELLS: dict[str, Callable[[Instant], object]] = {
    "requested": lambda instant: instant.requested_time,
    "requested (UTC)": lambda instant: output.utc(instant.requested_time),
    "completed": lambda instant: instant.completion_time,
    "action": lambda instant: instant.action,
    "operation": lambda instant: instant.operation,
    "state": lambda instant: instant.state,
    "writer~": lambda instant: instant.writer,
    "files#": lambda instant: instant.summary.files if instant.summary else None,
    "records#": lambda instant: instant.summary.records if instant.summary else None,
    "duration#": lambda instant: output.seconds_between(instant.requested_time, instant.completion_time),
}
