"""Claims of base paths, in a local folder and in a real S3 API."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from typing_extensions import override

from chronolake_model.deletable import LogHead
from chronolake_storage import claims, opening
from chronolake_storage.claims import Claim, LogState, Owner, Renewal
from chronolake_storage.errors import BasePathMissing, ClaimRefused, LogBehind, StorageError
from chronolake_storage.files import CONTENT_BYTES_MAX, Files
from chronolake_storage.overlaps import TablePlace
from tests.fix_s3 import S3
from tests.fix_stores import Store

OURS = Owner("metastore-1", "table-1", "shop.orders")
LATER = Owner("metastore-1", "table-2", "shop.orders2", ["table-1"])
OTHER = Owner("metastore-1", "table-3", "shop.other", ["table-0"])
STRANGER = Owner("metastore-2", "table-9", "other.orders")
MOVED = Owner("metastore-3", "table-1", "shop.orders")


@pytest.fixture
def files(store: Store) -> Files:
    files = store.files()
    files.make_folder()
    return files


def claimed(files: Files) -> Claim:
    stored = files.read(claims.PATH)
    assert stored is not None
    return msgspec.json.decode(stored.body, type=Claim)


def alone() -> list[TablePlace]:
    """The tables of a metastore that has no other."""
    return []


def never() -> Owner:
    raise AssertionError("the metastore is asked only when the claim is another's")


def test_the_first_one_claims_the_base_path_and_finds_its_claim_again(files: Files) -> None:
    claims.ensure_claim(files, OURS, never, alone)
    first = claimed(files)
    claims.ensure_claim(files, OURS, never, alone)

    assert claimed(files) == first
    assert (first.metastore_id, first.table_id, first.table) == ("metastore-1", "table-1", "shop.orders")


def test_the_claim_of_another_metastore_is_refused_with_its_owner(files: Files) -> None:
    claims.ensure_claim(files, STRANGER, never, alone)

    with pytest.raises(
        ClaimRefused, match=r"claimed by the table other.orders \(table-9\) of the metastore metastore-2"
    ):
        claims.ensure_claim(files, OURS, lambda: OURS, alone)
    assert claimed(files).metastore_id == "metastore-2"


def test_the_claim_of_a_dropped_table_is_taken_over(files: Files) -> None:
    claims.ensure_claim(files, OURS, never, alone)

    claims.ensure_claim(files, LATER, lambda: LATER, alone)

    assert claimed(files).table_id == "table-2"


def test_a_live_table_does_not_take_the_claim_of_another_live_one(files: Files) -> None:
    # One folder may have two names that base paths do not show: a mount, a link that was made later.
    claims.ensure_claim(files, OURS, never, alone)

    with pytest.raises(ClaimRefused, match=r"claimed by the table shop\.orders "):
        claims.ensure_claim(files, OTHER, lambda: OTHER, alone)
    with pytest.raises(ClaimRefused, match=r"claimed by the table shop\.orders "):
        claims.renew(files, OTHER, ["metastore-0"], [])
    assert claimed(files).table_id == "table-1"


def test_an_object_that_is_too_large_for_a_claim_is_not_read(files: Files) -> None:
    files.create(claims.PATH, b" " * (CONTENT_BYTES_MAX + 1))

    with pytest.raises(StorageError, match="too large"):
        claims.ensure_claim(files, OURS, never, alone)


def test_a_missing_base_path_is_distinguished_from_an_unreachable_one(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(BasePathMissing):
        opening.open_files(str(tmp_path / "nowhere")).check()
    with pytest.raises(BasePathMissing, match="the bucket does not exist"):
        opening.open_files("s3://nobodys-bucket/orders", s3.options).check()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as refused:
        opening.open_files(str(tmp_path / "file")).check()
    assert not isinstance(refused.value, BasePathMissing)


def test_a_pipe_in_place_of_the_claim_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    files = Store(str(tmp_path), None).files()
    (tmp_path / ".hoodie").mkdir()
    os.mkfifo(tmp_path / claims.PATH)

    with pytest.raises(StorageError, match="not a regular file"):
        claims.ensure_claim(files, OURS, never, alone)


@pytest.mark.parametrize("present", [None, LATER])
def test_a_dropped_table_never_takes_the_claim_back(files: Files, present: Owner | None) -> None:
    claims.ensure_claim(files, LATER, never, alone)

    with pytest.raises(ClaimRefused, match=r"shop\.orders2"):
        claims.ensure_claim(files, OURS, lambda: present, alone)
    assert claimed(files).table_id == "table-2"


def test_a_client_that_knows_an_earlier_identity_learns_the_present_one(files: Files) -> None:
    claims.ensure_claim(files, MOVED, never, alone)

    claims.ensure_claim(files, OURS, lambda: MOVED, alone)

    assert claimed(files).metastore_id == "metastore-3"


def test_of_two_metastores_that_claim_at_once_exactly_one_wins(files: Files) -> None:
    barrier = threading.Barrier(8)

    def claim(number: int) -> bool:
        barrier.wait()
        try:
            claims.ensure_claim(files, Owner(f"metastore-{number}", "table-1", "a.b"), lambda: None, alone)
        except ClaimRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(claim, range(8)))

    assert won.count(True) == 1
    assert claimed(files).metastore_id == f"metastore-{won.index(True)}"


@pytest.mark.parametrize("body", [b"", b"{", b'{"format_version": 1}', b"\xff\xfe", b"[]"])
def test_a_claim_that_cannot_be_read_is_refused(files: Files, body: bytes) -> None:
    files.create(claims.PATH, body)

    with pytest.raises(ClaimRefused, match=r"cannot be read.*--force"):
        claims.ensure_claim(files, OURS, lambda: OURS, alone)


def test_a_claim_in_a_newer_format_is_refused(files: Files) -> None:
    newer = Claim(2, "metastore-1", "table-1", "shop.orders", "2027-01-01T00:00:00+00:00")
    files.create(claims.PATH, msgspec.json.encode(newer))

    with pytest.raises(ClaimRefused, match="format 2"):
        claims.ensure_claim(files, OURS, lambda: OURS, alone)


def test_an_operator_renews_the_claims_of_the_metastore(files: Files) -> None:
    assert claims.renew(files, OURS, [], [], dry_run=True) is Renewal.CLAIMED
    assert files.read(claims.PATH) is None
    assert claims.renew(files, OURS, [], []) is Renewal.CLAIMED
    assert claims.renew(files, OURS, [], []) is Renewal.KEPT
    assert claims.renew(files, MOVED, ["metastore-1"], []) is Renewal.RENEWED
    assert claimed(files).metastore_id == "metastore-3"


def test_an_operator_takes_a_strangers_claim_only_by_force(files: Files) -> None:
    claims.ensure_claim(files, STRANGER, never, alone)

    with pytest.raises(ClaimRefused):
        claims.renew(files, OURS, ["metastore-0"], [])
    assert claims.renew(files, OURS, [], [], force=True, dry_run=True) is Renewal.FORCED
    assert claimed(files).metastore_id == "metastore-2"
    assert claims.renew(files, OURS, [], [], force=True) is Renewal.FORCED
    assert claimed(files).metastore_id == "metastore-1"


@pytest.mark.parametrize("is_dropped", [False, True])
def test_the_claim_of_another_table_of_the_metastore_is_not_taken_by_force_either(
    files: Files, *, is_dropped: bool
) -> None:
    other = Owner("metastore-1", "table-9", "shop.mounted")
    claims.ensure_claim(files, other, never, alone)
    known = TablePlace("table-9", "shop.mounted", "/mnt/gone", is_dropped=is_dropped)

    with pytest.raises(ClaimRefused, match=r"shop\.mounted.*also from --force"):
        claims.renew(files, OURS, [], [known], force=True)
    with pytest.raises(ClaimRefused, match="also from --force"):
        claims.renew(files, MOVED, ["metastore-1"], [known], force=True)
    assert claimed(files).table_id == "table-9"

    # A table that took over the base path in the metastore gets the claim without force.
    heir = msgspec.structs.replace(OURS, took_over=["table-9"])
    assert claims.renew(files, heir, [], [known]) is Renewal.RENEWED


def test_after_a_renewal_the_old_identity_deletes_nothing(files: Files) -> None:
    claims.ensure_claim(files, OURS, never, alone)
    claims.renew(files, MOVED, ["metastore-1"], [])

    with pytest.raises(ClaimRefused, match="metastore-3"):
        claims.ensure_claim(files, OURS, lambda: OURS, alone)


def test_a_late_replacement_changes_nothing(files: Files) -> None:
    files.create("a", b"1")
    first = files.read("a")
    assert first is not None

    assert files.replace("a", b"2", first.tag)
    assert not files.replace("a", b"3", first.tag)

    second = files.read("a")
    assert second is not None
    assert second.body == b"2"
    assert not files.replace("missing", b"1", first.tag)


def test_a_part_of_a_file_is_read_without_the_others(files: Files) -> None:
    files.create("day=1/a", b"0123456789")

    assert files.read_range("day=1/a", 0, 3) == b"012"
    assert files.read_range("day=1/a", 4, 10) == b"456789"
    assert files.read_range("day=1/b", 0, 1) is None


def test_a_claim_is_never_there_in_part(tmp_path: Path) -> None:
    files = Store(str(tmp_path), None).files()
    claims.ensure_claim(files, OURS, never, alone)

    assert [path.name for path in (tmp_path / ".hoodie").iterdir()] == [".chronolake-claim.json"]


class StoredLog:
    """A log that has these hashes, of the versions from 1 on."""

    def __init__(self, *hashes: str) -> None:
        self.heads = [LogHead(version, digest) for version, digest in enumerate(hashes, start=1)]

    def state(self, recorded: LogHead | None) -> LogState:
        return LogState(self.heads[-1], recorded is None or recorded in self.heads)


def test_the_claim_records_how_far_the_log_has_come_and_an_earlier_state_is_refused(files: Files) -> None:
    claims.ensure_claim(files, OURS, never, alone)

    assert claims.ensure_claim(files, OURS, never, alone, StoredLog("a", "b")) == LogHead(2, "b")
    assert claims.ensure_claim(files, OURS, never, alone, StoredLog("a", "b", "c")) == LogHead(3, "c")
    with pytest.raises(LogBehind, match="chronolake-metastore claim"):
        claims.ensure_claim(files, OURS, never, alone, StoredLog("a", "b"))
    assert claimed(files).log_head == LogHead(3, "c")


def test_of_two_states_that_diverged_only_the_one_that_records_its_head_first_goes_on(files: Files) -> None:
    first, other = StoredLog("a", "b"), StoredLog("a", "d", "e")
    claims.ensure_claim(files, OURS, never, alone, StoredLog("a"))

    claims.ensure_claim(files, OURS, never, alone, first)

    with pytest.raises(LogBehind):
        claims.ensure_claim(files, OURS, never, alone, other)
    assert claims.ensure_claim(files, OURS, never, alone, first) == LogHead(2, "b")


def test_a_head_that_another_process_records_at_the_same_time_is_compared_too(files: Files) -> None:
    class Overtaken(StoredLog):
        @override
        def state(self, recorded: LogHead | None) -> LogState:
            if recorded is None:
                claims.ensure_claim(files, OURS, never, alone, StoredLog("a", "d"))
            return super().state(recorded)

    with pytest.raises(LogBehind):
        claims.ensure_claim(files, OURS, never, alone, Overtaken("a", "b"))
    assert claimed(files).log_head == LogHead(2, "d")


def test_a_claim_without_a_head_is_of_an_earlier_version_and_refuses_nothing(files: Files) -> None:
    former = {"format_version": 1, "claimed_at": "2026-11-22T00:00:00+00:00"} | {
        name: getattr(OURS, name) for name in ("metastore_id", "table_id", "table")
    }
    files.create(claims.PATH, msgspec.json.encode(former))

    assert claims.ensure_claim(files, OURS, never, alone, StoredLog("a")) == LogHead(1, "a")


def test_a_claim_that_is_renewed_for_a_new_identity_records_no_head_of_the_former_one(files: Files) -> None:
    claims.ensure_claim(files, OURS, never, alone, StoredLog("a", "b"))

    assert claims.renew(files, MOVED, ["metastore-1"], []) is Renewal.RENEWED
    assert claims.ensure_claim(files, MOVED, never, alone, StoredLog("a")) == LogHead(1, "a")
