"""Files of Hudi's writers in ``.hoodie``: an event of the log, once, and findings of ``chronolake check``."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import chronolake
from chronolake import errors
from chronolake._sync import publishing
from chronolake.cli import checks
from chronolake_hudi import partition_metadata
from chronolake_model.checks import FindingKind
from chronolake_model.publication import FOREIGN_FILES_MAX, PublicationLease, PublicationState
from chronolake_model.schemas import RenameColumn
from chronolake_storage import publications
from tests.fix_server import ServerProcess
from tests.published import PublishedTable, row
from tests.store.tampering import rebuild, tamper, verify

TIMELINE = ".hoodie/timeline"
METADATA_TABLE = ".hoodie/metadata/.hoodie/hoodie.properties"
FOREIGN = f"{TIMELINE}/20300101000000000.commit.requested"


def found_events(client: chronolake.Client, table: PublishedTable) -> list[dict[str, Any]]:
    """The payloads of the events about foreign files."""
    events = client.events(table=table.table.name)
    return [dict(event.payload) for event in events if event.type == "HudiFilesFound"]


def checked(table: PublishedTable) -> None:
    """Let a publisher that has not published the table yet check it."""
    table.table.publish(publisher=os.urandom(4).hex())


def report(table: PublishedTable, paths: list[str], total: int = 0) -> PublicationLease:
    """Report foreign files, which need not exist."""
    lease = table.lease("liar")
    body = {"publisher": "liar", "epoch": lease.epoch, "version": lease.version, "release": True}
    table.post("publication", body | {"foreign_files": paths, "foreign_files_total": total})
    return lease


def hudi_findings(table: PublishedTable) -> set[tuple[FindingKind, str]]:
    """The findings of ``chronolake check`` in the publication."""
    findings = table.table.check().findings
    return {(finding.kind, finding.path) for finding in findings if "hudi" in finding.kind}


def an_hour_later(server: ServerProcess, table: PublishedTable) -> None:
    """Let the last event about foreign files be older than an hour: the log refuses that to everybody else."""
    tamper(
        server.dsn,
        "UPDATE event SET time = time - interval '2 hours'"
        f" WHERE table_id = '{table.table.definition.table_id}' AND type = 'HudiFilesFound'",
    )


def test_foreign_files_are_an_event_of_the_log_that_publishes_nothing(
    client: chronolake.Client, table: PublishedTable
) -> None:
    table.write(row(1))
    table.publish()
    names = table.timeline()
    (table.folder / FOREIGN).touch()
    checked(table)
    [event] = found_events(client, table)
    assert (event["paths"], event["total"]) == ([FOREIGN], 1)
    publication = table.table.publication()
    assert publication.lag_versions == 0
    assert publication.published_version == publication.version
    assert table.timeline() == sorted([*names, FOREIGN.rpartition("/")[2]])
    table.write(row(2), bucket=1)
    table.publish()
    assert len(table.timeline()) == len(names) + 2


def test_the_same_files_are_one_event_however_often_they_are_found(
    client: chronolake.Client, table: PublishedTable
) -> None:
    table.write(row(1))
    table.publish()
    (table.folder / FOREIGN).touch()
    for _ in range(3):
        checked(table)
    assert len(found_events(client, table)) == 1


def test_a_table_without_foreign_files_has_no_event(client: chronolake.Client, table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    checked(table)
    assert found_events(client, table) == []


def test_other_files_are_the_next_event_after_an_hour_and_their_end_is_one(
    client: chronolake.Client, table: PublishedTable, shared_server: ServerProcess
) -> None:
    table.write(row(1))
    table.publish()
    report(table, ["a"])
    report(table, ["b"])
    assert [event["paths"] for event in found_events(client, table)] == [["a"]]
    an_hour_later(shared_server, table)
    report(table, ["b"], total=7)
    assert [event["total"] for event in found_events(client, table)] == [1, 7]
    an_hour_later(shared_server, table)
    report(table, [])
    assert [event["total"] for event in found_events(client, table)] == [1, 7, 0]


def test_reports_that_change_every_time_leave_one_event_and_no_outcomes(
    client: chronolake.Client, table: PublishedTable, shared_server: ServerProcess
) -> None:
    table.write(row(1))
    table.publish()
    report(table, ["a"])
    with psycopg.connect(shared_server.dsn) as connection:
        counting = "SELECT count(*) FROM chronolake.outcome"
        before = connection.execute(counting).fetchone()
        for number in range(5):
            report(table, [f"b{number}"])
        assert connection.execute(counting).fetchone() == before
    assert len(found_events(client, table)) == 1


@pytest.mark.parametrize(
    "paths",
    [["x"] * (FOREIGN_FILES_MAX + 1), ["x" * 1_025], [""], [1]],
    ids=["many", "long", "empty", "number"],
)
def test_a_report_of_too_many_or_wrong_files_is_refused(table: PublishedTable, paths: list[Any]) -> None:
    table.write(row(1))
    table.publish()
    with pytest.raises(chronolake.errors.InvalidRequest):
        report(table, paths)


def test_a_server_records_foreign_files(
    publishing_client: chronolake.Client, following_table: PublishedTable, dsn: str
) -> None:
    following_table.write(row(1))
    following_table.published()
    (following_table.folder / FOREIGN).touch()
    following_table.lease_later("another")
    following_table.expire_lease(dsn)
    following_table.write(row(2), bucket=1)
    following_table.wait_for(lambda publication: bool(publication.foreign_files))
    # The event follows the report.
    following_table.write(row(3), bucket=2)
    following_table.published()
    following_table.wait_for(lambda _: bool(found_events(publishing_client, following_table)))
    [event] = found_events(publishing_client, following_table)
    assert event["paths"] == [FOREIGN]


def test_check_reports_foreign_and_damaged_files_and_changes_nothing(table: PublishedTable) -> None:
    table.write(row(1), row(2, day="b"))
    table.write(row(3), bucket=1)
    table.publish()
    assert hudi_findings(table) == set()
    first, second, *_ = table.timeline()
    (table.folder / TIMELINE / first).unlink()
    content = (table.folder / TIMELINE / second).read_bytes()
    (table.folder / TIMELINE / second).unlink()
    (table.folder / TIMELINE / second).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    partition = f"day=b/{partition_metadata.FILE_NAME}"
    (table.folder / partition).unlink()
    (table.folder / FOREIGN).touch()
    before = table.timeline()

    assert hudi_findings(table) == {
        (FindingKind.FOREIGN_HUDI_FILE, FOREIGN),
        (FindingKind.WRONG_HUDI_FILE, f"{TIMELINE}/{first}"),
        (FindingKind.WRONG_HUDI_FILE, f"{TIMELINE}/{second}"),
        (FindingKind.WRONG_HUDI_FILE, partition),
    }
    assert table.timeline() == before


def test_check_finds_nothing_wrong_where_a_publisher_has_not_reported_yet(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    table.write(row(1))
    table.publish()
    published = table.table.publication().published_version
    table.write(row(2, day="new"), bucket=1)
    table.publish()
    with psycopg.connect(shared_server.dsn) as connection:
        connection.execute(
            "UPDATE chronolake.publication SET published_version = %s WHERE table_id = %s",
            [published, table.table.definition.table_id],
        )
    table.write(row(3, day="newer"), bucket=2)
    assert hudi_findings(table) == set()


def test_check_compares_a_paused_publication_and_leaves_one_that_is_off(table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    table.table.change_schema([RenameColumn("name", "label")])
    (table.folder / FOREIGN).touch()
    assert hudi_findings(table) == {(FindingKind.FOREIGN_HUDI_FILE, FOREIGN)}
    assert table.table.publication().state is PublicationState.PUBLISHING
    with pytest.raises(errors.NotPublished):
        table.publish()
    assert table.table.publication().state is PublicationState.PAUSED
    assert hudi_findings(table) == {(FindingKind.FOREIGN_HUDI_FILE, FOREIGN)}
    table.table.alter(set={"hudi.publish": "false"})
    assert hudi_findings(table) == set()


def test_check_gives_up_on_a_publication_that_pauses_again_and_again(
    table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []

    def pauses(*arguments: object, **options: bool) -> Generator[Any, Any, None]:
        attempts.append(arguments)
        yield from ()
        raise errors.NotPublished("it is paused")

    table.publish()
    monkeypatch.setattr(publications, "inspect", pauses)
    with pytest.raises(errors.NotPublished):
        table.table.inspect_publication()
    assert len(attempts) == publishing.INSPECTIONS_MAX


def test_files_of_earlier_versions_of_hudi_are_found_beside_the_timeline(table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    foreign = [".hoodie/20300101000000000.commit", ".hoodie/hoodie.properties.backup"]
    for path in foreign:
        (table.folder / path).touch()
    metadata_table = table.folder / ".hoodie/metadata/.hoodie"
    metadata_table.mkdir(parents=True)
    (metadata_table / "hoodie.properties").touch()
    checked(table)
    assert table.table.publication().foreign_files == sorted([*foreign, METADATA_TABLE])


def test_a_log_with_foreign_files_is_verified_and_rebuilt(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn)
    with chronolake.connect(server.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.publish()
        report(table, ["a"])
        table.write(row(2), bucket=1)
        assert len(found_events(client, table)) == 1
    assert verify(dsn).findings == []
    server.stop()
    assert set(rebuild(dsn).repaired.values()) == {0}


def test_the_command_says_for_each_finding_what_to_do() -> None:
    assert set(checks._ADVICE) == set(FindingKind)
