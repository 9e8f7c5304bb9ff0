"""The files of a commit, as its extra metadata names them, and files that change while they are loaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from chronolake.ingest import loaded_files
from chronolake_model.instants import CompleteInstant
from chronolake_model.tables import PROPERTIES_BYTES_MAX
from chronolake_spark import errors

OTHER_METADATA = {"ingest.source": "n" * 255, "rows.read": "9" * 20, "conflicts.retries": "10"}


def digests_of(names: list[str]) -> dict[Path, str]:
    return {Path("/drop", name): hashlib.sha256(name.encode()).hexdigest() for name in names}


@pytest.mark.parametrize(
    "name",
    ["{}.csv", '"' * 80 + "{}.csv", "é" * 80 + "{}.csv", "n" * 240 + "/{}.csv"],
    ids=["short", "quotes", "accents", "long"],
)
def test_of_thousands_of_files_each_is_in_one_commit_whose_metadata_fits(name: str) -> None:
    digests = digests_of([name.format(number) for number in range(5_000)])

    portions = list(loaded_files.portions(digests, digests))

    assert [file for portion in portions for file in portion] == list(digests)
    sizes = []
    for portion in portions:
        metadata = loaded_files.metadata({file: digests[file] for file in portion})
        CompleteInstant(extra_metadata={**OTHER_METADATA, **metadata})
        sizes.append(len(msgspec.json.encode(metadata)))
    assert min(sizes[:-1]) > 0.8 * PROPERTIES_BYTES_MAX, "the room is used"


def test_a_commit_has_no_more_files_than_are_wanted() -> None:
    digests = digests_of([str(number) for number in range(5)])
    assert [len(portion) for portion in loaded_files.portions(digests, digests, 2)] == [2, 2, 1]
    assert list(loaded_files.portions([], {}, 2)) == []


def test_a_file_that_was_written_replaced_or_removed_has_changed(tmp_path: Path):
    files = {name: tmp_path / name for name in ("same", "written", "replaced", "removed")}
    for file in files.values():
        file.write_text("1")
    states = {str(file): loaded_files.state_of_file(file) for file in files.values()}
    loaded_files.refuse_changed_files(states)

    times = files["written"].stat()
    files["written"].write_text("2")
    os.utime(files["written"], ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "new").write_text("1")
    (tmp_path / "new").replace(files["replaced"])
    files["removed"].unlink()

    with pytest.raises(errors.SourceChanged) as refused:
        loaded_files.refuse_changed_files(states)
    assert refused.value.problem is not None
    assert refused.value.problem.context == {
        "files": [str(files[name]) for name in ("written", "replaced", "removed")]
    }
