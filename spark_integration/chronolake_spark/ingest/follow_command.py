"""``chronolake ingest --follow`` at the command line: its output, and its end."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from rich.console import Console

import chronolake
from chronolake.cli import context, output
from chronolake.errors import TableNotFound
from chronolake.ingest import arrivals, job as ingest_job
from chronolake.ingest.arrivals import FollowOptions
from chronolake.ingest.job import Committed
from chronolake.ingest.request import Batch, IngestRequest
from chronolake_model.names import counted
from chronolake_spark.driver import progress
from chronolake_spark.ingest import command, follow_job
from chronolake_spark.ingest.cancellation import Cancellation


def summary(source: str) -> str:
    """The followed source, for messages. Raises ``SourceUnreadable`` if it cannot be followed."""
    arrivals.check(source)
    return f"files that arrive in {source}"


def follow(
    client: chronolake.Client,
    spark: SparkSession,
    request: IngestRequest,
    following: FollowOptions,
    console: Console,
    stopping: Cancellation,
) -> None:
    """Load files as they arrive, until a signal ends it."""
    stopping.outcome = lambda commits: (
        f"{counted(commits, 'commit')} of {request.table} completed. Run the same command again to go on."
    )

    # The query calls report in another thread, which has no options of the command.
    wants_json = context.wants_json()

    def report(batch: Batch, committed: Committed | None) -> None:
        if committed is None:
            return  # What is loaded already needs no line: each restart finds such files.
        stopping.commits += 1
        console.print(command.line(batch, committed), markup=False)
        if wants_json:
            output.show_line(committed)

    def gone(path: str) -> None:
        console.print(f"  {path}: moved away or written again before it was loaded", markup=False)

    def wait() -> None:
        time.sleep(following.interval_seconds)

    with progress.shown_by_caller():
        try:
            client.table(request.table)
        except TableNotFound:
            console.print(
                f"Waiting for the first files of {request.source} to create {request.table}", markup=False
            )
            follow_job.create(client, spark, request, following, report, stopping.check, wait)
        job = follow_job.FollowJob(client, spark, request, following, report, gone, stopping.check)
        console.print(
            f"Following {request.source} into {request.table}; Ctrl-C ends it. Its state is in {job.folder}",
            markup=False,
        )
        table = client.table(request.table)
        if (obstacle := ingest_job.obstacle_of(table, table.definition)) is not None:
            console.print(command.warning_of(obstacle), markup=False)
        job.run()
