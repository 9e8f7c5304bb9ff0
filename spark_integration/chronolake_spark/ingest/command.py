"""``chronolake ingest``: load files into a table, as one commit or as one commit per file.

It can be repeated at any time: files whose content a commit of the table has already are skipped, so an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chronolake.cli import context, options, output
from chronolake_model.names import counted
from chronolake_model.tables import BucketIndex, index_of
from chronolake_model.vocabulary import IndexType, TableType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronolake_spark.ingest.job import Committed, IngestJob, Prepared
    from chronolake_spark.ingest.request import Batch

_RETRY_SECONDS = 60.0
_SIGNAL_EXIT = 128
_CANCEL_SECONDS = 0.1
_JOIN_SECONDS = 10.0
_INTERVAL_SECONDS = 5.0
_FILES_MAX = 1_000
_OP_COLUMN = "says what each row does; not stored"


class IngestResult(msgspec.Struct, frozen=True):
    """The result of an ingest, or of its ``dry_run``.

    ``skipped`` has the files that the table had already, ``changed`` those that changed after they were
    loaded. ``columns`` are those of the files, and empty if there was no file to load. ``rows`` is the count
    of a dry run. ``obstacle_for_hudi`` says why Hudi's readers will not see what is loaded. ``bad_rows`` is the
    number of rows that were set aside.
    """

    table: str
    base_path: str
    created: bool
    commits: list[Committed]
    skipped: list[str]
    changed: list[str] = []
    columns: dict[str, str] = {}
    dry_run: bool = False
    rows: int | None = None
    obstacle_for_hudi: str | None = None
    bad_rows: int = 0


def ingest(  # noqa: PLR0913, PLR0917  # one parameter per option
    table: Annotated[
        str, typer.Option(help="namespace.table; created if it does not exist.", callback=options.table_name)
    ],
    source: Annotated[
        str,
        typer.Option(
            help="Parquet, CSV or JSON lines: a file, a folder or a pattern; with --follow also s3://bucket/path."
        ),
    ],
    key: Annotated[
        str, typer.Option(help="The columns of the record key, separated by commas. Required for a new table.")
    ] = "",
    ordering: Annotated[
        str, typer.Option(help="The ordering field: the larger value wins. Without one, the later commit wins.")
    ] = "",
    partition: Annotated[
        list[str] | None,
        typer.Option(help="A column, or name=SQL expression, such as year=year(day). May be repeated."),
    ] = None,
    op_column: Annotated[
        str,
        typer.Option(
            help=(
                "A column with the operation of each row: d or delete for rows that delete, u, i or nothing "
                "for all others. It is not stored."
            )
        ),
    ] = "",
    one_commit_per_file: Annotated[
        bool, typer.Option("--one-commit-per-file", help="Make one commit of each file, in the order of names.")
    ] = False,
    base_path: Annotated[
        str,
        typer.Option(
            help="The folder of a new table. The default is one below ./chronolake-data.", metavar="PATH"
        ),
    ] = "",
    buckets: Annotated[
        int | None,
        typer.Option(
            help=f"Buckets of a new table: file groups per partition. The default is {BucketIndex().buckets}.",
            min=1,
            metavar="COUNT",
        ),
    ] = None,
    index: Annotated[
        IndexType | None,
        typer.Option(help="How record keys of a new table find their file groups. The default is bucket."),
    ] = None,
    table_type: Annotated[
        TableType,
        typer.Option(
            help="How a new table stores updates: copy_on_write in new base files, merge_on_read in log files."
        ),
    ] = TableType.COPY_ON_WRITE,
    schema: Annotated[
        str,
        typer.Option(help="Types of columns, as DDL: 'zip STRING, day DATE'; others are inferred."),
    ] = "",
    all_strings: Annotated[
        bool, typer.Option("--all-strings", help="Read columns that --schema does not name as strings.")
    ] = False,
    encoding: Annotated[
        str,
        typer.Option(help="The encoding of CSV files: utf-8, latin-1, cp1252, utf-16, ...", callback=_encoding),
    ] = "utf-8",
    load_changed_files: Annotated[
        bool,
        typer.Option(
            "--load-changed-files",
            help="Load files that changed after they were loaded, also without an ordering field.",
        ),
    ] = False,
    merge_schema: Annotated[
        bool,
        typer.Option(
            "--merge-schema",
            help="Add new columns of the files to the table, and widen columns to wider types of the files.",
        ),
    ] = False,
    bad_rows: Annotated[
        Path | None,
        typer.Option(
            help="Append rows that cannot be loaded to this file, and load the others.", metavar="FILE"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check everything; write nothing.")
    ] = False,
    reuse_base_path: options.ReuseBasePathOption = False,
    follow: Annotated[bool, typer.Option("--follow", help="Load files as they arrive, until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="With --follow: seconds between two looks at the source. "
            f"The default is {_INTERVAL_SECONDS:g}.",
            min=0.1,
            max=86_400,
            metavar="SECONDS",
        ),
    ] = None,
    max_files: Annotated[
        int | None,
        typer.Option(
            help=f"With --follow: the most files of a commit. The default is {_FILES_MAX}.",
            min=1,
            max=100_000,
            metavar="COUNT",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="With --follow: a local folder for its state. The default is beside the table.", metavar="PATH"
        ),
    ] = None,
) -> None:
    """Load files into a table through Spark: insert, update and, with --op-column, delete.

    With --follow files that arrive are loaded until Ctrl-C. After a stop or a crash the same command goes on:
    each file is loaded once.
    """
    # Here and not above: they import Spark, which takes a second.
    from chronolake_spark.driver import sessions  # noqa: PLC0415
    from chronolake_spark.ingest import (  # noqa: PLC0415
        follow_command,
        request as ingest_request,
        source_files,
    )
    from chronolake_spark.ingest.job import IngestJob, warned_by_caller  # noqa: PLC0415
    from chronolake_spark.ingest.request import IngestRequest  # noqa: PLC0415

    try:
        index_of(index or IndexType.BUCKET, buckets)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--buckets") from exc
    if not follow:
        _refuse_given({"--interval": interval, "--max-files": max_files, "--checkpoint": checkpoint})
    request = IngestRequest(
        table=table,
        source=source,
        key=tuple(name.strip() for name in key.split(",") if name.strip()),
        base_path=base_path or None,
        ordering=ordering or None,
        partition=tuple(partition or ()),
        op_column=op_column or None,
        one_commit_per_file=one_commit_per_file,
        buckets=buckets,
        index=index,
        table_type=table_type,
        schema=schema,
        all_strings=all_strings,
        encoding=encoding,
        load_changed_files=load_changed_files,
        merge_schema=merge_schema,
        reuse_base_path=reuse_base_path,
        bad_rows=bad_rows,
    )
    if (problem := ingest_request.problem_of_bad_rows(request)) is not None:
        raise typer.BadParameter(problem, param_hint="--bad-rows")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if dry_run and follow:
        raise typer.BadParameter("use it without --follow", param_hint="--dry-run")
    with context.client() as client:
        # Check the server, the files and the key before Spark starts, so that errors are reported soon.
        client.time()
        found = None if follow else source_files.find(source)
        summary = follow_command.summary(source) if found is None else found.summary
        starting = f"Starting Spark to {'look at' if dry_run else 'load'} {summary}"
        ingest_request.check(client, request, found)
    with (
        _announcing_ctrl_c(console),
        context.client(retry_seconds=_RETRY_SECONDS) as client,
        sessions.borrowed(lambda: _progress(console, starting)) as spark,
        Cancellation(spark, console) as stopping,
    ):
        if follow:
            how = follow_command.FollowOptions(
                interval or _INTERVAL_SECONDS, max_files or _FILES_MAX, checkpoint
            )
            follow_command.follow(client, spark, request, how, console, stopping)
            return
        job = IngestJob(client, spark, request, stopping.check)
        stopping.outcome = lambda commits: _outcome(job, commits, dry_run=dry_run)
        with warned_by_caller():
            result = _run(job, console, stopping, dry_run=dry_run)
    output.show(result, lambda shown: _print_summary(shown, result))


def _refuse_given(options_of_follow: Mapping[str, object]) -> None:
    """Refuse options that would have no effect."""
    for name, value in options_of_follow.items():
        if value is not None:
            raise typer.BadParameter("it is for --follow: add that, or leave it out", param_hint=name)


@contextlib.contextmanager
def _progress(console: Console, step: str) -> Iterator[None]:
    """Show a step: on a terminal while it runs, elsewhere as a line, and not with --json."""
    if not console.is_terminal and not context.wants_json():
        console.print(f"{step} ...", markup=False)
    with console.status(step):
        yield


@contextlib.contextmanager
def _announcing_ctrl_c(console: Console) -> Iterator[None]:
    """Print that Ctrl-C ended the command while Spark starts or stops; ``Cancellation`` covers the rest."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Interrupted while Spark started or stopped.")
        raise typer.Exit(_SIGNAL_EXIT + signal.SIGINT) from None


class Cancellation:
    """Ends an ingest by SIGTERM or Ctrl-C as by a failure: its jobs are cancelled, its instant is rolled back.

    A scheduler stops a process by SIGTERM. By default Python ends at once, and the instant stays until its
    lease ends. The handler cannot raise an exception: the connection to Java would keep an unread answer, and
    the next call would read it as its own. A second signal has the effect that it had before the ingest.

    At the end of an ingest that was stopped, ``outcome`` is printed: what the ingest did, given ``commits``.
    """

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self.commits: int = 0
        self.outcome: Callable[[int], str] = lambda _: "Nothing was loaded."
        self._spark = spark
        self._console = console
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
            self._cancelling.join(_JOIN_SECONDS)  # Otherwise it would call a stopped session.
        self._restore()
        if self._asked is not None:
            self._console.print(f"Interrupted. {self.outcome(self.commits)}", markup=False)
        self.check()

    def check(self) -> None:
        """End the command, if a signal has requested it."""
        if self._asked is not None:
            raise typer.Exit(_SIGNAL_EXIT + self._asked) from None

    def _stop(self, number: int, _frame: object) -> None:
        self._asked = number
        # The signal may have ended the JVM too. Py4J logs that by the root logger, with a trace.
        logging.getLogger().addFilter(_is_not_of_py4j)
        self._restore()
        self._cancelling = threading.Thread(target=self._cancel, daemon=True)
        self._cancelling.start()

    def _cancel(self) -> None:
        # Here and not above: it imports Spark, which takes a second.
        from chronolake_spark.driver import spark_failures  # noqa: PLC0415

        # Repeated, because a job may be about to start.
        with contextlib.suppress(*spark_failures.JVM_GONE):
            while not self._ended.wait(_CANCEL_SECONDS):
                self._spark.sparkContext.cancelAllJobs()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")


def _encoding(name: str) -> str:
    from chronolake_spark.ingest.files import text_files  # noqa: PLC0415

    try:
        text_files.check_encoding(name)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return name


def _run(job: IngestJob, console: Console, stopping: Cancellation, *, dry_run: bool) -> IngestResult:
    from chronolake_spark.driver import progress  # noqa: PLC0415

    with _progress(console, f"Looking at {job.source.summary}"):
        prepared = job.prepare()
    _print_prepared(console, job, prepared)
    request, obstacle = job.request, job.obstacle_for_hudi(prepared)
    if job.bad_rows:
        console.print(set_aside_line(job), markup=False)
    if obstacle is not None:
        console.print(warning_of(obstacle), markup=False)
    commits: list[Committed] = []
    rows = job.dry_run(prepared) if dry_run else None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        progress.shown_by_caller(),
        Progress(*columns, console=console, transient=True) as bars,
    ):
        bar = bars.add_task("commits", total=len(prepared.batches))
        for batch, committed in job.run(prepared) if not dry_run else ():
            bars.advance(bar)
            bars.console.print(line(batch, committed))
            if committed is not None:
                commits.append(committed)
                stopping.commits += 1
            stopping.check()
    return IngestResult(
        table=request.table,
        base_path=prepared.table.base_path if prepared.table else request.new_base_path,
        created=prepared.table is None,
        commits=commits,
        skipped=prepared.skipped,
        changed=[str(file) for file in prepared.changed],
        columns=_columns(prepared),
        dry_run=dry_run,
        rows=rows,
        obstacle_for_hudi=obstacle,
        bad_rows=len(job.bad_rows),
    )


def set_aside_line(job: IngestJob) -> str:
    """The line about bad rows."""
    rows = counted(len(job.bad_rows), "row")
    first = job.bad_rows[0].problem
    return f"Set aside in {job.request.bad_rows}: {rows} that cannot be loaded; the first: {first}"


def warning_of(obstacle: str) -> str:
    """The warning that Hudi's readers will not see what is loaded."""
    return f"Warning: Hudi's readers will not see what is loaded: {obstacle}"


def _outcome(job: IngestJob, commits: int, *, dry_run: bool) -> str:
    """A message with the result of an ingest that was stopped after ``commits`` commits."""
    table = job.request.table
    if dry_run:
        return "It was a dry run: nothing was written."
    if commits:
        return (
            f"{counted(commits, 'commit')} of {table} completed before, and nothing else was loaded. "
            "Run the same command again to load the other files."
        )
    if job.has_created_table:
        return (
            f"{table} was created, and could not be dropped again. Run the same command again to load into it."
        )
    if not job.table_exists:
        return f"{table} was not created, and nothing was loaded."
    return f"Nothing was loaded into {table}."


def _columns(prepared: Prepared) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in prepared.struct or ()}


def _print_prepared(console: Console, job: IngestJob, prepared: Prepared) -> None:
    """Show what will be loaded. The types of a new table are shown before it is made."""
    new = f"the namespace {job.namespace}, and in it the table" if prepared.creates_namespace else "the table"
    into = f"To create: {new}" if prepared.table is None else "Into the table"
    path = job.request.new_base_path if prepared.table is None else prepared.table.base_path
    console.print(f"{into} {job.request.table} at {path}: {job.source.summary}")
    for name, type_ in _columns(prepared).items():
        note = _OP_COLUMN if name == job.request.op_column else prepared.notes.get(name)
        console.print(f"  {name}: {type_}{f'  ({note})' if note else ''}", markup=False)
    for file in prepared.changed:
        console.print(
            f"Warning: {file} changed after it was loaded; all of its rows are loaded again", markup=False
        )


def line(batch: Batch, committed: Committed | None) -> str:
    if committed is None:
        return f"  {batch.name}: the table has {'it' if len(batch.files) == 1 else 'them'} already"
    bad_rows = f", {counted(committed.bad_rows, 'row')} set aside" if committed.bad_rows else ""
    return (
        f"  {batch.name}: {_counts([committed])}{bad_rows}, completed {output.utc(committed.completion_time)} "
        f"({committed.seconds:.2f} s)"
    )


def _counts(commits: Sequence[Committed]) -> str:
    """The counts of rows by result. The first number is the sum of the others."""
    rows = [commit.rows for commit in commits]
    return (
        f"{counted(sum(counts.read for counts in rows), 'row')} read"
        f" = {sum(counts.inserted for counts in rows):,} inserted"
        f" + {sum(counts.updated for counts in rows):,} updated"
        f" + {sum(counts.deleted for counts in rows):,} deleted"
        f" + {sum(counts.superseded for counts in rows):,} superseded within a commit"
        f" + {sum(counts.unchanged for counts in rows):,} unchanged"
    )


def _print_summary(console: Console, result: IngestResult) -> None:
    commits = result.commits
    skipped = f"; the table had {counted(len(result.skipped), 'file')} already" if result.skipped else ""
    if result.dry_run:
        console.print(
            f"{result.table}: {counted(result.rows or 0, 'row')} can be loaded{skipped}; nothing was written"
        )
        return
    done = f"{counted(len(commits), 'commit')}: {_counts(commits)}" if commits else "nothing new to load"
    console.print(f"{result.table}: {done}{skipped}")
    console.print("What to look at next:")
    for command in ("timeline", "snapshot", "changes"):
        console.print(f"  chronolake {command} {result.table}")
