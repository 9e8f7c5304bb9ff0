"""``chronolake orphans``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.orphans import Orphan, OrphanReason, Orphans

_MEANINGS = {
    OrphanReason.ROLLED_BACK: "of an instant that was rolled back",
    OrphanReason.NOT_NAMED: "of a completed instant that did not publish it",
    OrphanReason.UNKNOWN_INSTANT: "of an unknown instant",
    OrphanReason.DROPPED_TABLE: "of a dropped table: never deleted",
    OrphanReason.PENDING: "of a pending instant: not an orphan yet",
    OrphanReason.LEASE_ENDED: "of a pending instant whose lease has ended",
    OrphanReason.NOT_A_DATA_FILE: "not a data file",
}


def orphans(
    table: options.TableArgument,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="After the report, delete files that can never be published: files of rolled-back instants, "
            "and files that their completed instant did not publish.",
        ),
    ] = False,
    unknown_instants: Annotated[
        bool,
        typer.Option(
            "--unknown-instants",
            help="With --delete: also delete files of unknown instants. They may belong to another table in "
            "the same folder.",
        ),
    ] = False,
    storage: options.StorageOption = None,
    yes: options.YesOption = False,
) -> None:
    """List the files in a table's storage that no completed instant has published, with the reason.

    Sizes are in bytes.
    """
    if unknown_instants and not delete:
        raise typer.BadParameter("it needs --delete", param_hint="--unknown-instants")
    with context.client(storage_options=options.storage(storage)) as client:
        lake_table = client.table(table)
        try:
            report = lake_table.orphans()
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
        if not delete:
            output.show(report, lambda console: _print(console, report))
            return
        if not context.wants_json():
            _print(output.console(), report)
        options.confirm(f"Delete the orphans of {table}?", yes)
        deleted = lake_table.delete_orphans(report, unknown_instants=unknown_instants)
    output.show(deleted, lambda console: _print_deletions(console, deleted))
    if any(orphan.failure is not None for orphan in deleted.orphans):
        raise typer.Exit(output.FAILED)


def _print(console: Console, report: Orphans) -> None:
    if report.orphans:
        rows = ((orphan.path, orphan.size_bytes, orphan.reason, _marked(orphan)) for orphan in report.orphans)
        output.print_table(console, output.table_of(("file~", "bytes#", "reason", "marker"), rows))
        totals = ((_MEANINGS[total.reason], total.files, total.size_bytes) for total in report.totals)
        output.print_table(console, output.table_of(("total", "files#", "bytes#"), totals))
    as_of = "nothing has completed" if report.as_of is None else f"as of {report.as_of}"
    console.print(
        f"{report.table} {as_of}: {len(report.orphans):,} of {output.count(report.files_listed, 'file')} "
        "not published",
        soft_wrap=True,
        markup=False,
    )


def _print_deletions(console: Console, report: Orphans) -> None:
    rows = [
        (orphan.path, orphan.size_bytes, "deleted" if orphan.deleted else f"not deleted: {orphan.failure}")
        for orphan in report.orphans
        if orphan.deleted or orphan.failure is not None
    ]
    if rows:
        output.print_table(console, output.table_of(("file~", "bytes#", "outcome~"), rows))
    deleted = sum(orphan.deleted for orphan in report.orphans)
    console.print(
        f"{report.table}: {output.count(deleted, 'file')} deleted, {len(rows) - deleted:,} failed",
        soft_wrap=True,
    )


def _marked(orphan: Orphan) -> str | None:
    return None if orphan.has_marker is None else "yes" if orphan.has_marker else "no"
