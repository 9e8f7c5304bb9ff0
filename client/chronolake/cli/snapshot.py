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
            help="What had completed at this time (instant digits, or ISO 8601 in UTC; earliest, latest) or "
            "before.",
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="PATH", help="Only this partition path.")
    ] = None,
    where: filters.WhereOption = None,
) -> None:
    """Show the live file slices: what a reader reads."""
    with context.client() as client:
        found, which = filters.snapshot(client.table(table), where, as_of, partition)
    output.show(found, lambda console: _print_snapshot(console, found, which))


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
    """Show what completed in a range of completion times: instants and file groups.

    A TIME is an instant's digits (yyyyMMddHHmmssSSS), an ISO 8601 date or time in UTC, earliest (the first time
    that the table serves) or latest (its last completion).
    """
    with context.client() as client:
        found = client.table(table).changes(from_, to)
    output.show(found, lambda console: _print_changes(console, found))


def _print_snapshot(console: Console, found: Snapshot, which: str) -> None:
    if found.as_of is None:
        console.print(f"{found.table}: nothing has completed", soft_wrap=True)
        return
    columns = ("partition~", "file group~", "base instant", "log files#", "bytes#", "records#")
    rows = (
        (
            one.partition_path,
            one.file_id,
            one.base_instant_time,
            len(one.log_files),
            _bytes(one),
            _records(one),
        )
        for one in found.slices
    )
    output.print_table(console, output.table_of(columns, rows))
    size_bytes = sum(_bytes(one) for one in found.slices)
    records = sum(_records(one) for one in found.slices)
    console.print(
        f"{found.table} as of {found.as_of} ({output.utc(found.as_of)} UTC): "
        f"{output.count(len(found.slices), 'file slice')}{which}, {output.count(size_bytes, 'byte')}, "
        f"{output.count(records, 'record')} in files",
        soft_wrap=True,
        markup=False,
    )


def _print_changes(console: Console, found: Changes) -> None:
    times = (
        (one.requested_time, one.completion_time, output.utc(one.completion_time)) for one in found.instants
    )
    output.print_table(console, output.table_of(("requested", "completed", "completed (UTC)"), times))
    rows = (
        (one.partition_path, one.file_id, _slice_time(one.before), _slice_time(one.after))
        for one in found.file_groups
    )
    output.print_table(
        console, output.table_of(("partition~", "file group~", "slice before", "slice after"), rows)
    )
    console.print(
        f"{found.table}: completed in ({found.from_ or 'the beginning'}, {found.to or 'now'}]", soft_wrap=True
    )


def _slice_time(one: FileSlice | None) -> str | None:
    return None if one is None else one.base_instant_time


def _bytes(one: FileSlice) -> int:
    base = one.base_file.size_bytes if one.base_file else 0
    return base + sum(log.size_bytes for log in one.log_files)


def _records(one: FileSlice) -> int:
    base = one.base_file.records if one.base_file else 0
    return base + sum(log.records for log in one.log_files)
