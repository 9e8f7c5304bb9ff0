"""A publisher that makes no progress keeps others waiting for a bounded time only."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake import Action, errors
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.publication import PUBLICATION_LEASE_SECONDS_MAX, Publication
from chronolake_model.vocabulary import TableType
from tests.fix_server import ServerProcess
from tests.published import PublishedTable, row


def test_a_lease_is_five_minutes_at_most(table: PublishedTable) -> None:
    with pytest.raises(errors.InvalidRequest, match="lease_seconds"):
        table.lease("silent", lease_seconds=PUBLICATION_LEASE_SECONDS_MAX + 1)
    assert table.lease("silent", lease_seconds=PUBLICATION_LEASE_SECONDS_MAX).epoch == 1


def test_taking_a_live_lease_again_does_not_extend_it(table: PublishedTable) -> None:
    first = table.lease("silent", lease_seconds=60)
    again = table.lease("silent", lease_seconds=PUBLICATION_LEASE_SECONDS_MAX)
    assert again.lease_expires_at == first.lease_expires_at


def test_only_a_report_with_progress_extends_a_lease(table: PublishedTable) -> None:
    table.write(row(1))
    lease = table.lease("silent", lease_seconds=5)
    assert table.report(lease, 0).lease_expires_at == lease.lease_expires_at
    extended = table.report(lease, 1).lease_expires_at
    assert extended is not None
    assert extended > lease.lease_expires_at
    assert table.report(lease, 1).lease_expires_at == extended
    assert table.report(lease, 0).lease_expires_at == extended


def test_a_report_never_shortens_a_lease(table: PublishedTable) -> None:
    table.write(row(1))
    lease = table.lease("slow", lease_seconds=PUBLICATION_LEASE_SECONDS_MAX)
    assert table.report(lease, 1).lease_expires_at == lease.lease_expires_at


def test_a_publisher_that_reports_no_progress_is_followed_by_another(table: PublishedTable) -> None:
    table.write(row(1))
    lease = table.lease("silent", lease_seconds=1)

    def is_over(publication: Publication) -> bool:
        table.report(lease, 0)
        return publication.publisher is None

    table.wait_for(is_over)
    assert table.table.publish(publisher="another").is_visible


def test_a_client_whose_storage_fails_gives_its_lease_back(table: PublishedTable) -> None:
    table.write(row(1))
    folder = table.folder / ".hoodie"
    folder.mkdir(exist_ok=True)
    (folder / "hoodie.properties").write_text("hoodie.table.name=theirs\n")
    with pytest.raises(errors.StorageFailed):
        table.publish()
    assert table.table.publication().publisher is None
    (folder / "hoodie.properties").unlink()
    assert table.table.publish(publisher="another").is_visible


def test_a_compaction_of_an_unpublished_table_waits_for_a_silent_publisher_no_longer_than_its_lease(
    client: chronolake.Client, tmp_path: Path, shared_server: ServerProcess
) -> None:
    table = PublishedTable(client, tmp_path / "lake", type=TableType.MERGE_ON_READ)
    table.write(row(1))
    table.append(row(2))
    plan = table.table.plan(Action.COMPACTION, [FileGroupName("day=a", bucket_file_id(0))])
    table.lease("silent")
    with pytest.raises(errors.NotPublishedYet):
        table.take_at_once(plan.requested_time)
    table.expire_lease(shared_server.dsn)
    table.take_at_once(plan.requested_time)


def test_a_clean_of_an_unpublished_table_keeps_files_for_a_silent_publisher_no_longer_than_its_lease(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    for number in range(3):
        table.write(row(number))
    table.lease("silent")
    assert table.table.clean(retain_commits=1) == []
    table.expire_lease(shared_server.dsn)
    assert len(table.table.clean(retain_commits=1)) == 1
