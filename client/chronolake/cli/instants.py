"""``chronolake instant`` and ``chronolake rollback``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.instants import Instant

_Time = Annotated[
    str,
    typer.Argument(
        metavar="TIME",
        help="The instant's requested time, in digits.",
        callback=options.instant_time,
        show_default=False,
    ),
]


def instant(table: options.TableArgument, requested_time: _Time) -> None:
    """Show one instant: who wrote it, how it stands, until when its lease runs."""
    with context.client() as client:
        found = client.table(table).instant(requested_time)
    output.show(found, lambda console: _print(console, found))


def rollback(
    table: options.TableArgument,
    requested_time: _Time,
    writer: Annotated[
        str | None,
        typer.Option(
            "--writer",
            metavar="NAME",
            help="In whose name; user@host:pid unless given. The instant's own writer may roll it back at any "
            "time, another once its lease has ended.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever reads the log.")] = "",
) -> None:
    """Roll back a pending instant: nothing that it wrote will be seen."""
    with context.client() as client:
        found = client.table(table).rollback(requested_time, reason, writer=writer)
    output.show(found, lambda console: _print(console, found))


def _print(console: Console, found: Instant) -> None:
    lease_ends = None if found.lease_expires_at is None else f"{found.lease_expires_at:%Y-%m-%d %H:%M:%S} UTC"
    pairs: list[tuple[str, object]] = [
        ("table", found.table),
        ("requested", _time(found.requested_time)),
        ("completed", _time(found.completion_time)),
        ("duration", output.seconds_between(found.requested_time, found.completion_time)),
        ("state", found.state),
        ("action", found.action),
        ("operation", found.operation),
        ("writer", found.writer),
        ("lease", f"{found.lease_seconds:,} s"),
        ("lease ends", lease_ends),
        ("rolled back", found.rollback_reason),
        ("metadata", found.extra_metadata),
        ("version", found.version),
    ]
    if (summary := found.summary) is not None:
        pairs += [(name.replace("_", " "), getattr(summary, name)) for name in summary.__struct_fields__]
    output.print_table(console, output.pairs_of(pairs))


def _time(time: str | None) -> str:
    return "-" if time is None else f"{time}  {output.utc(time)} UTC"
