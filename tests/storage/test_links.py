"""Links below a base path are never followed, whenever they appear."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from chronolake_storage import opening
from chronolake_storage.errors import LinkRefused
from chronolake_storage.files import Files
from tests.fix_stores import permitted

LINKED = ["day=1/a.parquet", "day=1/hour=2/a.parquet"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table's folder, and beside it an unrelated folder."""
    (tmp_path / "victim" / "hour=2").mkdir(parents=True)
    (tmp_path / "victim" / "a.parquet").write_bytes(b"precious")
    (tmp_path / "victim" / "hour=2" / "a.parquet").write_bytes(b"precious")
    (tmp_path / "orders" / "day=0").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def files(root: Path) -> Files:
    return opening.open_files(str(root / "orders"))


def precious(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "victim")) for path in (root / "victim").rglob("*.parquet"))


@pytest.mark.parametrize("target", ["victim", "orders/day=0"])
def test_nothing_is_deleted_through_a_linked_folder(root: Path, files: Files, target: str) -> None:
    (root / "orders" / "day=0" / "a.parquet").write_bytes(b"of another partition")
    (root / "orders" / "day=1").symlink_to(root / target)

    deletions = list(files.delete_permitted(permitted(LINKED)))

    assert [deletion.path for deletion in deletions] == LINKED
    assert all(deletion.failure is not None and "day=1 is a link" in deletion.failure for deletion in deletions)
    assert precious(root) == ["a.parquet", "hour=2/a.parquet"]
    assert (root / "orders" / "day=0" / "a.parquet").exists()


def test_a_link_deeper_down_is_not_followed_either(root: Path, files: Files) -> None:
    (root / "orders" / "day=1").mkdir()
    (root / "orders" / "day=1" / "hour=2").symlink_to(root / "victim" / "hour=2")

    [deletion] = files.delete_permitted(permitted(["day=1/hour=2/a.parquet"]))

    assert deletion.failure is not None
    assert precious(root) == ["a.parquet", "hour=2/a.parquet"]


def test_a_linked_folder_is_not_listed_and_its_files_are_not_sized(root: Path, files: Files) -> None:
    (root / "orders" / "day=1").symlink_to(root / "victim")

    assert [file.path for file in files.listing()] == ["day=1"]
    with pytest.raises(LinkRefused, match="day=1 is a link"):
        list(files.listing("day=1"))
    with pytest.raises(LinkRefused, match="day=1 is a link"):
        list(files.sizes(LINKED))


def test_nothing_is_created_or_read_through_a_linked_folder(root: Path, files: Files) -> None:
    (root / "orders" / "day=1").symlink_to(root / "victim")

    with pytest.raises(LinkRefused):
        list(files.create_all_empty(["day=1/new"]))
    with pytest.raises(LinkRefused):
        files.create("day=1/new", b"claim")
    with pytest.raises(LinkRefused):
        files.read("day=1/a.parquet")
    with pytest.raises(LinkRefused):
        files.read_range("day=1/a.parquet", 0, 1)
    with pytest.raises(LinkRefused):
        files.replace("day=1/a.parquet", b"other", "tag")
    assert precious(root) == ["a.parquet", "hour=2/a.parquet"]
    assert not (root / "victim" / "new").exists()


def test_a_linked_file_is_removed_itself_and_its_target_stays(root: Path, files: Files) -> None:
    (root / "orders" / "day=0" / "link.parquet").symlink_to(root / "victim" / "a.parquet")

    [deletion] = files.delete_permitted(permitted(["day=0/link.parquet"]))

    assert deletion.failure is None
    assert not (root / "orders" / "day=0" / "link.parquet").is_symlink()
    assert precious(root) == ["a.parquet", "hour=2/a.parquet"]


def test_a_linked_claim_is_not_read(root: Path, files: Files) -> None:
    (root / "orders" / ".hoodie").mkdir()
    (root / "orders" / ".hoodie" / "claim").symlink_to(root / "victim" / "a.parquet")

    with pytest.raises(LinkRefused):
        files.read(".hoodie/claim")


def test_empty_folders_are_removed_but_none_behind_a_link(root: Path, files: Files) -> None:
    (root / "victim" / "empty").mkdir()
    (root / "orders" / ".hoodie" / ".temp" / "1" / "day=1").mkdir(parents=True)
    (root / "orders" / ".hoodie" / ".temp" / "1" / "day=2").symlink_to(root / "victim")

    files.remove_empty_folders_unguarded(".hoodie/.temp/1")

    assert sorted(path.name for path in (root / "orders" / ".hoodie" / ".temp" / "1").iterdir()) == ["day=2"]
    assert (root / "victim" / "empty").is_dir()


def test_the_base_path_itself_may_be_a_link(root: Path) -> None:
    (root / "orders" / "day=0" / "a.parquet").write_bytes(b"")
    (root / "alias").symlink_to(root / "orders")

    [deletion] = opening.open_files(str(root / "alias")).delete_permitted(permitted(["day=0/a.parquet"]))

    assert deletion.failure is None
    assert not (root / "orders" / "day=0" / "a.parquet").exists()


def test_a_folder_that_is_swapped_for_a_link_meanwhile_is_never_followed(root: Path, files: Files) -> None:
    partition, aside, over = root / "orders" / "day=1", root / "aside", threading.Event()
    link = root / "link"
    link.symlink_to(root / "victim")
    partition.mkdir()

    def swap() -> None:
        while not over.is_set():
            os.rename(partition, aside)
            os.rename(link, partition)
            os.rename(partition, link)
            os.rename(aside, partition)

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: set[str] = set()
    # On a busy machine the swapper may not come in between for long.
    for number in range(300_000):
        outcomes |= {
            (outcome.failure or "gone").rpartition("/")[2]
            for outcome in files.delete_permitted(permitted(LINKED))
        }
        if number >= 3_000 and "gone" in outcomes and any("is a link" in outcome for outcome in outcomes):
            break
    over.set()
    swapper.join()

    assert precious(root) == ["a.parquet", "hour=2/a.parquet"]
    assert any("is a link" in outcome for outcome in outcomes)
    assert "gone" in outcomes
