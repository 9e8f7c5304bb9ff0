"""``table.sweep``: files that were deleted and were finished late are found by their names, and deleted."""

from __future__ import annotations

import chronolake
from chronolake import LateFile, Marker, MarkerKind, MarkersType, OrphanReason, Swept
from tests.client.conftest import Cli
from tests.client.stored import Stored, base
from tests.client.test_deletions import table_in
from tests.fix_s3 import S3, Fault
from tests.fix_stores import Store


def rolled_back(stored: Stored, files: int = 2) -> tuple[str, list[str]]:
    """The rollback of an instant that had written files, and their paths."""
    write = stored.table.begin()
    stats = [stored.write_file(write.requested_time, bucket) for bucket in range(files)]
    for stat in stats:
        write.mark(Marker(stat.partition_path, stat.file_name, MarkerKind.CREATE))
    rollback = write.rollback().rolled_back_by
    assert rollback is not None
    return rollback, [f"{stat.partition_path}/{stat.file_name}" for stat in stats]


def swept(stored: Stored, instants: int, names: int, *late_files: LateFile) -> Swept:
    return Swept(stored.table.name, instants, names, list(late_files))


def test_sweeps_repeat_until_no_late_file_is_left(stored: Stored) -> None:
    rollback, [late, _] = rolled_back(stored)
    stored.storage.create_empty(late)
    assert stored.orphans() == [(late, OrphanReason.ROLLED_BACK)]

    assert stored.table.sweep() == swept(stored, 0, 0)
    assert stored.table.sweep(grace_seconds=0) == swept(stored, 1, 2, LateFile(late, rollback))
    assert stored.orphans() == []
    assert stored.table.sweep(grace_seconds=0) == swept(stored, 1, 2)
    assert stored.table.sweep(grace_seconds=0) == swept(stored, 0, 0)


def test_files_marked_in_storage_after_the_rollback_are_swept(stored: Stored) -> None:
    stored.storage.make_folder()
    write = stored.table.begin(markers=MarkersType.DIRECT)
    rollback = write.rollback().rolled_back_by
    assert rollback is not None
    marks = [base(write, bucket) for bucket in range(2)]
    stored.storage.create_empty(marks[0].path)
    stored.table.markers_of(write.requested_time, markers=MarkersType.DIRECT).create(marks)

    first = stored.table.sweep(grace_seconds=0)
    stored.storage.create_empty(marks[1].path)
    second = stored.table.sweep(grace_seconds=0)

    late = [LateFile(marker.path, rollback) for marker in marks]
    assert first == swept(stored, 1, 2, *late)
    assert second == swept(stored, 1, 2, LateFile(marks[1].path, rollback))
    assert stored.table.sweep(grace_seconds=0) == swept(stored, 1, 2)
    assert (stored.orphans(), list(stored.storage.listing(".hoodie/.temp"))) == ([], [])


def test_a_late_file_that_cannot_be_deleted_is_reported_and_due_again(
    s3: S3, server_url: str, namespace: str
) -> None:
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        stored = table_in(client, f"{namespace}.late", Store(s3.base_path, s3.options))
        rollback, [late, _] = rolled_back(stored)
        stored.storage.create_empty(late)
        s3.faults.append(Fault("DELETE", late, 403, "AccessDenied"))

        [late_file] = stored.table.sweep(grace_seconds=0).late_files

        assert (late_file.path, late_file.requested_time) == (late, rollback)
        assert late_file.failure is not None
        s3.faults.clear()
        assert stored.table.sweep(grace_seconds=0) == swept(stored, 1, 2, LateFile(late, rollback))


def test_a_sweep_at_the_terminal_lists_the_late_files(stored: Stored, store: Store, cli: Cli) -> None:
    _, [late, _] = rolled_back(stored)
    stored.storage.create_empty(late)
    options = [f"--storage={name}={value}" for name, value in (store.options or {}).items()]

    printed = cli("sweep", stored.table.name, "--grace", "0", *options)
    again = cli("sweep", stored.table.name, "--grace", "0", *options)

    assert (printed.code, again.code) == (0, 0)
    assert late in printed.out.replace("\n", "")
    assert "1 instant swept, 1 of 2 deleted files written again" in printed.out
    assert f"chronolake orphans {stored.table.name}" in " ".join(printed.out.split())
    assert "1 instant swept, 0 of 2 deleted files written again" in again.out
