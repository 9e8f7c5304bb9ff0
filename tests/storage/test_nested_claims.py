"""Tables of two metastores in one another: neither deletes in a folder that the other has claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_storage import claims, opening
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.files import Files
from chronolake_storage.guard import Deleting, Guard
from chronolake_storage.overlaps import TablePlace
from tests.fix_stores import Store

OUTER = Owner("metastore-1", "table-1", "shop.orders")
INNER = Owner("metastore-2", "table-2", "other.orders")
INSTANT = "20260101000000000"
NAME = base_file_name(bucket_file_id(0), "0-0-0", INSTANT)


class Willing:
    """A metastore that needs no file."""

    def owner(self) -> Owner:
        return OUTER

    def tables(self) -> Sequence[TablePlace]:
        return []

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        return {}

    def is_hidden(self) -> bool:
        return False


@pytest.fixture
def files(store: Store) -> Files:
    files = store.files()
    files.make_folder()
    return files


def delete(files: Files, *paths: str) -> dict[str, str | None]:
    guard = Guard(files, OUTER, Willing())
    return {outcome.path: outcome.failure for outcome in guard.delete(Deleting(INSTANT, INSTANT), paths)}


@pytest.mark.parametrize("inner", ["day=1", "day=1/hour=2"])
def test_a_file_in_a_folder_that_another_table_has_claimed_stays(files: Files, inner: str) -> None:
    theirs, deeper, ours = f"{inner}/{NAME}", f"{inner}/part=3/{NAME}", f"day=2/{NAME}"
    list(files.create_all_empty([theirs, deeper, ours]))
    files.create(f"{inner}/{claims.PATH}", b"{}")

    failures = delete(files, theirs, deeper, ours)

    assert failures[ours] is None
    assert all(f"{inner} is claimed by another table" in str(failures[path]) for path in (theirs, deeper))
    assert [size is not None for size in files.sizes([theirs, deeper, ours])] == [True, True, False]


def claim_of(owner: Owner) -> bytes:
    return msgspec.json.encode(claims.Claim(1, owner.metastore_id, owner.table_id, owner.table, "2026-01-01"))


@pytest.mark.parametrize("claim", [claim_of(INNER), b"{}"], ids=["another metastore", "unreadable"])
def test_nothing_is_claimed_or_deleted_below_a_folder_that_another_metastore_has_claimed(
    store: Store, files: Files, claim: bytes
) -> None:
    below = opening.open_files(f"{store.base_path}/day=1/part=2", store.options)
    list(below.create_all_empty([NAME, "new/notes"]))
    claims.ensure_claim(below, OUTER, lambda: OUTER, list)
    new = opening.open_files(f"{store.base_path}/day=1/part=2/new", store.options)
    files.create(claims.PATH, claim)

    with pytest.raises(ClaimRefused, match=r"lies in a claimed folder"):
        delete(below, NAME)
    with pytest.raises(ClaimRefused, match=r"lies in a claimed folder"):
        claims.ensure_claim(new, OUTER, lambda: OUTER, list)
    assert list(below.sizes([NAME])) == [0]


def test_a_claim_above_of_a_dropped_table_of_the_metastore_does_not_matter(store: Store, files: Files) -> None:
    below = opening.open_files(f"{store.base_path}/day=1", store.options)
    list(below.create_all_empty([NAME]))
    files.create(claims.PATH, claim_of(Owner("metastore-1", "table-0", "shop.dropped")))

    assert delete(below, NAME) == {NAME: None}


def test_a_link_among_the_folders_hides_no_claim(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "table"), None)
    files = store.files()
    files.make_folder()
    (tmp_path / "table" / "day=0").symlink_to(tmp_path)
    theirs = f"day=1/{NAME}"
    list(files.create_all_empty([theirs]))
    files.create(f"day=1/{claims.PATH}", b"{}")

    failures = delete(files, f"day=0/{NAME}", theirs)

    assert "is a link" in str(failures[f"day=0/{NAME}"])
    assert "claimed by another table" in str(failures[theirs])
