"""A table's storage, in a local folder and in a real S3 API."""

from __future__ import annotations

import sys
from itertools import count, islice
from pathlib import Path

import pytest

from chronolake import errors, storage as storages
from chronolake.storage import Deletion
from chronolake_storage import objects
from tests.fix_s3 import S3, Fault
from tests.fix_secrets import STORAGE_SECRET
from tests.fix_stores import Store, permitted

PATHS = ["name=1/a b.parquet", "name=1/hour=2/.c.log.1_0-0-0", "top.parquet"]


def test_a_file_is_made_once(store: Store) -> None:
    storage = store.open()

    assert storage.size_bytes("name=1/a") is None
    assert storage.create_empty("name=1/a")
    assert not storage.create_empty("name=1/a")
    assert [storage.size_bytes(path) for path in ("name=1/a", "name=1", "name=1/b")] == [0, None, None]


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    storage = storages.open_storage(str(tmp_path))

    assert not storage.create_empty("a")
    assert storage.size_bytes("a") == 3


def test_everything_below_the_base_path_is_listed_but_hudis_own_folder(store: Store) -> None:
    storage = store.open()
    assert list(storage.listing()) == []
    assert storage.create_all_empty([*PATHS, ".hoodie/.temp/1/m", "name=1/.hoodie/n"]) == [True] * 5

    files = list(storage.listing())

    [empty] = [file for file in files if file.path == "name=1/hour=2/.c.log.1_0-0-0"]
    assert (empty.partition_path, empty.size_bytes) == ("name=1/hour=2", 0)
    assert empty.changed_at > 0
    assert sorted(file.path for file in files) == sorted([*PATHS, "name=1/.hoodie/n"])
    assert [file.path for file in storage.listing(".hoodie/.temp")] == [".hoodie/.temp/1/m"]


def test_a_missing_file_counts_as_deleted(store: Store) -> None:
    storage = store.open()
    storage.create_all_empty(PATHS)

    assert list(storage.files.delete_permitted(permitted([*PATHS, "never/was"]))) == [
        Deletion(path) for path in [*PATHS, "never/was"]
    ]
    assert list(storage.files.delete_permitted(permitted(PATHS))) == [Deletion(path) for path in PATHS]
    assert list(storage.listing()) == []


@pytest.mark.parametrize("path", ["../orders2/a", "name=1/../../b", "/etc/passwd", "name=1//a"])
def test_nothing_outside_the_base_path_is_touched(store: Store, path: str) -> None:
    storage = store.open()

    with pytest.raises(ValueError, match="not a path below"):
        storage.create_empty(path)
    [deletion] = storage.files.delete_permitted(permitted([path]))
    assert deletion.failure is not None


def test_a_failed_deletion_is_reported_and_the_others_succeed(s3: S3) -> None:
    storage = storages.open_storage(s3.base_path, s3.options)
    storage.create_all_empty(["a", "b", "c"])
    s3.faults.append(Fault("DELETE", "/b", 403, "AccessDenied"))

    a, b, c = storage.files.delete_permitted(permitted(["a", "b", "c"]))

    assert (a, c) == (Deletion("a"), Deletion("c"))
    assert b.failure is not None
    assert "privileges" in b.failure
    assert [file.path for file in storage.listing()] == ["b"]


def test_a_failed_deletion_on_a_local_disk_is_reported_too(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)

    [deletion] = storages.open_storage(str(tmp_path)).files.delete_permitted(permitted(["a"]))

    assert deletion.failure is not None
    assert (tmp_path / "a" / "b").exists()


def test_a_throttled_deletion_is_tried_again(s3: S3) -> None:
    storage = storages.open_storage(s3.base_path, s3.options)
    storage.create_all_empty(["a", "b"])
    s3.faults.append(Fault("DELETE", "/a", 503, "SlowDown", times=3))

    assert list(storage.files.delete_permitted(permitted(["a", "b"]))) == [Deletion("a"), Deletion("b")]
    assert s3.faults[0].times == 0
    assert list(storage.listing()) == []


def test_endless_throttling_is_reported_after_a_bounded_number_of_attempts(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "RETRIES_MAX", 2)
    storage = storages.open_storage(s3.base_path, s3.options)
    storage.create_empty("a")
    s3.faults.append(Fault("DELETE", "/a", 503, "SlowDown", times=1_000))

    [deletion] = storage.files.delete_permitted(permitted(["a"]))

    assert deletion.failure is not None
    assert "SlowDown" in deletion.failure
    # In one request with others first, and then alone.
    assert s3.faults[0].times == 1_000 - 2 * 3


def test_a_listing_and_a_creation_that_are_throttled_are_tried_again(s3: S3) -> None:
    storage = storages.open_storage(s3.base_path, s3.options)
    s3.faults.append(Fault("PUT", "/a", 503, "SlowDown", times=2))
    s3.faults.append(Fault("GET", s3.bucket, 503, "SlowDown", times=2))

    assert storage.create_empty("a")
    assert [file.path for file in storage.listing()] == ["a"]
    assert [fault.times for fault in s3.faults] == [0, 0]


def test_a_store_that_refuses_is_an_error_of_its_own(s3: S3) -> None:
    s3.faults.append(Fault("GET", s3.bucket, 403, "AccessDenied"))

    with pytest.raises(errors.StorageFailed, match="AccessDenied") as refused:
        list(storages.open_storage(s3.base_path, s3.options).listing())
    assert refused.value.code == "storage-failed"


def test_paths_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    endless = (str(number) for number in count())

    deletions = storages.open_storage(str(tmp_path)).files.delete_permitted(permitted(endless))

    assert len(list(islice(deletions, 1_500))) == 1_500


def test_a_missing_option_is_taken_from_the_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.options["endpoint_override"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", STORAGE_SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    assert storages.open_storage(s3.base_path).create_empty("a")
    assert storages.open_storage(s3.base_path, s3.options).size_bytes("a") == 0


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="not acces_key"):
        storages.open_storage("s3://lake/orders", {"acces_key": "k"})
    with pytest.raises(ValueError, match="storage options are for s3"):
        storages.open_storage("gs://lake/orders", {"region": "r"})


def test_without_pyarrow_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)

    with pytest.raises(ImportError, match=r"pip install 'chronolake\[arrow\]'"):
        storages.open_filesystem("/lake/orders")


def test_a_missing_folder_is_distinguished_from_an_empty_one(tmp_path: Path, s3: S3) -> None:
    empty, nowhere = tmp_path / "empty", tmp_path / "nowhere"
    empty.mkdir()

    storages.open_storage(str(empty)).check()
    storages.open_storage(s3.base_path, s3.options).check()
    with pytest.raises(errors.StorageFailed, match="nowhere does not exist"):
        storages.open_storage(str(nowhere)).check()
    (empty / "README.md").write_text("a file")
    with pytest.raises(errors.StorageFailed, match=r"README\.md cannot be opened as a folder: [^:]*$"):
        storages.open_storage(str(empty / "README.md")).check()
    with pytest.raises(errors.StorageFailed, match="the bucket does not exist"):
        storages.open_storage("s3://nobodys-bucket/orders", s3.options).check()
    storages.open_storage(str(nowhere)).make_folder()
    storages.open_storage(str(nowhere)).check()


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(errors.StorageFailed, match=r"file/t: Not a directory\. .* another base path"):
        storages.open_storage(str(tmp_path / "file" / "t")).make_folder()
