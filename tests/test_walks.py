"""The tool that counts the files of an action runs, and finds what each action passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
