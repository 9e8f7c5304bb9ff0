"""A Flink job that writes a stream of orders into a table: ``python examples/flink/flink_orders.py``.

It creates the table, compiles the job with ``javac``, and runs it on a local Flink in a process of its own.
``--restore`` continues from the newest checkpoint of an earlier run. README.md has more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import chronolake
from chronolake import BucketIndex, Field, TableType

HERE = Path(__file__).parent
BUCKETS = 4
JOB_NUMBERS = {
    "rows": (20_000, "changes of orders in all; must be the same with --restore"),
    "rate": (1_000, "changes a second"),
    "keys": (1_000, "orders"),
    "tasks": (2, "parallel tasks"),
}
ENVIRONMENT = HERE.parents[1] / ".flink-env"
# What Flink's own configuration gives to Java 17.
JAVA_OPTIONS = ("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.time=ALL-UNNAMED")


def main(arguments: Sequence[str]) -> int:
    """Run one command line; gives the job's exit code."""
    options = _parser().parse_args(arguments)
    folder = options.folder.absolute()
    checkpoints = folder / "checkpoints"
    with chronolake.connect(options.server) as client:
        create_table(client, options.table, folder / "orders")
    job = ["--server", options.server, "--table", options.table, "--checkpoints", checkpoints.as_uri()]
    for name in JOB_NUMBERS:
        job += [f"--{name}", str(getattr(options, name))]
    if options.restore:
        job += ["--restore", str(newest_checkpoint(checkpoints))]
    with tempfile.TemporaryDirectory() as classes:
        compile_java(options.flink, Path(classes), sorted((HERE / "chronolake").glob("*.java")))
        command = java_command(options.flink, Path(classes), "chronolake.OrdersJob", job)
        return subprocess.run(command, check=False).returncode


def create_table(client: chronolake.Client, name: str, base_path: Path) -> chronolake.Table:
    """The table of orders, made and claimed unless it is there."""
    client.create_namespace(name.partition(".")[0], if_not_exists=True)
    base_path.mkdir(parents=True, exist_ok=True)
    try:
        table = client.table(name)
    except chronolake.errors.TableNotFound:
        table = _new_table(client, name, base_path)
    # The sink only checks the claim, because not every file system of Flink could make it safely.
    table.claim_storage()
    return table


def _new_table(client: chronolake.Client, name: str, base_path: Path) -> chronolake.Table:
    return client.create_table(
        name,
        base_path=str(base_path),
        schema=[
            Field("id", "bigint", nullable=False),
            Field("n", "bigint", nullable=False),
            Field("day", "date"),
            Field("note", "string"),
        ],
        type=TableType.MERGE_ON_READ,
        record_key_fields=["id"],
        partition_fields=["day"],
        ordering_field="n",
        index=BucketIndex(buckets=BUCKETS),
    )


def compile_java(flink: Path, classes: Path, sources: Sequence[Path]) -> None:
    """Compile Java files against Flink; JAVA_HOME names the JDK, or javac is on the path."""
    if not flink.is_dir():
        sys.exit(f"there is no Flink in {flink}: run python tools/make_flink_env.py {flink}")
    classpath = os.pathsep.join([f"{flink}/*", str(classes)])
    subprocess.run([_java("javac"), "-d", classes, "-cp", classpath, *sources], check=True)


def java_command(flink: Path, classes: Path, main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a job on a local Flink."""
    classpath = os.pathsep.join([str(classes), f"{flink}/*"])
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    return [_java("java"), "-Xmx1g", *JAVA_OPTIONS, logging, "-cp", classpath, main_class, *arguments]


def newest_checkpoint(folder: Path) -> Path:
    """The newest complete checkpoint of all runs below a folder."""
    complete = list(folder.glob("*/chk-*/_metadata"))
    if not complete:
        sys.exit(f"there is no complete checkpoint in {folder}: start without --restore")
    return max(complete, key=lambda path: path.stat().st_mtime_ns).parent


def _java(program: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/{program}" if home else program


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Write a stream of orders with Flink.")
    parser.add_argument("--server", default="http://127.0.0.1:7077", help="the URL of the server")
    parser.add_argument("--table", default="shop.flink_orders", help="the table, made if it is not there")
    parser.add_argument(
        "--folder", type=Path, default=Path("flink-orders"), help="for the table's files and the checkpoints"
    )
    parser.add_argument("--flink", type=Path, default=ENVIRONMENT, help="the folder of tools/make_flink_env.py")
    parser.add_argument("--restore", action="store_true", help="continue from the newest checkpoint")
    for name, (number, meaning) in JOB_NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=number, help=f"{meaning} ({number})")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
