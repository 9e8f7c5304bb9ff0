"""The examples run, page by page, each page against a server of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.docs import markdown
from tests.docs.markdown import PAGES, Block
from tests.fix_server import ServerProcess

URL_SHOWN = "http://127.0.0.1:7077"
FOLDER_SHOWN = "/tmp/lake"


def _that_run(page: Path, *ways: str) -> list[Block]:
    return [block for block in markdown.blocks(page) if block.runs in ways]


PLAIN = [page for page in PAGES if _that_run(page, "sh", "python", "sql")]
WITH_SPARK = [page for page in PAGES if _that_run(page, "spark")]


def test_the_pages_that_newcomers_read_have_examples_that_run() -> None:
    assert {"README.md", "docs/quickstart.md"} <= {markdown.name_of(page) for page in PLAIN}
    assert {"README.md", "docs/quickstart.md"} <= {markdown.name_of(page) for page in WITH_SPARK}


def test_every_mark_is_known() -> None:
    marks = {block.runs for page in PAGES for block in markdown.blocks(page)}
    assert marks <= {"", "sh", "python", "sql", "spark", "audit"}


@pytest.mark.parametrize("page", PLAIN, ids=markdown.name_of)
def test_the_examples_of_a_page_run(page: Path, server: ServerProcess, tmp_path: Path) -> None:
    """Shell first, then Python, then SQL: that is the order in which the pages have them."""
    _run(["bash", "-euo", "pipefail"], _script(_that_run(page, "sh"), server, tmp_path))
    _run([sys.executable, "-"], _script(_that_run(page, "python"), server, tmp_path))
    with psycopg.connect(server.dsn) as connection:
        for block in _that_run(page, "sql"):
            connection.execute(block.code.encode())
        # Roles belong to the cluster, so they are dropped.
        connection.rollback()


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_SPARK, ids=markdown.name_of)
def test_the_spark_examples_of_a_page_run(
    page: Path, server: ServerProcess, spark: SparkSession, tmp_path: Path
) -> None:
    script = _script(_that_run(page, "spark"), server, tmp_path)
    names: dict[str, Any] = {}
    exec(compile(script, markdown.name_of(page), "exec"), names)
    names["client"].close()


def _script(examples: Sequence[Block], server: ServerProcess, folder: Path) -> str:
    """The code of ``examples``, with this server and this folder in place of the documented ones."""
    code = "\n".join(block.code for block in examples)
    code = code.replace(URL_SHOWN, server.url).replace(FOLDER_SHOWN, str(folder))
    # A reader sees that a request was refused; a script needs a flag.
    return code.replace("curl -sS", "curl -sS --fail-with-body")


def _run(command: list[str], script: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
