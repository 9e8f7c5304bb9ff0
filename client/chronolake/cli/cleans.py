"""``chronolake clean``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output, terminal
from chronolake_model.cleans import RETAIN_COMMITS_DEFAULT, CleanPreview
from chronolake_model.instants import Instant

_SHOWN = 20
"""The number of files that a preview prints."""


RetainCommitsOption = Annotated[
    int | None,
    typer.Option(
        "--retain-commits",
        metavar="N",
        min=1,
        help=(
            "Keep files that were live at the N-th newest completed write or later; the default is "
            f"{RETAIN_COMMITS_DEFAULT}, unless another policy is given."
        ),
    ),
]
RetainHoursOption = Annotated[
    int | None,
    typer.Option("--retain-hours", metavar="H", min=1, help="Keep files that were live in the last H hours."),
]
RetainVersionsOption = Annotated[
    int | None,
    typer.Option(
        "--retain-versions",
        metavar="V",
        min=1,
        help="Keep the newest V file slices of each file group, and no files of replaced file groups.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show the files to delete, 10,000 at most.")]


def clean(
    table: options.TableArgument,
    retain_commits: RetainCommitsOption = None,
    retain_hours: RetainHoursOption = None,
    retain_versions: RetainVersionsOption = None,
    dry_run: DryRunOption = False,
    storage: options.StorageOption = None,
    yes: options.YesOption = False,
) -> None:
    """Delete old files that no reader needs. Afterwards, reads as of earlier times are refused.

    A file is kept if it is live, if a savepoint pins it, if a reader holds it, or if a pending write or plan
    may read it. An interrupted clean is continued.
    """
    if sum(option is not None for option in (retain_commits, retain_hours, retain_versions)) > 1:
        raise typer.BadParameter(
            "give one of --retain-commits, --retain-hours and --retain-versions", param_hint="--retain-…"
        )
    with context.client(storage_options=options.storage(storage)) as client:
        lake_table = client.table(table)
        if dry_run or not yes:
            preview = lake_table.preview_clean(
                retain_commits=retain_commits, retain_hours=retain_hours, retain_versions=retain_versions
            )
            if dry_run:
                output.show(preview, lambda console: _print_preview(console, preview))
                return
            # The preview goes to stderr, because stdout has only the JSON document.
            _print_preview(terminal.console(sys.stderr), preview)
            options.confirm(f"Clean {table}?", yes=False)
        try:
            cleans = lake_table.clean(
                retain_commits=retain_commits, retain_hours=retain_hours, retain_versions=retain_versions
            )
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show({"cleans": cleans}, lambda console: _print(console, table, cleans))


def _print_preview(console: Console, preview: CleanPreview) -> None:
    files = len(preview.files_to_delete)
    for path in preview.files_to_delete[:_SHOWN]:
        console.print(path, soft_wrap=True, markup=False)
    if files > _SHOWN:
        console.print(f"… and {files - _SHOWN:,} more", markup=False)
    further_files = "; later cleans delete more" if preview.has_more else ""
    served = "" if preview.cleaned_before is None else f"; served from {preview.cleaned_before} on"
    console.print(
        f"{preview.table}: {output.count(files, 'file')} ({output.count(preview.size_bytes, 'byte')}) to delete"
        f"{further_files}{served}",
        soft_wrap=True,
        markup=False,
    )


def _print(console: Console, table: str, cleans: list[Instant]) -> None:
    for clean in cleans:
        assert clean.plan is not None
        files = clean.plan.files_to_delete_count
        outcome = f"{output.count(files, 'file')} {'deleted' if clean.completion_time else 'to be deleted'}"
        console.print(
            f"{table} {clean.requested_time}: {outcome}; served from {clean.plan.cleaned_before} on",
            soft_wrap=True,
            markup=False,
        )
    if not cleans:
        console.print(f"{table}: nothing to clean", soft_wrap=True, markup=False)
