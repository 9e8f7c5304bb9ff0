"""Folders of two tables that became one by a link that was made after the tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

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
def lake(tmp_path: Path) -> Path:
    """A lake with the folder of a table, ``real/orders``."""
    (tmp_path / "real" / "orders").mkdir(parents=True)
    return tmp_path


def link(lake: Path, name: str, target: str) -> Path:
    (lake / name).parent.mkdir(parents=True, exist_ok=True)
    (lake / name).symlink_to(lake / target)
    return lake / name


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
    lake: Path, linked: str, target: str, own: str, other: str
) -> None:
    link(lake, linked, target)
    files = opening.open_files(str(lake / own))
    tables = [place(lake / own, "b"), place(lake / other)]

    with pytest.raises(ClaimRefused, match=r"of the table shop\.b overlaps .* of the table shop\.a"):
        claims.ensure_claim(files, OURS, present, lambda: tables)
    with pytest.raises(ClaimRefused, match="overlaps"):
        claims.renew(files, OURS, [], tables, force=True)
    assert files.read(claims.PATH) is None


def test_a_base_path_that_is_a_link_is_claimed_where_no_other_table_is(lake: Path) -> None:
    link(lake, "alias", "real")
    files = opening.open_files(str(lake / "alias" / "orders"))
    others = [
        place(lake / "real" / "orders2"),
        place(f"file://{lake}/real/order"),
        place(f"s3://bucket{lake}/real/orders"),
        place("real/orders"),
        place(lake / "alias" / "orders", "b"),
    ]

    claims.ensure_claim(files, OURS, present, lambda: others)

    assert files.read(claims.PATH) is not None


def test_tables_are_not_asked_for_once_there_is_a_claim(lake: Path) -> None:
    files = opening.open_files(str(lake / "real" / "orders"))
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

    def needed_files(self, _deleting: Deleting, _paths: Sequence[str]) -> Mapping[str, str]:
        return {}


@pytest.mark.parametrize("target", ["real/orders", "real/orders/day=1"], ids=["itself", "within"])
def test_nothing_is_deleted_where_a_link_newer_than_the_claim_leads_to_another_table(
    lake: Path, target: str
) -> None:
    files = opening.open_files(str(lake / "real" / "orders"))
    claims.ensure_claim(files, OURS, present, list)
    list(files.create_all_empty([f"day=1/{NAME}"]))
    link(lake, "other", target)
    guard = Guard(files, OURS, Lists(place(lake / "real" / "orders", "b"), place(lake / "other")))

    with pytest.raises(ClaimRefused, match="overlaps"):
        list(guard.delete(Deleting(INSTANT, INSTANT), [f"day=1/{NAME}"]))
    (lake / "other").unlink()
    assert [one.failure for one in guard.delete(Deleting(INSTANT, INSTANT), [f"day=1/{NAME}"])] == [None]


def test_folders_of_one_device_and_inode_overlap_whatever_their_paths_say(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A mount gives a folder a second path without any link, and only a superuser could make one here.
    link(lake, "mount", "real")
    monkeypatch.setattr(os.path, "realpath", str)

    assert overlaps.find_overlapping(str(lake / "mount" / "orders"), [place(lake / "real")]) is not None
    assert overlaps.find_overlapping(str(lake / "mount"), [place(lake / "real" / "orders")]) is not None
    assert overlaps.find_overlapping(str(lake / "mount" / "orders"), [place(lake / "real" / "x")]) is None
