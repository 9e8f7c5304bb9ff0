"""``chronolake ingest``: load files into a table, as one commit or as one commit per file.

May run again at any time: what a commit of the table holds already is passed over (by the files' content), and
a run that was broken off goes on where it stopped.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chronolake.cli import context, options, output
from chronolake_model.vocabulary import TableType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronolake_spark.ingestion import Batch, Committed, Ingestion

_RETRY_SECONDS = 60.0
_SIGNAL_EXIT = 128
_CANCEL_SECONDS = 0.1
_JOIN_SECONDS = 10.0


class IngestResult(msgspec.Struct, frozen=True):
    """What an ingest did. ``skipped`` names the files that the table had already."""

    table: str
    base_path: str
    created: bool
    commits: list[Committed]
    skipped: list[str]


def ingest(  # noqa: PLR0913, PLR0917  # one parameter per option
    table: Annotated[
        str, typer.Option(help="namespace.table; made when there is none.", callback=options.table_name)
    ],
    source: Annotated[str, typer.Option(help="Parquet, CSV or JSON lines: a file, a folder or a pattern.")],
    key: Annotated[
        str, typer.Option(help="The record key: columns, with commas. Needed for a new table.")
    ] = "",
    ordering: Annotated[
        str, typer.Option(help="The column whose larger value wins; else the later commit does.")
    ] = "",
    partition: Annotated[
        list[str] | None,
        typer.Option(help="A column, or name=SQL expression: month=substr(date,1,7). May be repeated."),
    ] = None,
    op_column: Annotated[
        str, typer.Option(help="The column that says d or delete for rows to delete; it is not stored.")
    ] = "",
    one_commit_per_file: Annotated[
        bool, typer.Option("--one-commit-per-file", help="A commit for each file, in the order of names.")
    ] = False,
    base_path: Annotated[
        str, typer.Option(help="A new table's folder; ./chronolake-data/<namespace>/<table> if not given.")
    ] = "",
    buckets: Annotated[int, typer.Option(help="Buckets of a new table: file groups per partition.", min=1)] = 4,
    table_type: Annotated[
        TableType, typer.Option(help="How a new table keeps its updates.")
    ] = TableType.COPY_ON_WRITE,
) -> None:
    """Load files into a table through Spark: insert, update and, with --op-column, delete."""
    # Here and not above: they import Spark, which takes a second.
    from chronolake_spark import sessions  # noqa: PLC0415
    from chronolake_spark.ingestion import Ingestion, Request  # noqa: PLC0415

    request = Request(
        table=table,
        source=source,
        key=tuple(name.strip() for name in key.split(",") if name.strip()),
        base_path=base_path or str(Path("chronolake-data", *table.split(".")).absolute()),
        ordering=ordering or None,
        partition=tuple(partition or ()),
        op_column=op_column or None,
        one_commit_per_file=one_commit_per_file,
        buckets=buckets,
        table_type=table_type,
    )
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with context.client() as client:
        client.time()  # A server that is not there shall be reported soon, and before Spark has started.
    with (
        context.client(retry_seconds=_RETRY_SECONDS) as client,
        sessions.borrowed(lambda: console.status("Starting Spark")) as spark,
        _Stopping(spark) as stopping,
    ):
        result = _run(Ingestion(client, spark, request), console, stopping)
    output.show(result, lambda shown: _print_summary(shown, result))


class _Stopping:
    """Ends an ingest by SIGTERM or Ctrl-C as by a failure: its jobs are cancelled, its instant is rolled back.

    A scheduler stops what it runs by SIGTERM; Python would end at once, and leave the instant to its lease. An
    exception out of the handler will not do: it would leave the connection to Java with an answer that nobody
    read, and the next call would take it for its own. A second signal does what it did before.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._asked: int | None = None
        self._ended = threading.Event()
        self._cancelling: threading.Thread | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._cancelling is not None:
            self._cancelling.join(_JOIN_SECONDS)  # Else it would ask a session that is stopped.
        self._restore()
        self.check()

    def check(self) -> None:
        """End the command, if that was asked for."""
        if self._asked is not None:
            raise typer.Exit(_SIGNAL_EXIT + self._asked) from None

    def _stop(self, number: int, _frame: object) -> None:
        self._asked = number
        self._restore()
        self._cancelling = threading.Thread(target=self._cancel, daemon=True)
        self._cancelling.start()

    def _cancel(self) -> None:
        # Again and again: a job may be about to start.
        while not self._ended.wait(_CANCEL_SECONDS):
            self._spark.sparkContext.cancelAllJobs()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _run(ingestion: Ingestion, console: Console, stopping: _Stopping) -> IngestResult:
    with console.status(f"Looking at {ingestion.source.summary}"):
        table, created = ingestion.open_table()
    made = "Made the table" if created else "Into the table"
    console.print(f"{made} {table.name} at {table.definition.base_path}: {ingestion.source.summary}")
    commits: list[Committed] = []
    skipped: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("commits", total=len(ingestion.batches))
        for batch, committed in ingestion.run(table):
            stopping.check()
            progress.advance(bar)
            progress.console.print(_line(batch, committed))
            if committed is None:
                skipped.append(batch.name)
            else:
                commits.append(committed)
    return IngestResult(table.name, table.definition.base_path, created, commits, skipped)


def _line(batch: Batch, committed: Committed | None) -> str:
    if committed is None:
        return f"  {batch.name}: the table has it already"
    return (
        f"  {batch.name}: {committed.inserts:,} inserted, {committed.updates:,} updated, "
        f"{committed.deletes:,} deleted, completed {output.utc(committed.completion_time)} "
        f"({committed.seconds:.2f} s)"
    )


def _print_summary(console: Console, result: IngestResult) -> None:
    commits = result.commits
    console.print(
        f"{result.table}: {sum(commit.inserts for commit in commits):,} inserted, "
        f"{sum(commit.updates for commit in commits):,} updated, "
        f"{sum(commit.deletes for commit in commits):,} deleted in {_plural(len(commits), 'commit')}"
        + (f"; {_plural(len(result.skipped), 'file')} it had already" if result.skipped else "")
    )
    console.print("What to look at next:")
    for command in ("timeline", "snapshot", "changes"):
        console.print(f"  chronolake {command} {result.table}")


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
