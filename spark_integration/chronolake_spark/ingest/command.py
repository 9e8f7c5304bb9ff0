"""``chronolake ingest``: load files into a table, as one commit or as one commit per file.

It can be repeated at any time: files whose content a commit of the table has already are skipped, so an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chronolake.cli import context, options, output, terminal
from chronolake_model.names import counted
from chronolake_model.tables import BucketIndex, index_of
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark.ingest import cancellation, engines
from chronolake_spark.ingest.cancellation import Cancellation
from chronolake_spark.ingest.engines import EngineName

if TYPE_CHECKING:
    from chronolake import Client
    from chronolake.ingest.arrivals import FollowOptions
    from chronolake.ingest.job import Committed, IngestEngine, IngestJob, Prepared
    from chronolake.ingest.request import Batch, IngestRequest
    from chronolake_spark.ingest.engines import ChosenEngine

_RETRY_SECONDS = 60.0
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
    engine: Annotated[EngineName, typer.Option(help=engines.HELP)] = EngineName.AUTO,
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
    """Load files into a table: insert, update and, with --op-column, delete.

    With --follow files that arrive are loaded until Ctrl-C. After a stop or a crash the same command goes on:
    each file is loaded once.
    """
    # Here and not above: they import Arrow, which takes a moment.
    from chronolake.ingest import request as ingest_request, source_files  # noqa: PLC0415
    from chronolake.ingest.arrivals import FollowOptions  # noqa: PLC0415
    from chronolake.ingest.request import IngestRequest  # noqa: PLC0415

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
    console = terminal.console(sys.stderr)
    console.soft_wrap = True
    if dry_run and follow:
        raise typer.BadParameter("use it without --follow", param_hint="--dry-run")
    with context.client() as client:
        # Check the server, the files and the key before Spark starts, so that errors are reported soon.
        client.time()
        found = None if follow else source_files.find(source)
        chosen = engines.choose(engine, request, found)
        ingest_request.check(client, request, found)
    if chosen.name is EngineName.ARROW:
        with _progress(console, f"Without Spark: {chosen.reason}"):
            pass
        with context.client(retry_seconds=_RETRY_SECONDS) as client, Cancellation(None, console) as stopping:
            _load(client, engines.arrow(), request, console, stopping, dry_run=dry_run)
        return
    how = FollowOptions(interval or _INTERVAL_SECONDS, max_files or _FILES_MAX, checkpoint) if follow else None
    _with_spark(request, console, chosen, how, dry_run=dry_run)


def _with_spark(
    request: IngestRequest, console: Console, chosen: ChosenEngine, how: FollowOptions | None, *, dry_run: bool
) -> None:
    # Here and not above: they import Spark, which takes a second.
    from chronolake_spark.driver import progress, sessions  # noqa: PLC0415
    from chronolake_spark.ingest import follow_command, spark_engine  # noqa: PLC0415

    summary = chosen.summary if how is None else follow_command.summary(request.source)
    starting = f"Starting Spark to {'look at' if dry_run else 'load'} {summary} ({chosen.reason})"
    with (
        _announcing_ctrl_c(console),
        context.client(retry_seconds=_RETRY_SECONDS) as client,
        sessions.borrowed(lambda: _progress(console, starting)) as spark,
        Cancellation(spark, console) as stopping,
        progress.shown_by_caller(),
    ):
        if how is not None:
            follow_command.follow(client, spark, request, how, console, stopping)
            return
        _load(client, spark_engine.SparkEngine(spark, client), request, console, stopping, dry_run=dry_run)


def _load(
    client: Client,
    engine: IngestEngine,
    request: IngestRequest,
    console: Console,
    stopping: Cancellation,
    *,
    dry_run: bool,
) -> None:
    from chronolake.ingest.job import IngestJob, warned_by_caller  # noqa: PLC0415

    job = IngestJob(client, engine, request, stopping.check)
    stopping.outcome = lambda _: _outcome(job, 0, dry_run=dry_run)
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
        raise typer.Exit(cancellation.SIGNAL_EXIT + signal.SIGINT) from None


def _encoding(name: str) -> str:
    from chronolake.ingest import text_files  # noqa: PLC0415

    try:
        text_files.check_encoding(name)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return name


def _run(job: IngestJob, console: Console, stopping: Cancellation, *, dry_run: bool) -> IngestResult:
    with _progress(console, f"Looking at {job.source.summary}"):
        prepared = job.prepare()
    stopping.outcome = lambda _: _outcome(job, None if dry_run else _completed(job, prepared), dry_run=dry_run)
    _print_prepared(console, job, prepared)
    request, obstacle = job.request, job.obstacle_for_hudi(prepared)
    if job.bad_rows:
        console.print(set_aside_line(job), markup=False)
    if obstacle is not None:
        console.print(warning_of(obstacle), markup=False)
    commits: list[Committed] = []
    rows = job.dry_run(prepared) if dry_run else None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task("commits", total=len(prepared.batches))
        for batch, committed in job.run(prepared) if not dry_run else ():
            bars.advance(bar)
            bars.console.print(line(batch, committed))
            if committed is not None:
                commits.append(committed)
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


def _completed(job: IngestJob, prepared: Prepared) -> int | None:
    """The number of commits of the new files, as the server has them; None if it does not say.

    A signal may end a commit between its completion and the answer.
    """
    from chronolake.errors import ChronolakeError, TableNotFound  # noqa: PLC0415
    from chronolake.ingest import loaded_files  # noqa: PLC0415

    new = {prepared.digests[file] for batch in prepared.batches if not batch.loaded for file in batch.files}
    try:
        with context.client() as client:
            return loaded_files.commits_of(client.table(job.request.table), new)
    except TableNotFound:
        return 0
    except ChronolakeError:
        return None


def _outcome(job: IngestJob, commits: int | None, *, dry_run: bool) -> str:
    """A message with the result of an ingest that was stopped after ``commits`` commits, None if unknown."""
    table = job.request.table
    if dry_run:
        return "It was a dry run: nothing was written."
    if commits is None:
        return (
            f"The server does not say which files were loaded into {table}. Run the same command again to load "
            "the others."
        )
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
    return {field.name: field.type for field in prepared.fields or ()}


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
