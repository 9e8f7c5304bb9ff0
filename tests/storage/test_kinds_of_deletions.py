"""Each kind of deletion asks each question of the guard: what is protected stays, whatever would delete it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.markers import Marker, MarkerKind
from chronolake_storage import claims
from chronolake_storage.claims import Claim, Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.files import MARKERS_FOLDER
from chronolake_storage.guard import INDEX_FOLDER, Deleting, Guard
from chronolake_storage.local import LocalFiles
from chronolake_storage.overlaps import TablePlace
from chronolake_storage.permits import Answers, Permit

OURS = Owner("metastore-1", "table-1", "shop.orders")
THEN, LATER = "20260101000000000", "20260102000000000"
NAME = base_file_name(bucket_file_id(0), "0-0-0", THEN)
DATA = f"day=1/{NAME}"
MARKER = Marker("day=1", NAME, MarkerKind.CREATE)
TIMELINE = f".hoodie/timeline/{THEN}.compaction.requested"
INDEX = f"{INDEX_FOLDER}/table-1/record/manifests/1.json"


class Metastore:
    """A metastore that needs some files, and has some tables."""

    def __init__(self) -> None:
        self.needs: list[str] = []
        self.places: list[TablePlace] = []

    def owner(self) -> Owner:
        return OURS

    def tables(self) -> Sequence[TablePlace]:
        return self.places

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        return {path: "a table needs it" for path in paths if path in self.needs}

    def is_hidden(self) -> bool:
        return False


Delete = Callable[[Guard, str], object]


def deleting(by: str | None, files_of: str | None, writer: str | None = None, **how: bool) -> Delete:
    return lambda guard, path: list(guard.delete(Deleting(by, files_of, writer, **how), [path]))


OF_DATA: dict[str, Delete] = {
    "a rollback": deleting(LATER, THEN, "w"),
    "a clean": deleting(LATER, None, "w"),
    "the failed attempts of a write": deleting(THEN, THEN, "w"),
    "a sweep of a rollback": deleting(LATER, THEN),
    "a sweep of a write": deleting(THEN, THEN),
    "orphans": deleting(None, THEN),
    "orphans of unknown instants": deleting(None, THEN, unknown_instants=True),
}
OF_OTHERS: dict[str, tuple[str, Delete]] = {
    "direct markers": (
        f"{MARKERS_FOLDER}/{THEN}/{MARKER.name}",
        lambda guard, path: list(guard.delete(Deleting(None, THEN), [path])),
    ),
    "the publication": (TIMELINE, lambda guard, path: guard.remove_published([path])),
    "a pending instant of Hudi": (TIMELINE, lambda guard, path: guard.remove_undone([path])),
    "an index": (INDEX, lambda guard, path: guard.remove_index_files([path])),
}
KINDS = {**{kind: (DATA, delete) for kind, delete in OF_DATA.items()}, **OF_OTHERS}


class Lake:
    """The folder of a table with one file, beside that of another table."""

    def __init__(self, folder: Path, path: str) -> None:
        self.metastore = Metastore()
        self.folder, self.path = folder, path
        self.files = LocalFiles(str(folder / "orders"))
        self.guard = Guard(self.files, OURS, self.metastore)
        for table in ("orders", "other"):
            (folder / table / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / table / path).write_bytes(b"precious")

    def deletes(self, delete: Delete, path: str | None = None) -> bool:
        """Whether one of the files is deleted by an attempt, which may fail."""
        with contextlib.suppress(StorageError):
            delete(self.guard, self.path if path is None else path)
        return not all((self.folder / table / self.path).exists() for table in ("orders", "other"))


def claimed_by_another(lake: Lake) -> str:
    claim = Claim(1, "metastore-2", "table-9", "other.orders", "2026-01-01")
    lake.files.put(claims.PATH, msgspec.json.encode(claim))
    return lake.path


def below_a_claim_of_another(lake: Lake) -> str:
    (lake.folder / ".hoodie").mkdir()
    (lake.folder / claims.PATH).write_bytes(
        msgspec.json.encode(Claim(1, "metastore-2", "table-9", "other.orders", "2026-01-01"))
    )
    return lake.path


def in_a_claimed_folder(lake: Lake) -> str:
    folder = lake.path.rpartition("/")[0]
    lake.files.put(f"{folder}/{claims.PATH}", b"{}")
    return lake.path


def in_the_folder_of_another(lake: Lake) -> str:
    (lake.folder / "alias").symlink_to(lake.folder / "orders")
    lake.metastore.places = [TablePlace("table-2", "shop.other", str(lake.folder / "alias"))]
    return lake.path


def behind_a_link(lake: Lake) -> str:
    top = lake.path.partition("/")[0]
    (lake.folder / "orders" / top).rename(lake.folder / "moved")
    (lake.folder / "orders" / top).symlink_to(lake.folder / "other" / top)
    return lake.path


def outside(lake: Lake) -> str:
    return f"../other/{lake.path}"


def in_another_spelling(lake: Lake) -> str:
    return lake.path.replace("/", "//", 1)


def of_another_instant(lake: Lake) -> str:
    later = lake.path.replace(THEN, "20260103000000000").replace("table-1", "table-2")
    (lake.folder / "orders" / lake.path).unlink()
    lake.path = later
    for table in ("orders", "other"):
        (lake.folder / table / later).parent.mkdir(parents=True, exist_ok=True)
        (lake.folder / table / later).write_bytes(b"precious")
    return later


def of_no_kind(lake: Lake) -> str:
    lake.path = f"{lake.path.rpartition('/')[0]}/notes"
    for table in ("orders", "other"):
        (lake.folder / table / lake.path).write_bytes(b"precious")
    return lake.path


PROTECTIONS: list[Callable[[Lake], str]] = [
    claimed_by_another,
    below_a_claim_of_another,
    in_a_claimed_folder,
    in_the_folder_of_another,
    behind_a_link,
    outside,
    in_another_spelling,
    of_another_instant,
    of_no_kind,
]
TIMED = {"the publication", "a pending instant of Hudi"}
"""The metastore names the files of these kinds itself, of any instant."""


def cases() -> Iterator[object]:
    for kind in KINDS:
        for protection in PROTECTIONS:
            if not (kind in TIMED and protection is of_another_instant):
                yield pytest.param(kind, protection, id=f"{protection.__name__}-{kind}")


@pytest.mark.parametrize(("kind", "protection"), list(cases()))
def test_no_kind_of_deletion_deletes_a_file_that_is(
    tmp_path: Path, kind: str, protection: Callable[[Lake], str]
) -> None:
    path, delete = KINDS[kind]
    lake = Lake(tmp_path, path)

    assert not lake.deletes(delete, protection(lake))


@pytest.mark.parametrize("kind", OF_DATA)
def test_no_kind_of_deletion_deletes_a_data_file_that_the_metastore_needs(tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path, DATA)
    lake.metastore.needs = [DATA]

    assert not lake.deletes(OF_DATA[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_without_protection_it_is_deleted(tmp_path: Path, kind: str) -> None:
    path, delete = KINDS[kind]

    assert Lake(tmp_path, path).deletes(delete)


@pytest.mark.parametrize("question", Answers.__struct_fields__)
def test_there_is_no_permit_for_a_file_that_one_answer_refuses(question: str) -> None:
    reasons: dict[str, dict[str, str]] = {name: {} for name in Answers.__struct_fields__}
    answers = reasons | {question: {"a": "needed"}}

    with pytest.raises(ValueError, match="needed"):
        Permit("a", Answers(**answers))
    assert Permit("b", Answers(**answers)).path == "b"


def test_no_answer_may_be_left_out() -> None:
    with pytest.raises(TypeError, match="by_need"):
        Answers(by_path_and_name={}, by_claims={})  # type: ignore[call-arg]
