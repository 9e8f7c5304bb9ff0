"""Orphans in storage: listed, classified, and deleted where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chronolake
from chronolake import FileGroupName, MarkersType, OrphanReason, calls, errors
from chronolake._orphan_reasons import reason_of
from chronolake._sync import arrow
from chronolake.cli import output
from chronolake_model import operations
from chronolake_model.file_names import bucket_file_id
from chronolake_model.orphans import SAFE_TO_DELETE
from chronolake_storage import claims
from tests.client.conftest import SCHEMA, Cli
from tests.client.stored import Stored, base, in_storage
from tests.fix_s3 import S3, Fault
from tests.fix_stores import Store


def test_a_table_that_was_written_only_through_chronolake_has_none(stored: Stored) -> None:
    assert stored.table.orphans().files_listed == 0
    stored.publish(0, 1)
    savepoint = stored.table.savepoint()
    stored.publish(0)
    with stored.table.begin(action=chronolake.Action.REPLACECOMMIT) as write:
        write.replace(FileGroupName("name=1", bucket_file_id(1)))
    stored.table.restore(savepoint.requested_time)
    stored.publish(2)
    marked = stored.table.begin(markers=MarkersType.DIRECT)
    marked.mark(base(marked, 0))

    report = stored.table.orphans()

    assert (report.orphans, report.totals, report.files_listed) == ([], [], 4)


def test_each_orphan_has_its_reason(stored: Stored) -> None:
    with stored.table.begin() as completed:
        completed.add(stored.write_file(completed.requested_time, 0))
        repeated = stored.write_file(completed.requested_time, 0, attempt=1)
    given_up, pending = stored.table.begin(), stored.table.begin()
    given_up.mark(base(given_up, 1))
    left = stored.write_file(given_up.requested_time, 1)
    unmarked = stored.write_file(given_up.requested_time, 2)
    stored.table.rollback(given_up.requested_time, writer=given_up.instant.writer, execute=False)
    running = stored.write_file(pending.requested_time, 1)
    foreign = stored.write_file("20200101000000000", 1)
    stored.storage.create_all_empty(["_SUCCESS", "name=1/notes.txt"])

    report = stored.table.orphans()

    assert {
        orphan.path.rpartition("/")[2]: (orphan.reason.value, orphan.has_marker) for orphan in report.orphans
    } == {
        repeated.file_name: ("not-named", False),
        left.file_name: ("rolled-back", True),
        unmarked.file_name: ("rolled-back", False),
        running.file_name: ("pending", False),
        foreign.file_name: ("unknown-instant", False),
        "_SUCCESS": ("not-a-data-file", None),
        "notes.txt": ("not-a-data-file", None),
    }
    assert {total.reason.value: (total.files, total.size_bytes) for total in report.totals} == {
        "rolled-back": (2, left.size_bytes + unmarked.size_bytes),
        "not-named": (1, repeated.size_bytes),
        "unknown-instant": (1, foreign.size_bytes),
        "pending": (1, running.size_bytes),
        "not-a-data-file": (2, 0),
    }
    assert report.files_listed == 8


def test_only_files_that_can_never_be_published_are_deleted(stored: Stored) -> None:
    with stored.table.begin() as completed:
        completed.add(kept := stored.write_file(completed.requested_time, 0))
        stored.write_file(completed.requested_time, 0, attempt=1)
    given_up, pending = stored.table.begin(), stored.table.begin()
    stored.write_file(given_up.requested_time, 1)
    given_up.rollback()
    running = stored.write_file(pending.requested_time, 1)
    foreign = stored.write_file("20200101000000000", 1)
    stored.storage.create_empty("name=1/notes.txt")

    done = stored.table.delete_orphans(stored.table.orphans())

    assert [orphan.reason.value for orphan in done.orphans if orphan.deleted] == ["not-named", "rolled-back"]
    left = {file.file_name for file in stored.storage.listing()}
    assert left == {kept.file_name, running.file_name, foreign.file_name, "notes.txt"}
    pending.complete([running])
    assert stored.orphans() == [
        ("name=1/notes.txt", OrphanReason.NOT_A_DATA_FILE),
        (f"name=1/{foreign.file_name}", OrphanReason.UNKNOWN_INSTANT),
    ]
    stored.table.delete_orphans(stored.table.orphans(), unknown_instants=True)
    assert stored.orphans() == [("name=1/notes.txt", OrphanReason.NOT_A_DATA_FILE)]


def test_a_file_published_while_storage_is_listed_is_no_orphan(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.publish(0)
    write = stored.table.begin()
    stat = stored.write_file(write.requested_time, 1)
    stream = arrow.stream(
        stored.table._transport, calls.call(operations.files.GET_PUBLISHED, stored.table.name)
    )
    schema = next(stream)
    write.complete([stat])

    def begun_before(*_: object) -> Iterator[Any]:
        yield schema
        yield from stream

    monkeypatch.setattr(arrow, "stream", begun_before)

    assert stored.orphans() == [(f"name=1/{stat.file_name}", OrphanReason.PENDING)]


def test_a_file_of_an_instant_whose_lease_has_ended_is_not_deleted(stored: Stored) -> None:
    instant = stored.table.begin(lease_seconds=5).instant
    assert instant.lease_expires_at is not None
    late = instant.lease_expires_at + timedelta(seconds=1)

    assert reason_of(instant, None, datetime.now(UTC)) is OrphanReason.PENDING
    assert reason_of(instant, None, late) is OrphanReason.LEASE_ENDED
    assert OrphanReason.LEASE_ENDED not in SAFE_TO_DELETE


def test_a_recreated_table_of_the_name_permits_no_deletion(
    client: chronolake.Client, stored: Stored, tmp_path: Path
) -> None:
    stored.publish(0, 1)
    stored.write_file("20200101000000000", 2)
    files, report = in_storage(stored), stored.table.orphans()
    client.drop_table(stored.table.name)
    client.create_table(
        stored.table.name, base_path=(tmp_path / "other").as_uri(), schema=SCHEMA, record_key_fields=["id"]
    ).begin().rollback()

    with pytest.raises(errors.TableNotFound, match="was dropped"):
        stored.table.orphans()
    with pytest.raises(errors.TableNotFound, match="was dropped"):
        stored.table.delete_orphans(report, unknown_instants=True)

    assert len(report.orphans) == 1
    assert in_storage(stored) == files


def test_a_report_of_another_table_is_refused(stored: Stored) -> None:
    report = msgspec.structs.replace(stored.table.orphans(), table="shop.another")

    with pytest.raises(ValueError, match="not for"):
        stored.table.delete_orphans(report)


def test_the_terminal_reports_orphans_then_deletes_them_and_shows_failures(
    cli: Cli, server_url: str, namespace: str, s3: S3
) -> None:
    store = Store(s3.base_path, s3.options)
    reach = [text for name, value in s3.options.items() for text in ("--storage", f"{name}={value}")]
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        table = client.create_table(
            f"{namespace}.shown", base_path=s3.base_path, schema=SCHEMA, record_key_fields=["id"]
        )
        stored = Stored(table, store)
        write = table.begin()
        protected = stored.write_file(write.requested_time, 0)
        stored.write_file(write.requested_time, 1)
        write.rollback()
    s3.faults.append(Fault("DELETE", protected.file_name, 403, "AccessDenied"))

    shown = cli("orphans", table.name, *reach)
    listed = cli("orphans", table.name, *reach, "--json").json
    deleted = cli("orphans", table.name, *reach, "--delete", "--yes")

    assert protected.file_name in shown.out
    assert "of an instant that was rolled back" in shown.out
    assert "2 of 2 files not published" in shown.out
    assert [orphan["deleted"] for orphan in listed["orphans"]] == [False, False]
    assert deleted.code == output.FAILED
    assert "1 file deleted, 1 failed" in deleted.out
    assert "privileges" in deleted.out
    assert [file.file_name for file in store.open().listing()] == [protected.file_name]
    s3.faults.clear()
    document = cli("orphans", table.name, *reach, "--delete", "-y", "--json").json
    assert [orphan["deleted"] for orphan in document["orphans"]] == [True]
    assert list(store.open().listing()) == []


def test_a_refusal_by_the_store_is_shown_at_the_terminal(
    cli: Cli, server_url: str, namespace: str, s3: S3
) -> None:
    with chronolake.connect(server_url) as client:
        name = client.create_table(
            f"{namespace}.closed", base_path=s3.base_path, schema=SCHEMA, record_key_fields=["id"]
        ).name
    reach = [text for option, value in s3.options.items() for text in ("--storage", f"{option}={value}")]
    s3.faults.append(Fault("GET", s3.bucket, 403, "AccessDenied"))

    refused = cli("orphans", name, *reach)
    unknown = cli("orphans", name, "--storage", "acces_key=k")

    assert refused.code == output.FAILED
    assert "storage refused or failed" in refused.err
    assert (unknown.code, "not acces_key" in unknown.err) == (output.FAILED, True)
    assert cli("orphans", name, "--unknown-instants").code == output.USAGE


@pytest.mark.parametrize(("old", "new"), [("", ""), ("/name=1", ""), ("", "/name=1")])
def test_no_file_of_a_dropped_table_goes_from_the_folder_that_was_taken_over(
    store: Store, server_url: str, namespace: str, cli: Cli, old: str, new: str
) -> None:
    with chronolake.connect(server_url) as client:

        def make(name: str, folder: str) -> Stored:
            place = Store(store.base_path + folder, store.options)
            table = client.create_table(
                f"{namespace}.{name}",
                base_path=place.base_path,
                schema=SCHEMA,
                record_key_fields=["id"],
                partition_fields=["name"],
                reuse_base_path=True,
            )
            return Stored(table, place)

        for name in ("first", "second"):
            dropped = make(name, old)
            dropped.publish(0)
            dropped.write_file(dropped.table.begin().requested_time, 1)
            client.drop_table(dropped.table.name)
            # As of a writer that made no claim: one in a folder below would keep all files there.
            Store(store.base_path + old, store.options).delete(claims.PATH)
        theirs = in_storage(stored := make("new", new))
        foreign = stored.write_file("20200101000000000", 1)
    reach = [
        text for option, value in (store.options or {}).items() for text in ("--storage", f"{option}={value}")
    ]

    done = cli("orphans", stored.table.name, *reach, "--delete", "--unknown-instants", "--yes")
    checked = cli("check", stored.table.name, *reach)

    assert (done.code, done.out.count("dropped-table")) == (output.OK, len(theirs))
    assert (checked.code, "4 files of dropped tables" in checked.out) == (output.OK, True)
    assert len(theirs) == 4
    assert in_storage(stored) == theirs
    assert foreign.file_name not in str(theirs)
