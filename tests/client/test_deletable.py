"""The client's query for deletable files: each needed file is refused, with its reason."""

from __future__ import annotations

import pytest

import chronolake
from chronolake import Action, DeletedFile, FileGroupName, Operation, Plan, Refusal, WriteStat, errors
from chronolake_model.file_names import base_file_name, bucket_file_id

WRITER = "cleaner"


def stat_of(requested_time: str, bucket: int = 0) -> WriteStat:
    file_id = bucket_file_id(bucket)
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", requested_time), size_bytes=1, records=1)


def file_of(requested_time: str) -> DeletedFile:
    return DeletedFile("", stat_of(requested_time).file_name)


def published(table: chronolake.Table, action: Action = Action.COMMIT) -> chronolake.Instant:
    with table.begin(action=action) as write:
        write.add(stat_of(write.requested_time))
    return write.instant


def own_clean(table: chronolake.Table) -> str:
    """A clean whose files the server has not named."""
    return table.begin(action=Action.CLEAN, operation=Operation.UNKNOWN, writer=WRITER).requested_time


def reasons(answer: chronolake.Deletable) -> list[Refusal]:
    return [refusal.reason for refusal in answer.refused]


def test_the_deletion_of_files_of_a_savepoint_is_refused(table: chronolake.Table) -> None:
    first = published(table)
    savepoint = table.savepoint(first.requested_time)
    published(table)
    clean = own_clean(table)

    held = table.deletable(clean, [file_of(first.requested_time)], writer=WRITER)
    table.release_savepoint(savepoint.requested_time)
    released = table.deletable(clean, [file_of(first.requested_time)], writer=WRITER)

    assert [(refusal.path, refusal.reason) for refusal in held.refused] == [
        (file_of(first.requested_time).path, Refusal.HELD)
    ]
    assert reasons(released) == [Refusal.SERVED]
    assert (held.table, held.table_id) == (table.name, table.definition.table_id)


def test_the_deletion_of_files_of_a_planned_file_group_is_refused(clicks: chronolake.Table) -> None:
    first, second = (published(clicks, Action.DELTACOMMIT) for _ in range(2))
    compaction = clicks.begin(action=Action.COMPACTION, plan=Plan([FileGroupName("", bucket_file_id(0))]))
    clean = own_clean(clicks)
    files = [file_of(instant.requested_time) for instant in (first, second)]

    planned = clicks.deletable(clean, files, writer=WRITER)
    compaction.rollback()
    ended = clicks.deletable(clean, files, writer=WRITER)

    assert reasons(planned) == [Refusal.PLANNED, Refusal.PLANNED]
    assert reasons(ended) == [Refusal.SERVED, Refusal.LIVE]


def test_orphans_are_judged_by_the_instants_in_their_names(table: chronolake.Table) -> None:
    live = published(table).requested_time
    unknown = [file_of("20200101000000000")]

    assert reasons(table.deletable_orphans([file_of(live)])) == [Refusal.LIVE]
    assert reasons(table.deletable_orphans(unknown)) == [Refusal.UNKNOWN_INSTANT]
    assert reasons(table.deletable_orphans(unknown, unknown_instants=True)) == []
    with pytest.raises(errors.InstantNotFound):
        table.deletable("20200101000000000", unknown)
