"""The guard under the same attacks in a local folder and in S3: spellings, claims, names of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_storage import claims, opening
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.files import MARKERS_FOLDER, Files
from chronolake_storage.guard import Deleting, Guard
from chronolake_storage.overlaps import TablePlace
from tests.fix_stores import Store

OURS = Owner("metastore-1", "table-1", "shop.orders")
OURSELVES = "20261122060000001"
OTHERS = "20261122060000002"
NAME = base_file_name(bucket_file_id(0), "0-0-0", OURSELVES)
OF_OTHERS = base_file_name(bucket_file_id(0), "0-0-0", OTHERS)
MARKER = f"{MARKERS_FOLDER}/{OURSELVES}/day=1/{NAME}.marker.CREATE"


class NeedsNothing:
    """A metastore that needs no file, so that the other checks have to do."""

    def owner(self) -> Owner | None:
        return OURS

    def tables(self) -> Sequence[TablePlace]:
        return []

    def needed_files(
        self, _deleting: Deleting, _paths: Sequence[str], _recorded: LogHead | None
    ) -> Mapping[str, str]:
        return {}

    def is_hidden(self) -> bool:
        return False


@pytest.fixture
def neighbours(store: Store) -> Files:
    """A table beside ours, with a file of the same name."""
    files = opening.open_files(f"{store.base_path}2", store.options)
    list(files.create_all_empty([f"day=1/{NAME}"]))
    return files


@pytest.fixture
def files(store: Store) -> Files:
    files = store.files()
    paths = [f"day=1/{NAME}", f"day=1/{OF_OTHERS}", MARKER, f"{MARKERS_FOLDER}/{OURSELVES}/notes", "notes"]
    list(files.create_all_empty(paths))
    return files


def there(files: Files) -> set[str]:
    return {file.path for folder in ("", MARKERS_FOLDER) for file in files.listing(folder)}


@pytest.mark.parametrize(
    "path",
    [
        f"../orders2/day=1/{NAME}",
        f"day=1/../../orders2/day=1/{NAME}",
        f"%2e%2e/orders2/day=1/{NAME}",
        f"day=1%2F{NAME}",
        f"day%3D1/{NAME}",
        f"day=1//{NAME}",
        f"./day=1/{NAME}",
        f"/day=1/{NAME}",
        f"day=1/{NAME}/",
        f"day=1/{NAME}\0",
        f"day=1\\{NAME}",
        f"day=1/{OF_OTHERS}",
        f".hoodie/{NAME}",
        f"{MARKERS_FOLDER}/{OURSELVES}/notes",
        f"{MARKERS_FOLDER}/{OURSELVES}/../{OTHERS}/{OF_OTHERS}.marker.CREATE",
        f"{MARKERS_FOLDER}/{OTHERS}/day=1/{NAME}.marker.CREATE",
        claims.PATH,
        "notes",
        "",
    ],
)
def test_no_spelling_leads_to_a_file_that_is_not_named(files: Files, neighbours: Files, path: str) -> None:
    guard = Guard(files, OURS, NeedsNothing())
    claims.ensure_claim(files, OURS, NeedsNothing().owner, NeedsNothing().tables)
    before, beside = there(files), there(neighbours)

    list(guard.delete(Deleting(OURSELVES, OURSELVES), [path]))

    assert (there(files), there(neighbours)) == (before, beside)
    assert files.read(claims.PATH) is not None


def test_only_the_named_files_are_deleted(files: Files, neighbours: Files) -> None:
    guard, before, beside = Guard(files, OURS, NeedsNothing()), there(files), there(neighbours)

    done = list(guard.delete(Deleting(OURSELVES, OURSELVES), [f"day=1/{NAME}", MARKER, f"day=1/{OF_OTHERS}"]))

    assert [outcome.failure is None for outcome in done] == [True, True, False]
    assert there(files) == before - {f"day=1/{NAME}", MARKER}
    assert there(neighbours) == beside


def test_with_the_claim_of_another_metastore_nothing_goes(files: Files) -> None:
    claims.ensure_claim(
        files, Owner("metastore-2", "table-1", "shop.orders"), lambda: None, NeedsNothing().tables
    )
    before = there(files)

    with pytest.raises(ClaimRefused, match="metastore-2"):
        list(
            Guard(files, OURS, NeedsNothing()).delete(Deleting(OURSELVES, OURSELVES), [f"day=1/{NAME}", MARKER])
        )

    assert there(files) == before


def test_a_claim_that_changes_between_two_batches_is_seen(files: Files) -> None:
    guard = Guard(files, OURS, NeedsNothing())
    list(guard.delete(Deleting(OURSELVES, OURSELVES), [MARKER]))
    claims.renew(files, Owner("metastore-2", "table-9", "other.orders"), [], [], force=True)

    with pytest.raises(ClaimRefused, match="metastore-2"):
        list(guard.delete(Deleting(OURSELVES, OURSELVES), [f"day=1/{NAME}"]))
