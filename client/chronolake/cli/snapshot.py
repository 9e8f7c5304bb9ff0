"""``chronolake snapshot`` and ``chronolake changes``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, filters, options, output
from chronolake_model.files import Changes, FileSlice, Snapshot


def snapshot(
    table: options.TableArgument,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            callback=options.read_time,
            help=(
                "Instants that had completed at this time (instant digits, or ISO 8601 in UTC; earliest, "
                "latest)."
            ),
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="PATH", help="Only this partition path.")
    ] = None,
    where: filters.WhereOption = None,
) -> None:
    """Show the live file slices, which a reader reads."""
    with context.client() as client:
        live, which = filters.snapshot(client.table(table), where, as_of, partition)
    output.show(live, lambda console: _print_snapshot(console, live, which, as_of))


def changes(
    table: options.TableArgument,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", callback=options.read_time, help="Completed after this time."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", callback=options.read_time, help="Completed at this time or before."
        ),
    ] = None,
) -> None:
    """Show the instants that completed in a range of times, and the file groups that they changed.

    A TIME is an instant's digits (yyyyMMddHHmmssSSS), an ISO 8601 date or time in UTC, earliest (the first time
    as of which the table can be read) or latest (its last completion).
    """
    with context.client() as client:
        changed = client.table(table).changes(from_, to)
    output.show(changed, lambda console: _print_changes(console, changed))


def _print_snapshot(console: Console, snapshot: Snapshot, which: str, as_of: str | None) -> None:
    if snapshot.as_of is None:
        console.print(f"{snapshot.table}: {output.nothing_completed(as_of)}", soft_wrap=True)
        return
    columns = ("partition~", "file group~", "base instant", "log files#", "bytes#", "records#")
    rows = (
        (
            file_slice.partition_path,
            file_slice.file_id,
            file_slice.base_instant_time,
            len(file_slice.log_files),
            _bytes(file_slice),
            _records(file_slice),
        )
        for file_slice in snapshot.slices
    )
    output.print_table(console, output.table_of(columns, rows))
    size_bytes = sum(_bytes(file_slice) for file_slice in snapshot.slices)
    records = sum(_records(file_slice) for file_slice in snapshot.slices)
    console.print(
        f"{snapshot.table} as of {snapshot.as_of} ({output.utc(snapshot.as_of)} UTC): "
        f"{output.count(len(snapshot.slices), 'file slice')}{which}, {output.count(size_bytes, 'byte')}, "
        f"{output.count(records, 'record')} in files",
        soft_wrap=True,
        markup=False,
    )


def _print_changes(console: Console, changes: Changes) -> None:
    times = (
        (instant.requested_time, instant.completion_time, output.utc(instant.completion_time))
        for instant in changes.instants
    )
    output.print_table(console, output.table_of(("requested", "completed", "completed (UTC)"), times))
    rows = (
        (group.partition_path, group.file_id, _slice_time(group.before), _slice_time(group.after))
        for group in changes.file_groups
    )
    output.print_table(
        console, output.table_of(("partition~", "file group~", "slice before", "slice after"), rows)
    )
    console.print(
        f"{changes.table}: completed in ({changes.from_ or 'the beginning'}, {changes.to or 'now'}]",
        soft_wrap=True,
    )


def _slice_time(file_slice: FileSlice | None) -> str | None:
    return None if file_slice is None else file_slice.base_instant_time


def _bytes(file_slice: FileSlice) -> int:
    base = file_slice.base_file.size_bytes if file_slice.base_file else 0
    return base + sum(log.size_bytes for log in file_slice.log_files)


def _records(file_slice: FileSlice) -> int:
    base = file_slice.base_file.records if file_slice.base_file else 0
    return base + sum(log.records for log in file_slice.log_files)
