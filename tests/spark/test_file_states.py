"""Files that change while they are loaded, without a JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chronolake_spark import errors
from chronolake_spark.write import source_states


def test_a_file_that_was_written_replaced_or_removed_has_changed(tmp_path: Path):
    files = {name: tmp_path / name for name in ("same", "written", "replaced", "removed")}
    for file in files.values():
        file.write_text("1")
    states = {str(file): source_states.state_of_file(file) for file in files.values()}
    source_states.refuse_changed_files(states)

    times = files["written"].stat()
    files["written"].write_text("2")
    os.utime(files["written"], ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "new").write_text("1")
    (tmp_path / "new").replace(files["replaced"])
    files["removed"].unlink()

    with pytest.raises(errors.SourceChanged) as refused:
        source_states.refuse_changed_files(states)
    assert refused.value.problem is not None
    assert refused.value.problem.context == {
        "files": [str(files[name]) for name in ("written", "replaced", "removed")]
    }
