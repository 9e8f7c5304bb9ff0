"""Markers as writers create them and as they are looked at, from Python and at a terminal."""

from __future__ import annotations

import pytest

import chronolake
from chronolake import DeletedFile, Marker, MarkerKind, MarkerOutcome, State, errors
from chronolake.cli import output
from tests.client.conftest import Cli
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import stat_of

CREATED, EXISTED = MarkerOutcome.CREATED, MarkerOutcome.EXISTED


def marker_of(write: chronolake.Write | chronolake.AsyncWrite, bucket: int = 0) -> Marker:
    """The marker of the file whose stat ``stat_of`` gives."""
    stat = stat_of(write, bucket)
    return Marker(stat.partition_path, stat.file_name, MarkerKind.CREATE)


def test_a_writer_marks_its_files_before_it_writes_them(table: chronolake.Table) -> None:
    with table.begin() as write:
        assert write.mark(marker_of(write, 0)) == [CREATED]
        assert write.mark(marker_of(write, 0), marker_of(write, 1)) == [EXISTED, CREATED]
        time = write.requested_time
        assert list(table.markers(time)) == [marker_of(write, 0), marker_of(write, 1)]
        assert table.has_marker(time, marker_of(write, 1))
        assert not table.has_marker(time, marker_of(write, 2))
        write.add(stat_of(write, 0))
        write.add(stat_of(write, 1))

    assert list(table.markers(time)) == []
    assert table.delete_markers(time) == 0


def file_of(write: chronolake.Write | chronolake.AsyncWrite, bucket: int = 0) -> DeletedFile:
    """The file that ``marker_of`` marks."""
    marker = marker_of(write, bucket)
    return DeletedFile(marker.partition_path, marker.file_name)


def test_a_client_reports_the_files_of_a_failed_attempt_that_it_deletes(
    table: chronolake.Table,
) -> None:
    with table.begin() as write:
        write.mark(marker_of(write, 0), marker_of(write, 1))
        write.add(stat_of(write, 0))
        assert write.left_over() == [file_of(write, 1)]
        assert write.report_deletions(write.left_over()) == 1

    assert write.instant.state is State.COMPLETED
    assert list(table.deletions(write.requested_time)) == [file_of(write, 1)]


def test_a_rollback_is_executed_by_its_markers(table: chronolake.Table) -> None:
    write = table.begin(writer="w")
    write.mark(marker_of(write, 0), marker_of(write, 1))
    gone = table.rollback(write.requested_time, writer="w", execute=False)
    assert gone.rolled_back_by is not None
    rollback = table.execute(gone.rolled_back_by)

    assert rollback.left_over() == [file_of(write, 0), file_of(write, 1)]
    assert rollback.report_deletions([file_of(write, 0)]) == 1
    assert rollback.left_over() == [file_of(write, 1)]
    assert rollback.complete().state is State.COMPLETED
    assert list(table.deletions(gone.rolled_back_by)) == [file_of(write, 0), file_of(write, 1)]


def test_an_executor_that_knows_the_requested_time_marks_too(table: chronolake.Table) -> None:
    write = table.begin(writer="driver")

    assert table.create_markers(write.requested_time, [marker_of(write)], writer="driver") == [CREATED]
    with pytest.raises(errors.LeaseLive):
        table.create_markers(write.requested_time, [marker_of(write)], writer="another")


def test_a_marker_request_whose_answer_was_lost_is_retried(gateway: Gateway, table: chronolake.Table) -> None:
    with chronolake.connect(gateway.url, retry_seconds=10) as client:
        write = client.table(table.name).begin()
        gateway.faults = [Fault.LOSE_ANSWER]

        assert write.mark(marker_of(write)) == [EXISTED]


def test_the_terminal_lists_markers(cli: Cli, table: chronolake.Table) -> None:
    write = table.begin()
    write.mark(marker_of(write, 0), marker_of(write, 1))
    left = marker_of(write, 1)

    shown = cli("markers", table.name, write.requested_time)
    document = cli("markers", table.name, write.requested_time, "--unpublished", "--json").json

    assert marker_of(write, 0).path in shown.out
    assert left.path in shown.out
    assert document == {
        "table": table.name,
        "requested_time": write.requested_time,
        "markers": [
            {"partition_path": "", "file_name": marker.file_name, "kind": "CREATE"}
            for marker in (marker_of(write), left)
        ],
    }
    assert cli("markers", table.name, "20260101000000000").code == output.NOT_FOUND
