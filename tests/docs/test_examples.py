"""The examples run, page by page, each page against a server of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from tests.docs import markdown
from tests.docs.markdown import PAGES, Block
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.published import PUBLISHES

URL_SHOWN = "http://127.0.0.1:7077"
FOLDER_SHOWN = "/tmp/lake"
UNREADABLE_BY_HUDI = "chronolake.hudi"
"""The logger of warnings that Hudi's readers will not see a table."""


def _that_run(page: Path, *ways: str) -> list[Block]:
    return [block for block in markdown.blocks(page) if block.runs in ways]


PLAIN = [page for page in PAGES if _that_run(page, "sh", "python", "sql")]
WITH_SPARK = [page for page in PAGES if _that_run(page, "spark")]


def test_the_pages_that_newcomers_read_have_examples_that_run() -> None:
    assert {"README.md", "docs/quickstart.md"} <= {markdown.name_of(page) for page in PLAIN}
    assert {"README.md", "docs/spark.md"} <= {markdown.name_of(page) for page in WITH_SPARK}


def test_every_mark_is_known() -> None:
    marks = {block.runs for page in PAGES for block in markdown.blocks(page)}
    assert marks <= {"", "sh", "python", "sql", "spark", "audit", "readme"}


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


@pytest.fixture
def publishing(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server that publishes for Hudi's readers, as servers do by default."""
    return new_server(dsn, *PUBLISHES)


@pytest.fixture
def lake(spark: SparkSession, publishing: ServerProcess) -> Iterator[None]:
    """The session's catalog is that of the server, as if it was started for it."""
    chronolake_spark.catalog(spark, "lake", publishing.url)
    yield
    spark.conf.unset("spark.sql.catalog.lake.url")
    spark._jsparkSession.sessionState().catalogManager().reset()


@pytest.mark.spark
@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("page", WITH_SPARK, ids=markdown.name_of)
def test_the_spark_examples_of_a_page_run(
    page: Path,
    publishing: ServerProcess,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = _executed(_that_run(page, "spark"), publishing, tmp_path)
    names["client"].close()
    assert [record.getMessage() for record in caplog.records if record.name == UNREADABLE_BY_HUDI] == []


@pytest.mark.spark
@pytest.mark.usefixtures("lake")
def test_the_examples_that_read_the_table_of_the_readme_run(publishing: ServerProcess, tmp_path: Path) -> None:
    _executed(_that_run(markdown.ROOT / "README.md", "spark"), publishing, tmp_path)["client"].close()
    with chronolake.connect(publishing.url) as client:
        wait_until(lambda: client.table("shop.sales").publication().lag_versions == 0)

    pages = [examples for page in PAGES if (examples := _that_run(page, "readme"))]
    assert len(pages) == 3
    for examples in pages:
        _executed(examples, publishing, tmp_path)


def _executed(examples: Sequence[Block], server: ServerProcess, folder: Path) -> dict[str, Any]:
    """The names of the examples after they have run in this process."""
    names: dict[str, Any] = {}
    exec(compile(_script(examples, server, folder), markdown.name_of(examples[0].page), "exec"), names)
    return names


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
    assert "as soon as it has log files" not in done.stderr, "Hudi's readers can read the tables of examples"
