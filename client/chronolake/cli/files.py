"""``chronolake files``, ``chronolake partitions`` and ``chronolake file-group``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from chronolake.cli import context, filters, options, output
from chronolake_model.file_names import parse_file_name
from chronolake_model.files import DataFile, FileSlice, Snapshot
from chronolake_model.slices import FileGroupHistory, Partitions
from chronolake_model.vocabulary import View

if TYPE_CHECKING:
    from rich.console import Console

PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="PATH", help="Only this partition path.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        callback=options.read_time,
        help="The state as of this time (instant digits, or ISO 8601 in UTC; earliest, latest).",
    ),
]


def files(
    table: options.TableArgument,
    partition: PartitionOption = None,
    view: Annotated[
        View,
        typer.Option(
            "--view",
            help=(
                "merged: what a reader reads; latest: the newest slices, also those that pending compactions "
                "opened; read_optimised: the latest base files."
            ),
        ),
    ] = View.MERGED,
    as_of: AsOfOption = None,
    where: filters.WhereOption = None,
) -> None:
    """List the data files of the live file slices: each is one line, and sizes are in bytes."""
    if where is not None and view is not View.MERGED:
        raise typer.BadParameter("use it only with the merged view", param_hint="--where")
    with context.client() as client:
        lake_table = client.table(table)
        if view is View.MERGED:
            snapshot, which = filters.snapshot(lake_table, where, as_of, partition)
        else:
            snapshot, which = lake_table.snapshot(as_of, partition, view=view), ""
    output.show(snapshot, lambda console: _print_files(console, snapshot, which, as_of))


def partitions(table: options.TableArgument, as_of: AsOfOption = None) -> None:
    """List the partitions with their file groups, files, bytes and records of base files."""
    with context.client() as client:
        listed = client.table(table).partitions(as_of)
    output.show(listed, lambda console: _print_partitions(console, listed, as_of))


def file_group(
    table: options.TableArgument,
    file_id: Annotated[
        str,
        typer.Argument(
            metavar="FILE_ID", help="The file group, or the name of a file of it.", show_default=False
        ),
    ],
    partition: Annotated[str, typer.Option("--partition", metavar="PATH", help="Its partition path.")] = "",
    as_of: AsOfOption = None,
) -> None:
    """Show all slices of a file group, newest last, and the instant that replaced the group."""
    with contextlib.suppress(ValueError):
        file_id = parse_file_name(file_id).file_id
    with context.client() as client:
        history = client.table(table).file_group(file_id, partition, as_of)
    output.show(history, lambda console: _print_file_group(console, history))


def _print_files(console: Console, snapshot: Snapshot, which: str, as_of: str | None) -> None:
    if snapshot.as_of is None:
        console.print(f"{snapshot.table}: {output.nothing_completed(as_of)}", soft_wrap=True)
        return
    columns = ("slice", "file~", "completed", "bytes#", "records#")
    rows = [row for file_slice in snapshot.slices for row in _rows_of(file_slice)]
    output.print_table(console, output.table_of(columns, rows))
    count = sum(len(_files_of(file_slice)) for file_slice in snapshot.slices)
    console.print(
        f"{snapshot.table} as of {snapshot.as_of} ({output.utc(snapshot.as_of)} UTC): "
        f"{output.count(count, 'file')} of {output.count(len(snapshot.slices), 'file slice')}{which}",
        soft_wrap=True,
        markup=False,
    )


def _rows_of(file_slice: FileSlice) -> Iterator[tuple[object, ...]]:
    """A row for each file; a slice without files, which a pending compaction has opened, has one row."""
    for file in _files_of(file_slice):
        yield file_slice.base_instant_time, file.path, file.completion_time, file.size_bytes, file.records
    if not _files_of(file_slice):
        yield file_slice.base_instant_time, f"({file_slice.file_id}: no files yet)", None, 0, 0


def _files_of(file_slice: FileSlice) -> list[DataFile]:
    return [*([] if file_slice.base_file is None else [file_slice.base_file]), *file_slice.log_files]


def _print_partitions(console: Console, partitions: Partitions, as_of: str | None) -> None:
    if partitions.as_of is None:
        console.print(f"{partitions.table}: {output.nothing_completed(as_of)}", soft_wrap=True)
        return
    columns = ("partition~", "file groups#", "files#", "bytes#", "records#")
    rows = (
        (
            partition.partition_path,
            partition.file_groups,
            partition.files,
            partition.size_bytes,
            partition.records,
        )
        for partition in partitions.partitions
    )
    output.print_table(console, output.table_of(columns, rows))
    console.print(
        f"{partitions.table} as of {partitions.as_of} ({output.utc(partitions.as_of)} UTC): "
        f"{output.count(len(partitions.partitions), 'partition')}",
        soft_wrap=True,
    )


def _print_file_group(console: Console, history: FileGroupHistory) -> None:
    name = f"{history.partition_path}/{history.file_id}" if history.partition_path else history.file_id
    if not history.slices:
        console.print(f"{history.table}: there is no file group {name}", soft_wrap=True)
        return
    columns = ("base instant", "base file~", "log files#", "bytes#", "superseded", "pending")
    rows = (
        (
            file_slice.base_instant_time,
            None if file_slice.base_file is None else file_slice.base_file.path.rpartition("/")[2],
            len(file_slice.log_files),
            sum(file.size_bytes for file in (file_slice.base_file, *file_slice.log_files) if file is not None),
            file_slice.superseded_at,
            file_slice.pending,
        )
        for file_slice in history.slices
    )
    output.print_table(console, output.table_of(columns, rows))
    replaced = history.replaced
    end = "" if replaced is None else f"; replaced by {replaced.requested_time} at {replaced.completion_time}"
    slices = output.count(len(history.slices), "file slice")
    console.print(f"{history.table}, {name}: {slices}{end}", soft_wrap=True)
