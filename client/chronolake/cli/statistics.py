"""``chronolake stats`` and ``chronolake file-name``: file sizes, write amplification, the parts of a name."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from chronolake.cli import context, options, output
from chronolake.cli.files import PartitionOption
from chronolake_model.file_names import DataFileName, FileKind, parse_file_name
from chronolake_model.files import Snapshot
from chronolake_model.instants import Instant

if TYPE_CHECKING:
    from rich.console import Console

_INSTANTS: Final = 20


class LiveFileSizes(msgspec.Struct, frozen=True):
    """The sizes in bytes of the live files of one kind."""

    kind: FileKind
    files: int
    total_bytes: int
    smallest: int
    median: int
    largest: int


class Amplification(msgspec.Struct, frozen=True):
    """The records in the files that an instant wrote, and how many of these it inserted, updated or deleted."""

    requested_time: str
    completion_time: str | None
    operation: str
    records: int
    changed: int

    @property
    def ratio(self) -> float | None:
        """The records that were written for each one that changed; None for a table service."""
        return self.records / self.changed if self.changed else None


def stats(
    table: options.TableArgument,
    partition: PartitionOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show the write amplification of this many instants.")
    ] = _INSTANTS,
) -> None:
    """Show the sizes of live files, and the write amplification of the newest instants that wrote files.

    Write amplification is the number of records written for each record that changed, in all partitions. The
    total counts table services too, which write records and change none.
    """
    with context.client() as client:
        lake_table = client.table(table)
        sizes = sizes_of(lake_table.snapshot(None, partition))
        completed = lake_table.timeline.completed().by_completion_time()
        with_files = (instant for instant in completed.reverse() if instant.summary is not None)
        written = [_amplification(instant) for instant in itertools.islice(with_files, limit)]
    document = {"table": table, "file_sizes": sizes, "write_amplification": written, "total": total(written)}
    output.show(document, lambda console: _print_stats(console, sizes, written))


def file_name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name, also with its path.")],
) -> None:
    """Show the parts of a data file's name: kind, file group, task, instant. It asks no server."""
    try:
        parts = parse_file_name(name.rpartition("/")[2])
        pairs = _pairs(parts)
    except ValueError as exc:
        context.fail(str(exc), exit_code=output.USAGE)
    output.show(parts, lambda console: output.print_table(console, output.pairs_of(pairs)))


def sizes_of(snapshot: Snapshot) -> list[LiveFileSizes]:
    """The sizes of the files of a snapshot, by kind."""
    bases = [of_group.base_file.size_bytes for of_group in snapshot.slices if of_group.base_file is not None]
    logs = [file.size_bytes for of_group in snapshot.slices for file in of_group.log_files]
    return [
        LiveFileSizes(kind, len(sizes), sum(sizes), min(sizes), statistics.median_high(sizes), max(sizes))
        for kind, sizes in ((FileKind.BASE, bases), (FileKind.LOG, logs))
        if sizes
    ]


def total(written: Iterable[Amplification]) -> float | None:
    """The write amplification of all these instants together; None if they changed nothing."""
    written = list(written)
    changed = sum(instant.changed for instant in written)
    return sum(instant.records for instant in written) / changed if changed else None


def _amplification(instant: Instant) -> Amplification:
    summary = instant.summary
    assert summary is not None
    return Amplification(
        instant.requested_time,
        instant.completion_time,
        instant.operation,
        summary.records,
        summary.inserts + summary.updates + summary.deletes,
    )


def _print_stats(console: Console, sizes: Sequence[LiveFileSizes], written: Sequence[Amplification]) -> None:
    size_rows = ((of.kind, of.files, of.total_bytes, of.smallest, of.median, of.largest) for of in sizes)
    columns = ("live files", "files#", "bytes#", "smallest#", "median#", "largest#")
    output.print_table(console, output.table_of(columns, size_rows))
    rows = (
        (
            of.requested_time,
            output.utc(of.completion_time),
            of.operation,
            of.records,
            of.changed,
            _times(of.ratio),
        )
        for of in written
    )
    columns = ("instant", "completed (UTC)", "operation", "written#", "changed#", "amplification#")
    output.print_table(console, output.table_of(columns, rows))
    console.print(f"write amplification of these {len(written):,}: {_times(total(written))}")


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.2f}"


def _pairs(parts: DataFileName) -> list[tuple[str, str]]:
    partition, stage, attempt = parts.write_token.split("-")
    return [
        ("kind", f"{parts.kind} file"),
        ("file group", parts.file_id),
        ("written by", f"task {partition} of stage {stage}, attempt {attempt}"),
        ("instant", f"{parts.requested_time}, requested at {output.utc(parts.requested_time)} UTC"),
    ]
