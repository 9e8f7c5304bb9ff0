"""``chronolake quickstart``: a server of its own, with tables that have rows and a history."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import chronolake
from chronolake import errors
from chronolake.cli import context, output
from chronolake_model.file_names import base_file_name, write_token
from chronolake_model.tables import BucketIndex, Field
from chronolake_model.vocabulary import Action, IndexType, Operation, TableType

if TYPE_CHECKING:
    from rich.console import Console

ORDERS, STOCK = "quickstart.orders", "quickstart.stock"
COMMITS: Final = 20
ROWS_OF_COMMIT: Final = 50
UPSERTS: Final = 3
CHECKPOINTS: Final = 3
START_SECONDS_MAX: Final = 60.0
_PORT: Final = 7077
_LISTENER_SECONDS: Final = 2.0
_COMPLETE: Final = "quickstart.complete"
"""The property that a sample table gets last: without it the table was interrupted, and is made again."""
_PACKAGES: Final = ("litestar", "pyarrow", "obstore", "numpy")
"""A package of each extra that the server and the writes need."""
_STATUSES: Final = ("ordered", "paid", "sent", "returned")


def quickstart(
    folder: Annotated[
        Path, typer.Option("--folder", help="Where the database and the tables are; made if it is missing.")
    ] = Path("chronolake-quickstart"),
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, help="The port of the server.")] = _PORT,
) -> None:
    """Start a server with sample tables, and say what to try next. It runs until Ctrl-C; no Java is needed.

    quickstart.orders has twenty commits, a lost conflict and a rollback; quickstart.stock is merge-on-read, and
    a stream has written to it. A second run starts the server with what is there.
    """
    _refuse_without_packages()
    _refuse_taken(port)
    # A server must not outlive the command that started it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = folder.absolute()
    with _server(home, port) as (url, process), chronolake.connect(url) as client:
        context.progress(f"A server runs at {url}, with PostgreSQL in {home / 'server'}.")
        make_tables(client, home / "tables")
        made = {"url": url, "tables": [ORDERS, STOCK]}
        first = _completion_time(client.table(ORDERS), 0)
        before = _completion_time(client.table(STOCK), UPSERTS - 1)
        output.show(made, functools.partial(_print_next_steps, url=url, first=first, before_stream=before))
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            context.fail(f"the server ended by itself, with exit code {process.wait()}")


def make_tables(client: chronolake.Client, folder: Path) -> None:
    """Make the sample tables, unless they are there; what an interrupted run has left is dropped."""
    client.create_namespace("quickstart", if_not_exists=True)
    present = {table.name: table for table in client.tables("quickstart")}
    for name, make in ((ORDERS, _make_orders), (STOCK, _make_stock)):
        table = present.get(name)
        if table is not None and _COMPLETE in table.definition.properties:
            continue
        if table is not None:
            context.progress(f"{name} is not complete, as an earlier run was interrupted: it is made again.")
            client.drop_table(name)
        make(client, folder).alter(set={_COMPLETE: "true"})


def _make_orders(client: chronolake.Client, folder: Path) -> chronolake.Table:
    orders = client.create_table(
        ORDERS,
        base_path=str(folder / "orders"),
        schema=[
            Field("id", "bigint"),
            Field("status", "string"),
            Field("amount", "double"),
            Field("version", "bigint", nullable=False),
        ],
        record_key_fields=["id"],
        ordering_field="version",
        index=BucketIndex(IndexType.BUCKET, 2),
        reuse_base_path=True,
    )
    for number in range(COMMITS):
        if number == COMMITS // 2:
            _lose_a_conflict(orders, number)
            orders.begin(writer="an interrupted job").rollback("it ended before it had written all files")
        else:
            orders.upsert(_orders_of(number))
    return orders


def _lose_a_conflict(orders: chronolake.Table, number: int) -> None:
    """Two writers change the same files, and the one that completes last is refused and rolled back."""
    slower = orders.begin(operation=Operation.UPSERT, writer="the slower of two writers")
    orders.upsert(_orders_of(number))
    changed = orders.snapshot().slices[0]
    # It is refused, so its file is not needed.
    name = base_file_name(changed.file_id, write_token(0, 0, 0), slower.requested_time)
    slower.add(chronolake.WriteStat(changed.partition_path, changed.file_id, name, size_bytes=1, records=1))
    try:
        slower.complete()
    except errors.WriteConflict:
        slower.rollback("it lost a conflict")


def _orders_of(number: int) -> list[dict[str, object]]:
    """The rows of a commit: half of them are new, and the others update orders of the commit before."""
    first = number * ROWS_OF_COMMIT // 2
    return [
        {"id": id_, "status": _STATUSES[(number + id_) % 4], "amount": id_ * 1.5, "version": number}
        for id_ in range(first, first + ROWS_OF_COMMIT)
    ]


def _make_stock(client: chronolake.Client, folder: Path) -> chronolake.Table:
    stock = client.create_table(
        STOCK,
        base_path=str(folder / "stock"),
        schema=[Field("article", "string"), Field("pieces", "int"), Field("version", "bigint", nullable=False)],
        record_key_fields=["article"],
        ordering_field="version",
        type=TableType.MERGE_ON_READ,
        index=BucketIndex(IndexType.BUCKET, 1),
        reuse_base_path=True,
    )
    for number in range(UPSERTS):
        stock.upsert(
            [
                {"article": f"article {key}", "pieces": (key * 7 + number) % 40, "version": number}
                for key in range(number * 5, 20)
            ]
        )
    _stream_sales(stock)
    return stock


def _stream_sales(stock: chronolake.Table) -> None:
    """Write as a streaming job with one task: rows before a barrier become visible by its checkpoint."""
    import pyarrow as pa  # noqa: PLC0415  # an extra

    from chronolake import streaming  # noqa: PLC0415  # needs pyarrow

    with stock.open_stream("sales", tasks=1, writer="a streaming job") as stream:
        task = streaming.TaskWriter(stream, 0, streaming.StreamFiles(stock))
        for checkpoint in range(1, CHECKPOINTS + 1):
            articles = range(checkpoint, checkpoint + 3)
            sales = {
                "article": [f"article {key}" for key in articles],
                "pieces": pa.array([key * 2 for key in articles], pa.int32()),
                "version": [UPSERTS + checkpoint] * len(articles),
            }
            task.write(pa.table(sales))
            task.barrier(checkpoint)
            stream.complete(checkpoint)
        task.end()
        stream.complete()
        stream.close("the input has ended")


def _completion_time(table: chronolake.Table, number: int) -> str:
    """The time when this write of a sample table completed. At ``earliest`` the table is empty."""
    writes = table.timeline.completed().by_completion_time().where(action=(Action.COMMIT, Action.DELTACOMMIT))
    write = writes.nth(number)
    return "earliest" if write is None or write.completion_time is None else write.completion_time


def _print_next_steps(console: Console, url: str, first: str, before_stream: str) -> None:
    option = "" if url.endswith(f":{_PORT}") else f" --url {url}"
    commands = (
        (f"timeline {ORDERS}", "who wrote what, when; a conflict and a rollback"),
        (f"head {ORDERS} --where \"status = 'paid'\"", "rows, now"),
        (f"head {ORDERS} --as-of {first}", "rows after the first commit"),
        (f"history {ORDERS} --key 60", "each version of one record"),
        (f"diff {ORDERS} {first} latest", "what differs in two states"),
        (f'query "from {ORDERS} select status, count(*) group by all"', "SQL, with the extra duckdb"),
        (f"snapshot {STOCK}", "base files and log files"),
        (f"streams {STOCK}", "a streaming job, and its last complete checkpoint"),
        (f"diff {STOCK} {before_stream} latest", "what the stream changed: three checkpoints, each a commit"),
    )
    lines = [f"chronolake{option} {command}\n    {what}" for command, what in commands]
    text = "\n".join(["", "Try in another terminal:", "", *lines, "", "Ctrl-C stops the server."])
    console.print(text, markup=False, soft_wrap=True)


def _refuse_without_packages() -> None:
    """Fail before a server makes a database, if the tables could not be written to it."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            context.fail(f"{package} is not installed: pip install 'chronolake[server,arrow]'")


def _refuse_taken(port: int) -> None:
    """Fail if the port is taken: the tables would be made at another server."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as exc:
        # The text of create_server itself says it twice.
        reason = os.strerror(exc.errno or 0)
        listening = f"; {_listener(port)} listens there" if exc.errno == errno.EADDRINUSE else ""
        context.fail(f"the port {port} cannot be used ({reason}{listening}): give another one by --port")


def _listener(port: int) -> str:
    """The program that has the port. A Chronolake server without its database is one too."""
    url = f"http://127.0.0.1:{port}"
    with chronolake.connect(url, timeout_seconds=_LISTENER_SECONDS, retry_seconds=0) as client:
        try:
            client.time()
        except errors.ChronolakeError as exc:
            if exc.problem is None or exc.code == errors.UNEXPECTED_ANSWER:
                return "another program"
    return "a Chronolake server"


@contextlib.contextmanager
def _server(home: Path, port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server in a process of its own, and its URL. Its data and its tables are in two folders of ``home``."""
    command = [sys.executable, "-c", "from chronolake_start import server; server()", "serve"]
    command += ["--data-dir", str(home / "server"), "--location", str(home / "tables")]
    command += ["--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(url, process, command)
        yield url, process
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], command: list[str]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    with chronolake.connect(url, retry_seconds=0) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.time()
            except (errors.ConnectionFailed, errors.ServerUnavailable):
                time.sleep(0.1)
            else:
                return
    context.fail(f"the server did not start: {shlex.join(command)}")
