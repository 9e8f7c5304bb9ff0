"""The example writers, run as programs of their own; and the records of a table, read with Arrow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import chronolake
from chronolake_spark.driver import java
from tests.docs.markdown import ROOT

FOLDER = ROOT / "examples" / "writers"
Row = dict[str, Any]


def python_program() -> list[str]:
    return [sys.executable, str(FOLDER / "python_writer.py")]


def java_program() -> list[str]:
    """The Java writer, compiled by the Janino that Spark brings: a JRE has no compiler."""
    home = java.home() or os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return [
        *(program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"),
        *("org.codehaus.janino.SimpleCompiler", str(FOLDER / "JavaWriter.java"), "JavaWriter"),
    ]


PROGRAMS = {"python": python_program, "java": java_program}


def run(language: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a writer to its end."""
    command = [*PROGRAMS[language](), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def write(
    language: str, table: chronolake.Table, url: str, operation: str, rows: Sequence[Row], folder: Path
) -> Row:
    """Write rows; gives the instant."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = run(language, url, table.name, operation, str(file))
    assert done.returncode == 0, done.stderr
    instant: Row = json.loads(done.stdout)
    return instant


def records(table: chronolake.Table) -> list[Row]:
    """Every record of the snapshot, with the columns before its own."""
    base = Path(table.definition.base_path)
    return [
        row
        for file_slice in table.snapshot().slices
        if file_slice.base_file is not None
        for row in pq.read_table(base / file_slice.base_file.path, partitioning=None).to_pylist()
    ]
