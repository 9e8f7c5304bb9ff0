"""Folders of two tables that became one by a link that was made after the tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_storage import claims, opening, overlaps
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.guard import Deleting, Guard
from chronolake_storage.overlaps import TablePlace

INSTANT = "20260101000000000"
NAME = base_file_name(bucket_file_id(0), "0-0-0", INSTANT)
OURS = Owner("metastore-1", "table-b", "shop.b")


def present() -> Owner:
    return OURS


def place(base_path: Path | str, table: str = "a") -> TablePlace:
    return TablePlace(f"table-{table}", f"shop.{table}", str(base_path))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with that of a table, ``real/orders``."""
    (tmp_path / "real" / "orders").mkdir(parents=True)
    return tmp_path


def link(root: Path, name: str, target: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(root / target)
    return root / name


@pytest.mark.parametrize(
    ("linked", "target", "own", "other"),
    [
        ("alias", "real/orders", "alias", "real/orders"),
        ("alias", "real", "alias/orders", "real/orders"),
        ("far/alias", "real", "far/alias/orders", "real/orders"),
        ("alias", "real", "alias", "real/orders"),
        ("alias", "real", "alias/orders", "real"),
        ("alias", "real", "real/orders", "alias/orders"),
        ("alias", "real", "real", "alias/orders"),
    ],
    ids=[
        "itself",
        "parent",
        "grandparent",
        "other within",
        "own within",
        "other linked",
        "other linked within",
    ],
)
def test_no_first_claim_is_made_where_a_link_leads_to_another_table(
    root: Path, linked: str, target: str, own: str, other: str
) -> None:
    link(root, linked, target)
    files = opening.open_files(str(root / own))
    tables = [place(root / own, "b"), place(root / other)]

    with pytest.raises(ClaimRefused, match=r"of the table shop\.b overlaps .* of the table shop\.a"):
        claims.ensure_claim(files, OURS, present, lambda: tables)
    with pytest.raises(ClaimRefused, match="overlaps"):
        claims.renew(files, OURS, [], tables, force=True)
    assert files.read(claims.PATH) is None


def test_a_base_path_that_is_a_link_is_claimed_where_no_other_table_is(root: Path) -> None:
    link(root, "alias", "real")
    files = opening.open_files(str(root / "alias" / "orders"))
    others = [
        place(root / "real" / "orders2"),
        place(f"file://{root}/real/order"),
        place(f"s3://bucket{root}/real/orders"),
        place("real/orders"),
        place(root / "alias" / "orders", "b"),
    ]

    claims.ensure_claim(files, OURS, present, lambda: others)

    assert files.read(claims.PATH) is not None


@pytest.mark.parametrize(
    "folder", ["real", "real/orders", "real/orders/day=1"], ids=["around", "the same", "within"]
)
def test_a_dropped_table_whose_base_path_overlaps_as_it_is_written_does_not_matter(
    root: Path, folder: str
) -> None:
    files = opening.open_files(str(root / "real" / "orders"))
    dropped = TablePlace("table-a", "shop.a", f"file://{root}/{folder}/", is_dropped=True)

    claims.ensure_claim(files, OURS, present, lambda: [dropped])

    assert files.read(claims.PATH) is not None


def test_tables_are_not_listed_once_a_claim_exists(root: Path) -> None:
    files = opening.open_files(str(root / "real" / "orders"))
    claims.ensure_claim(files, OURS, present, list)

    def unasked() -> Sequence[TablePlace]:
        raise AssertionError("a claim was there")

    claims.ensure_claim(files, OURS, present, unasked)


class Lists:
    """A metastore with these tables, which needs no file."""

    def __init__(self, *tables: TablePlace) -> None:
        self._tables = tables

    def owner(self) -> Owner:
        return OURS

    def tables(self) -> Sequence[TablePlace]:
        return self._tables

    def needed_files(
        self, _deleting: Deleting, _paths: Sequence[str], _recorded: LogHead | None
    ) -> Mapping[str, str]:
        return {}

    def is_hidden(self) -> bool:
        return False


@pytest.mark.parametrize("target", ["real/orders", "real/orders/day=1"], ids=["itself", "within"])
def test_nothing_is_deleted_where_a_link_newer_than_the_claim_leads_to_another_table(
    root: Path, target: str
) -> None:
    files = opening.open_files(str(root / "real" / "orders"))
    claims.ensure_claim(files, OURS, present, list)
    list(files.create_all_empty([f"day=1/{NAME}"]))
    link(root, "other", target)
    guard = Guard(files, OURS, Lists(place(root / "real" / "orders", "b"), place(root / "other")))

    with pytest.raises(ClaimRefused, match="overlaps"):
        list(guard.delete(Deleting(INSTANT, INSTANT), [f"day=1/{NAME}"]))
    (root / "other").unlink()
    assert [outcome.failure for outcome in guard.delete(Deleting(INSTANT, INSTANT), [f"day=1/{NAME}"])] == [
        None
    ]


def test_folders_of_one_device_and_inode_overlap_under_any_paths(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A mount gives a folder a second path without any link, and only a superuser could make one here.
    link(root, "mount", "real")
    monkeypatch.setattr(os.path, "realpath", str)

    assert overlaps.find_overlapping(str(root / "mount" / "orders"), [place(root / "real")]) is not None
    assert overlaps.find_overlapping(str(root / "mount"), [place(root / "real" / "orders")]) is not None
    assert overlaps.find_overlapping(str(root / "mount" / "orders"), [place(root / "real" / "x")]) is None
