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
            help=(
                "Check files of instants whose last deletion was reported longer ago than this. The default is "
                "the table's property deletions.grace-seconds, else 900, and at least a lease."
            ),
            show_default=False,
        ),
    ] = None,
    storage: options.StorageOption = None,
) -> None:
    """Find and delete late files, which a task wrote again after their deletion, and record it.

    It may run at any time. Instants with late files are checked again after another grace period.
    """
    with context.client(storage_options=options.storage(storage)) as client:
        try:
            swept = client.table(table).sweep(grace_seconds=grace)
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(swept, lambda console: _print(console, swept))
    if any(file.failure is not None for file in swept.late_files):
        raise typer.Exit(output.FAILED)


def _print(console: Console, swept: Swept) -> None:
    if swept.late_files:
        rows = (
            (
                file.path,
                file.requested_time,
                "deleted" if file.failure is None else f"not deleted: {file.failure}",
            )
            for file in swept.late_files
        )
        output.print_table(console, output.table_of(("file~", "instant", "outcome~"), rows))
    console.print(
        f"{swept.table}: {output.count(swept.instants, 'instant')} swept, {len(swept.late_files):,} of "
        f"{output.count(swept.names, 'deleted file')} written again. "
        f"Files of tasks that were killed before they checked their markers: chronolake orphans {swept.table}",
        soft_wrap=True,
        markup=False,
    )
