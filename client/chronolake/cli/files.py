"""``chronolake files``, ``chronolake partitions`` and ``chronolake file-group``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, filters, options, output
from chronolake_model.files import DataFile, FileSlice, Snapshot
from chronolake_model.slices import FileGroupHistory, Partitions
from chronolake_model.vocabulary import View

PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="PATH", help="Only this partition path.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        callback=options.read_time,
        help="What had happened at this time (instant digits, or ISO 8601 in UTC; earliest, latest) or before.",
    ),
]


def files(
    table: options.TableArgument,
    partition: PartitionOption = None,
    view: Annotated[
        View,
        typer.Option(
            "--view",
            help="merged: what a reader reads; latest: the newest slices, those too that pending compactions "
            "opened; read_optimised: the latest base files.",
        ),
    ] = View.MERGED,
    as_of: AsOfOption = None,
    where: filters.WhereOption = None,
) -> None:
    """List the data files of the live file slices: each is one line, and sizes are in bytes."""
    if where is not None and view is not View.MERGED:
        raise typer.BadParameter("it goes with the merged view only", param_hint="--where")
    with context.client() as client:
        lake_table = client.table(table)
        if view is View.MERGED:
            found, which = filters.snapshot(lake_table, where, as_of, partition)
        else:
            found, which = lake_table.snapshot(as_of, partition, view=view), ""
    output.show(found, lambda console: _print_files(console, found, which))


def partitions(table: options.TableArgument, as_of: AsOfOption = None) -> None:
    """List the partitions with their file groups, files, bytes and records of base files."""
    with context.client() as client:
        found = client.table(table).partitions(as_of)
    output.show(found, lambda console: _print_partitions(console, found))


def file_group(
    table: options.TableArgument,
    file_id: Annotated[str, typer.Argument(metavar="FILE_ID", help="The file group.", show_default=False)],
    partition: Annotated[str, typer.Option("--partition", metavar="PATH", help="Its partition path.")] = "",
    as_of: AsOfOption = None,
) -> None:
    """Show all slices that a file group has and had, the newest last, and what replaced it."""
    with context.client() as client:
        found = client.table(table).file_group(file_id, partition, as_of)
    output.show(found, lambda console: _print_file_group(console, found))


def _print_files(console: Console, found: Snapshot, which: str) -> None:
    if found.as_of is None:
        console.print(f"{found.table}: nothing has completed", soft_wrap=True)
        return
    columns = ("slice", "file~", "completed", "bytes#", "records#")
    rows = [row for one in found.slices for row in _rows_of(one)]
    output.print_table(console, output.table_of(columns, rows))
    count = sum(len(_files_of(one)) for one in found.slices)
    console.print(
        f"{found.table} as of {found.as_of} ({output.utc(found.as_of)} UTC): "
        f"{output.count(count, 'file')} of {output.count(len(found.slices), 'file slice')}{which}",
        soft_wrap=True,
        markup=False,
    )


def _rows_of(one: FileSlice) -> Iterator[tuple[object, ...]]:
    """A line for each file; one for the slice when a pending compaction opened it and nothing came since."""
    for file in _files_of(one):
        yield one.base_instant_time, file.path, file.completion_time, file.size_bytes, file.records
    if not _files_of(one):
        yield one.base_instant_time, f"({one.file_id}: no files yet)", None, 0, 0


def _files_of(one: FileSlice) -> list[DataFile]:
    return [*([] if one.base_file is None else [one.base_file]), *one.log_files]


def _print_partitions(console: Console, found: Partitions) -> None:
    if found.as_of is None:
        console.print(f"{found.table}: nothing has completed", soft_wrap=True)
        return
    columns = ("partition~", "file groups#", "files#", "bytes#", "records#")
    rows = (
        (one.partition_path, one.file_groups, one.files, one.size_bytes, one.records)
        for one in found.partitions
    )
    output.print_table(console, output.table_of(columns, rows))
    console.print(
        f"{found.table} as of {found.as_of} ({output.utc(found.as_of)} UTC): "
        f"{output.count(len(found.partitions), 'partition')}",
        soft_wrap=True,
    )


def _print_file_group(console: Console, found: FileGroupHistory) -> None:
    name = f"{found.partition_path}/{found.file_id}" if found.partition_path else found.file_id
    if not found.slices:
        console.print(f"{found.table}: there is no file group {name}", soft_wrap=True)
        return
    columns = ("base instant", "base file~", "log files#", "bytes#", "superseded", "pending")
    rows = (
        (
            one.base_instant_time,
            None if one.base_file is None else one.base_file.path.rpartition("/")[2],
            len(one.log_files),
            sum(file.size_bytes for file in (one.base_file, *one.log_files) if file is not None),
            one.superseded_at,
            one.pending,
        )
        for one in found.slices
    )
    output.print_table(console, output.table_of(columns, rows))
    gone = found.replaced
    end = "" if gone is None else f"; replaced by {gone.requested_time} at {gone.completion_time}"
    slices = output.count(len(found.slices), "file slice")
    console.print(f"{found.table}, {name}: {slices}{end}", soft_wrap=True)
