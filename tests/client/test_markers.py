"""Markers as writers create them and as they are looked at, from Python and at a terminal."""

from __future__ import annotations

import asyncio

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
        write.add(stat_of(write, 0))
        write.add(stat_of(write, 1))

    time = write.requested_time
    assert list(table.markers(time)) == [marker_of(write, 0), marker_of(write, 1)]
    assert list(table.markers(time, unpublished=True)) == []
    assert table.has_marker(time, marker_of(write, 1))
    assert not table.has_marker(time, marker_of(write, 2))
    assert table.delete_markers(time) == 2
    assert list(table.markers(time)) == []


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


def test_a_file_that_was_never_marked_is_not_reported(table: chronolake.Table) -> None:
    write = table.begin()

    with pytest.raises(errors.InvalidDeletion):
        write.report_deletions([file_of(write)])


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


def test_a_writer_that_was_rolled_back_is_stopped_at_its_next_marker(table: chronolake.Table) -> None:
    write = table.begin(writer="w")
    table.rollback(write.requested_time, "tired", writer="w")

    with pytest.raises(errors.InstantRolledBack, match="tired"):
        write.mark(marker_of(write))


def test_markers_of_a_pending_instant_are_not_deleted(table: chronolake.Table) -> None:
    write = table.begin()

    with pytest.raises(errors.IllegalTransition):
        table.delete_markers(write.requested_time)


def test_a_marker_of_another_instant_is_invalid(table: chronolake.Table) -> None:
    first, second = table.begin(), table.begin()

    with pytest.raises(errors.InvalidMarker):
        first.mark(marker_of(second))


def test_a_file_group_in_anothers_hand_is_refused_early(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    early = client.create_table(
        f"{table.name}_early",
        base_path=f"file:///early/{table.name}",
        schema=[chronolake.Field("id", "bigint")],
        record_key_fields=["id"],
        properties={"markers.early-conflict-detection": "true"},
    )
    winner, loser = early.begin(), early.begin()
    winner.mark(marker_of(winner))

    with pytest.raises(errors.WriteConflict) as refused:
        loser.mark(marker_of(loser))
    assert refused.value.context["winner"] == winner.requested_time


def test_a_marker_request_whose_answer_was_lost_is_retried(gateway: Gateway, table: chronolake.Table) -> None:
    with chronolake.connect(gateway.url, retry_seconds=10) as client:
        write = client.table(table.name).begin()
        gateway.faults = [Fault.LOSE_ANSWER]

        assert write.mark(marker_of(write)) == [EXISTED]


def test_the_awaited_client_does_the_same(server_url: str, table: chronolake.Table) -> None:
    async def mark() -> tuple[list[MarkerOutcome], list[Marker], bool, int]:
        async with chronolake.connect_async(server_url) as client:
            awaited = await client.table(table.name)
            write = await awaited.begin()
            outcomes = await write.mark(marker_of(write))
            outcomes += await awaited.create_markers(write.requested_time, [marker_of(write)])
            listed = [marker async for marker in awaited.markers(write.requested_time)]
            has = await awaited.has_marker(write.requested_time, listed[0])
            assert await write.report_deletions(await write.left_over()) == 1
            assert [deletion async for deletion in awaited.deletions(write.requested_time)] == [file_of(write)]
            await write.mark(marker_of(write))
            await write.complete([stat_of(write)])
            return outcomes, listed, has, await awaited.delete_markers(write.requested_time)

    outcomes, listed, has, deleted = asyncio.run(mark())

    assert (outcomes, len(listed), has, deleted) == ([CREATED, EXISTED], 1, True, 1)


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
