"""``chronolake sweep``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.sweeps import GRACE_SECONDS_MAX, Swept


def sweep(
    table: options.TableArgument,
    grace: Annotated[
        int | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            min=0,
            max=GRACE_SECONDS_MAX,
            help="How long ago the last deletion of an instant must have been reported. Unless given, as the "
            "table's property deletions.grace-seconds says, else 900, and never less than a lease.",
            show_default=False,
        ),
    ] = None,
    storage: options.StorageOption = None,
) -> None:
    """Look for files once more that were deleted, for a task may finish one late; delete those, and record it.

    It may be run at any time, and again: what was found is looked at once more after another while.
    """
    with context.client(storage_options=options.storage(storage)) as client:
        try:
            swept = client.table(table).sweep(grace_seconds=grace)
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(swept, lambda console: _print(console, swept))
    if any(one.failure is not None for one in swept.found):
        raise typer.Exit(output.FAILED)


def _print(console: Console, swept: Swept) -> None:
    if swept.found:
        rows = (
            (one.path, one.requested_time, "deleted" if one.failure is None else f"not deleted: {one.failure}")
            for one in swept.found
        )
        output.print_table(console, output.table_of(("file~", "instant", "outcome~"), rows))
    console.print(
        f"{swept.table}: {output.count(swept.instants, 'instant')} swept, {len(swept.found):,} of "
        f"{output.count(swept.names, 'deleted file')} there again",
        soft_wrap=True,
        markup=False,
    )
