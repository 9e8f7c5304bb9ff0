"""The demo: start a metastore, load a table through Spark, look at its timeline, its past and its changes.

At the end hudi-rs, a reader of Apache Hudi that knows nothing of Chronolake, reads the same table.

    make demo                                        TPC-H orders, with corrections, late news and deletes
    make demo DATA=<folder> [KEY=a,b] [ORDERING=ts] [PARTITION=col] [OP_COLUMN=op]     your own files

All data is in ./.demo and stays there, so a second run loads only new files. The demo stops the server that it
has started, also after a failure, and when its terminal is closed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import hudi
import order_changes
import pyarrow as pa
import pyarrow.compute as pc
import record_keys
from pyspark.sql import DataFrame, functions as sf
from pyspark.sql.types import DecimalType, DoubleType, FloatType, IntegerType, LongType
from rich.console import Console
from rich.table import Column, Table

import chronolake
import chronolake_spark
from chronolake.cli import main as command_line, output
from chronolake.ingest import source_files
from chronolake.ingest.request import IngestRequest, check_columns
from chronolake_model.instants import Instant
from chronolake_model.publication import PublicationState
from chronolake_model.vocabulary import Direction, State, TimeOrder

HOME = Path(".demo").absolute()
SERVER_START_SECONDS = 120
PUBLICATION_SECONDS = 60
COMMITS_SHOWN = 8
ROWS_SHOWN = 5
COLUMNS_SHOWN = 6
console = Console(highlight=False)


class DemoFailed(Exception):
    """The demo cannot continue. The message says why, and gives a remedy."""


def main() -> int:
    """Run the demo; returns the exit code."""
    options = parsed_options()
    try:
        job = own_files(options) if options.data else tpch_orders()
        with server() as url:
            os.environ["CHRONOLAKE_URL"] = url
            show(job)
    except (DemoFailed, chronolake.ChronolakeError) as exc:
        print_line(f"The demo failed: {exc}", style="bold red")
        return 1
    except KeyboardInterrupt:
        print_line("Stopped.")
        return 130
    return 0


def parsed_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="Show Chronolake at work.")
    parser.add_argument("--data", help="a folder, file or pattern of your own Parquet or CSV files")
    parser.add_argument("--key", help="its record key: columns, separated by commas; searched if not given")
    parser.add_argument(
        "--ordering", help="the column whose larger value wins; without one, the later file wins"
    )
    parser.add_argument("--partition", help="a column, or name=SQL expression")
    parser.add_argument("--op-column", help="a column with d or delete in rows that delete")
    return parser.parse_args()


class Job:
    """A table to load: its name, and the options of ``chronolake ingest``."""

    def __init__(self, table: str, source: str, **options: str | None) -> None:
        self.table = table
        self.arguments = ["ingest", "--table", table, "--source", source, "--one-commit-per-file"]
        self.arguments += ["--base-path", str(HOME / "tables" / table.replace(".", "/"))]
        for name, value in options.items():
            if value is not None:
                self.arguments += [f"--{name.replace('_', '-')}", value]


def tpch_orders() -> Job:
    """TPC-H's orders as a stream of changes, generated when they are not there yet."""
    folder = HOME / "orders"
    if not folder.is_dir():
        heading("Generate TPC-H orders and a stream of changes to them")
        try:
            order_changes.generate(folder)
        except (OSError, subprocess.CalledProcessError) as exc:
            raise DemoFailed(
                f"tpchgen-cli could not generate the orders ({exc}); run `make install`, which installs it, "
                "or show your own files with make demo DATA=<folder>"
            ) from exc
    return Job(
        "demo.orders",
        str(folder),
        key="o_orderkey",
        ordering="updated_at",
        partition="order_year=year(o_orderdate)",
        op_column="op",
        buckets="2",
        table_type="merge_on_read",
        schema="updated_at TIMESTAMP NOT NULL",
    )


def own_files(options: argparse.Namespace) -> Job:
    """The user's files. A record key is searched if none is given.

    Raises ``SourceUnreadable``, and ``SchemaMismatch`` for options that name no column of the files.
    """
    source = source_files.find(options.data)
    key = options.key
    if key is None:
        heading(f"Find a record key in {options.data}")
        picked = record_keys.pick(options.data)
        if picked is None:
            raise DemoFailed(
                "no column, and no pair of columns, is unique and without nulls in every file; "
                "name the columns that identify a record: make demo DATA=... KEY=a,b,c"
            )
        key = ",".join(picked)
        print_line(f"Picked {key}: unique and without nulls in every file. Another: make demo ... KEY=a,b")
    name = re.sub(r"[^A-Za-z0-9_]+", "_", Path(options.data).absolute().name).strip("_") or "table"
    table = f"demo.{name}"
    if (names := source_files.column_names(source, "utf-8")) is not None:
        partition = () if options.partition is None else (options.partition,)
        wanted = IngestRequest(
            table,
            options.data,
            tuple(key.split(",")),
            ordering=options.ordering,
            partition=partition,
            op_column=options.op_column,
        )
        check_columns(names, wanted)
    return Job(
        table,
        options.data,
        key=key,
        ordering=options.ordering,
        partition=options.partition,
        op_column=options.op_column,
    )


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A metastore with the embedded database under ./.demo; gives its URL, and stops it at the end."""
    heading("Start the metastore")
    HOME.mkdir(exist_ok=True)
    log_path = HOME / "metastore.log"
    port = free_port()
    command = [tool("chronolake-metastore"), "serve", "--port", str(port), "--data-dir", str(data_dir())]
    command += ["--location", str(HOME / "tables")]
    with log_path.open("ab") as log, contextlib.ExitStack() as at_the_end:
        try:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        except OSError as exc:
            raise DemoFailed(f"{command[0]} does not start ({exc}); run `make install`") from exc
        at_the_end.callback(stop, process)
        end_by_signals(at_the_end)
        url = f"http://127.0.0.1:{port}"
        wait_until_it_answers(process, url, log_path)
        print_line(f"It answers at {url} (process {process.pid}, log {log_path.relative_to(Path.cwd())})")
        yield url


def end_by_signals(at_the_end: contextlib.ExitStack) -> None:
    """Do what is to be done at the end also if the terminal is closed, or a signal ends the demo."""

    def end(number: int, _: FrameType | None) -> None:
        for ignored in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_IGN)
        at_the_end.close()
        # No exception: the connection to Java may have an unread answer. Java ends with this process.
        os._exit(128 + number)

    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)


def wait_until_it_answers(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    """Wait for the server's first answer. Raises ``DemoFailed`` with the end of the server's log."""
    deadline = time.monotonic() + SERVER_START_SECONDS
    with chronolake.connect(url, retry_seconds=0) as client:
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(chronolake.ChronolakeError):
                client.time()
                return
            time.sleep(0.1)
    last_lines = "\n".join(log_path.read_text(errors="replace").splitlines()[-15:])
    raise DemoFailed(
        f"the metastore did not start; the end of {log_path} says:\n{last_lines}\n"
        "If a server of an earlier demo still runs, stop it; `make clean` removes what the demo left"
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server, and wait until it has stopped."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def show(job: Job) -> None:
    """Ingest, then show the timeline, the past and the changes."""
    heading("Start Spark")
    spark = chronolake_spark.session("chronolake demo")
    try:
        heading("The main job: one commit per file", f"chronolake {shlex.join(job.arguments)}")
        run(job.arguments)
        heading("The timeline", f"chronolake timeline {job.table}")
        run(["timeline", job.table])
        table = chronolake_spark.table(spark, job.table)
        commits = last_commits(table)
        heading("Time travel: the table as of each commit", "table.read(as_of=completion_time)")
        show_past(table, commits)
        if len(commits) > 1:
            heading("What the last commit changed", "table.changes(from_=..., to=...)")
            show_changes(table, commits[-2].completion_time, commits[-1].completion_time)
        steps = "chronolake services preview {0}; chronolake services run --once --table {0}; "
        steps += "chronolake services status {0}"
        heading("Table services keep it fast to read", steps.format(job.table))
        run(["services", "preview", job.table])
        run(["services", "run", "--once", "--table", job.table])
        run(["services", "status", job.table])
        heading("Read it with a stock Hudi reader: hudi-rs", "hudi.HudiTable(base_path).read()")
        if wait_until_it_is_published(table):
            show_hudi(table)
    finally:
        spark.stop()
    heading("What to look at next")
    print_line(NEXT.format(table=job.table, data_dir=data_dir().relative_to(Path.cwd())))


def run(arguments: Sequence[str]) -> None:
    """Run a command of ``chronolake`` in this process, which has Spark already."""
    if code := command_line.run(list(arguments)):
        raise DemoFailed(
            f"`chronolake {arguments[0]}` ended with {code}; what it said is above. "
            "`make clean` removes what earlier runs left under ./.demo"
        )


def last_commits(table: chronolake_spark.SparkTable) -> list[Instant]:
    """The newest completed instants, oldest first."""
    newest = table.metastore.instants(
        state=State.COMPLETED,
        order_by=TimeOrder.COMPLETION_TIME,
        direction=Direction.DESCENDING,
        limit=COMMITS_SHOWN,
    )
    return list(newest)[::-1]


def show_past(table: chronolake_spark.SparkTable, commits: Sequence[Instant]) -> None:
    """Rows, and the total of one column, as of each commit."""
    number = number_column(table)
    shown = Table("as of (completion time)", "records", f"sum of {number}" if number else "")
    for commit in commits:
        total = sf.sum(f"`{number}`") if number else sf.lit("")
        row = table.read(as_of=commit.completion_time).select(sf.count("*"), total).first()
        shown.add_row(output.utc(commit.completion_time), f"{row[0]:,}", f"{row[1]:,}" if number else "")
    console.print(shown)


def number_column(table: chronolake_spark.SparkTable) -> str | None:
    """A column for totals: the first column of numbers that is not a key."""
    numbers = (DecimalType, DoubleType, FloatType, LongType, IntegerType)
    names = [field.name for field in table.read().schema if isinstance(field.dataType, numbers)]
    no_keys = [name for name in names if name not in table.definition.record_key_fields]
    fractions = [field.name for field in table.read().schema if isinstance(field.dataType, numbers[:3])]
    return next(iter([*(name for name in fractions if name in no_keys), *no_keys]), None)


def show_changes(table: chronolake_spark.SparkTable, from_: str | None, to: str | None) -> None:
    """How much changed in the range, and the first rows of it."""
    changes = table.changes(from_, to).cache()
    for row in changes.groupBy("_change_type").count().orderBy("_change_type").collect():
        print_line(f"{row['count']:,} x {row['_change_type']}, for example:")
        same = changes.where(sf.col("_change_type") == row["_change_type"])
        print_rows(same.orderBy(*table.definition.record_key_fields).limit(ROWS_SHOWN))


def wait_until_it_is_published(table: chronolake_spark.SparkTable) -> bool:
    """Wait until the server has published the table in its ``.hoodie``; print why not, and return False."""
    if "timestamp_ntz" in " ".join(field.type for field in table.definition.schema):
        print_line(
            "Left out: hudi-rs 0.5.0 fails on columns of the type timestamp_ntz; Hudi's Spark reads them."
        )
        return False
    print_line(f"Waiting until the server has published the table ({PUBLICATION_SECONDS} s at most) ...")
    began = time.monotonic()
    failure = None
    while time.monotonic() - began < PUBLICATION_SECONDS:
        publication = table.metastore.publication()
        if publication.state is not PublicationState.PUBLISHING:
            print_line(f"Left out: publication is {publication.state.value}: {publication.reason}")
            return False
        if publication.is_visible and not publication.lag_versions:
            print_line(f"Published up to version {publication.version} of the log, in .hoodie of the table")
            return True
        failure = publication.failure
        time.sleep(0.1)
    raise DemoFailed(
        f"the table was not published within {PUBLICATION_SECONDS} s ({failure or 'no failure'}); "
        f"`chronolake hudi status {table.name}` shows its publication"
    )


def show_hudi(table: chronolake_spark.SparkTable) -> None:
    """The rows that both readers read. Raises ``DemoFailed`` unless they are the same number."""
    number = number_column(table)
    names = [*table.definition.record_key_fields, *([number] if number else [])]
    options = hudi.HudiReadOptions().with_projection(names)
    batches = hudi.HudiTable(table.definition.base_path).read(options)
    stored = pa.Table.from_batches(batches) if batches else None
    rows = table.read().select(*(f"`{name}`" for name in names)).toArrow()
    shown = Table("read by", "records", f"sum of {number}" if number else "")
    for reader, read in ((f"hudi-rs {hudi.__version__}", stored), ("Chronolake", rows)):
        total = f"{pc.sum(read[number]).as_py():,}" if number and read else ""
        shown.add_row(reader, f"{len(read) if read else 0:,}", total)
    console.print(shown)
    if (len(stored) if stored else 0) != len(rows):
        raise DemoFailed("hudi-rs and Chronolake read different numbers of records")


def print_rows(frame: DataFrame) -> None:
    """The rows of a small frame; of a wide one the first columns and the last."""
    names = frame.columns
    if len(names) > COLUMNS_SHOWN:
        names = [*names[: COLUMNS_SHOWN - 2], *names[-2:]]
    shown = Table(*(Column(name, no_wrap=True) for name in names))
    for row in frame.select(*(f"`{name}`" for name in names)).collect():
        shown.add_row(*(str(value) for value in row))
    console.print(shown)


NEXT = """\
The data stays under ./.demo, and so can be looked at further. Start the server again:
  .venv/bin/chronolake-metastore serve --data-dir {data_dir} --location .demo/tables
and in another terminal:
  .venv/bin/chronolake timeline {table}          every instant: who, what, when
  .venv/bin/chronolake snapshot {table}          the files that a reader reads now
  .venv/bin/chronolake changes {table}           what changed, by file group
  .venv/bin/chronolake tables show {table}       the table's definition
  .venv/bin/chronolake hudi status {table}       how far it is published for Hudi's readers
  .venv/bin/chronolake services run                  compact, cluster and clean all tables until Ctrl-C
Your own files: make demo DATA=<folder of Parquet, CSV or JSON files>. Remove it all: make clean"""


def print_line(text: str, style: str = "") -> None:
    """Print a line. Only the terminal wraps it, so that it can be copied."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def heading(title: str, how: str = "") -> None:
    """Begin a part of the demo; ``how`` is the command that does the same."""
    print_line(f"\n{title}", style="bold cyan")
    if how:
        print_line(f"$ {how}" if how.startswith("chronolake ") else how, style="dim")


def data_dir() -> Path:
    """The folder of the embedded database."""
    return HOME / "metastore"


def free_port() -> int:
    """A port of the loopback interface that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tool(name: str) -> str:
    """A program that is installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    sys.exit(main())
