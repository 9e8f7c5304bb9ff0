"""A state that Hudi's readers cannot read pauses publication, or is refused; published files stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import chronolake
from chronolake import errors
from chronolake_model.publication import PublicationState
from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn
from chronolake_model.tables import Field
from chronolake_model.times import Tick
from chronolake_model.vocabulary import TableType
from tests.fix_server import ServerProcess
from tests.published import FIELDS, PUBLISHES, PublishedTable, row

UNREADABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a tick of a microsecond": ({"tick": Tick.MICROSECOND}, "tick"),
    "a name with a space": ({"schema": [*FIELDS, Field("a b", "int")]}, "Avro"),
    "a nested name with a space": ({"schema": [*FIELDS, Field("s", "struct<`a b`:int>")]}, "Avro"),
    "a partition by a timestamp without zone": (
        {"schema": [*FIELDS, Field("at", "timestamp_ntz")], "partition_fields": ["at"]},
        "timestamp_ntz",
    ),
}


@pytest.mark.parametrize("case", [name for name in UNREADABLE if "tick" not in name])
def test_a_table_that_hudi_cannot_read_is_paused_with_the_reason(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    definition, reason = UNREADABLE[case]
    table = PublishedTable(client, tmp_path / "lake", **definition)
    with pytest.raises(errors.NotPublished, match=reason):
        table.publish()
    publication = table.table.publication()
    assert publication.state is PublicationState.PAUSED
    assert reason in str(publication.reason)
    assert not (tmp_path / "lake/.hoodie/hoodie.properties").exists()


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_table_that_is_to_be_published_is_refused_if_hudi_cannot_read_it(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    definition, reason = UNREADABLE[case]
    with pytest.raises(errors.InvalidTable, match=reason):
        PublishedTable(client, tmp_path / "lake", properties={"hudi.publish": "true"}, **definition)
    table = PublishedTable(client, tmp_path / "lake", **definition)
    with pytest.raises(errors.InvalidTable, match=reason):
        table.table.alter(set={"hudi.publish": "true"})


def test_a_table_with_a_tick_of_a_microsecond_is_not_published(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(client, tmp_path / "lake", tick=Tick.MICROSECOND)
    publication = table.table.publication()
    assert publication.state is PublicationState.OFF
    assert "create a table with tick 1ms" in str(publication.reason)
    with pytest.raises(errors.NotPublished, match="create a table with tick 1ms"):
        table.publish()


@pytest.mark.parametrize(
    "changes",
    [
        [RenameColumn("name", "label")],
        [RenameColumn("name", "Name")],
        [DropColumn("name"), AddColumn("name", "string")],
        [DropColumn("name"), AddColumn("NAME", "string")],
    ],
    ids=["rename", "rename in case only", "name given again", "name given again in another case"],
)
def test_publication_waits_at_a_rename_until_the_files_from_before_are_rewritten(
    table: PublishedTable, changes: list[Any]
) -> None:
    table.write(row(1), row(2, day="b"))
    table.publish()
    before = table.hudi_rows()
    table.table.change_schema(changes)
    new_name = table.table.definition.schema[-1].name
    table.write({"id": 1, "day": "a", new_name: "z"})

    with pytest.raises(errors.NotPublished, match="renamed, or has the name"):
        table.publish()
    publication = table.table.publication()
    assert publication.state is PublicationState.PAUSED
    assert table.hudi_rows() == before

    table.write({"id": 2, "day": "b", new_name: "w"})
    publication = table.publish()
    assert publication.state is PublicationState.PUBLISHING
    assert publication.is_visible
    assert table.hudi_rows() == [{"id": 1, "day": "a", new_name: "z"}, {"id": 2, "day": "b", new_name: "w"}]


def test_listing_steps_changes_nothing_and_a_report_records_the_pause(table: PublishedTable) -> None:
    table.write(row(1))
    table.publish()
    table.table.change_schema([RenameColumn("name", "label")])
    lease = table.lease("one")
    before = table.table.publication()

    steps = f"{table.url}/v1/tables/{table.table.name}/publication/steps"
    answer = httpx.get(steps, params={"after": lease.published_version})

    assert answer.json()["code"] == "not-published"
    after = table.table.publication()
    assert (after.state, after.publisher) == (before.state, "one")
    assert after.state is PublicationState.PUBLISHING
    assert table.report(lease, lease.published_version).state is PublicationState.PUBLISHING
    reported = table.report(lease, lease.published_version, paused=True)
    assert reported.state is PublicationState.PAUSED
    assert "renamed" in str(reported.reason)
    with pytest.raises(errors.NotPublished, match="renamed"):
        table.lease("two")


def test_a_report_of_a_pause_that_is_none_records_none(table: PublishedTable) -> None:
    table.write(row(1))
    lease = table.lease("one")
    assert table.report(lease, 0, paused=True).state is PublicationState.PUBLISHING


@pytest.mark.parametrize(
    "changes",
    [[RenameColumn("name", "label")], [DropColumn("name"), AddColumn("name", "int")]],
    ids=["rename", "name given again with another type"],
)
def test_an_empty_base_file_from_before_a_rename_pauses_nothing(
    table: PublishedTable, changes: list[Any]
) -> None:
    for bucket in (0, 1):
        table.write(row(1 + bucket), bucket=bucket)
    with table.table.begin() as write:
        [emptied] = table.files(write.requested_time, [], partition="day=a")
        write.add(emptied)
    table.table.change_schema(changes)
    with pytest.raises(errors.NotPublished, match=r"still live \(1, such as day=a/00000001"):
        table.publish()

    new_row = {"id": 2, "day": "a", table.table.definition.schema[-1].name: None}
    table.write(new_row, bucket=1)
    assert table.publish().is_visible
    assert table.hudi_rows() == [new_row]


def test_a_rename_before_the_first_file_pauses_nothing(table: PublishedTable) -> None:
    table.publish()
    table.table.change_schema([RenameColumn("name", "label")])
    table.write({"id": 1, "day": "a", "label": "z"})
    table.publish()
    assert table.hudi_rows() == [{"id": 1, "day": "a", "label": "z"}]


def test_a_late_file_of_the_schema_before_a_rename_pauses(table: PublishedTable) -> None:
    table.publish()
    late = table.table.begin()
    stats = table.files(late.requested_time, [row(1)])
    table.table.change_schema([RenameColumn("name", "label")])
    table.publish()
    for stat in stats:
        late.add(stat)
    late.complete()
    with pytest.raises(errors.NotPublished, match="renamed"):
        table.publish()
    assert table.hudi_rows() == []


def test_publication_waits_while_a_pending_base_file_would_hide_a_log_file(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(client, tmp_path / "lake", type=TableType.MERGE_ON_READ)
    pending = table.table.begin()
    pending.mark(*table.markers(table.files(pending.requested_time, [row(1)])))
    table.append(row(2), bucket=1)
    table.publish()
    table.append(row(1))
    with pytest.raises(errors.NotPublished, match=pending.requested_time):
        table.publish()
    table.append(row(2), bucket=1)

    pending.rollback()
    assert table.publish().lag_versions == 0
    assert table.hudi_rows() == [row(1), row(2)]


def test_publication_waits_while_an_undone_base_file_would_hide_a_log_file(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(client, tmp_path / "lake", type=TableType.MERGE_ON_READ)
    table.write(row(1))
    savepoint = table.table.savepoint()
    undone = table.write(row(2), bucket=1)
    table.publish()
    table.table.restore(savepoint.requested_time)
    table.append(row(1))
    table.publish()
    table.append(row(2), bucket=1)
    with pytest.raises(errors.NotPublished, match=undone):
        table.publish()

    table.table.release_savepoint(savepoint.requested_time)
    table.append(row(1))
    table.table.clean(retain_commits=1)
    assert table.publish().lag_versions == 0
    assert table.hudi_rows() == [row(1), row(2)]


def test_a_rename_is_refused_if_the_table_is_to_be_published(client: chronolake.Client, tmp_path: Path) -> None:
    table = PublishedTable(client, tmp_path / "lake", properties={"hudi.publish": "true"})
    with pytest.raises(errors.IncompatibleSchema, match=r"add a column of a new name\. To change .* unset the"):
        table.table.change_schema([RenameColumn("name", "label")])
    with pytest.raises(errors.IncompatibleSchema, match="Avro"):
        table.table.change_schema([AddColumn("a b", "int")])
    table.table.change_schema([AddColumn("ab", "int")])


def test_a_server_that_does_not_see_the_folder_says_that_the_table_pauses(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    server = new_server(dsn, *PUBLISHES)
    with chronolake.connect(server.url) as client:
        table = PublishedTable(client, tmp_path / "lake", base_path=str(tmp_path / "elsewhere"))
        table.write(row(1))
        table.table.change_schema([RenameColumn("name", "label")])
        publication = table.wait_for(lambda publication: publication.state is PublicationState.PAUSED)
        assert "'label' was renamed" in str(publication.reason)
        table.wait_for(lambda publication: "does not see it" in str(publication.failure))


def test_a_server_pauses_and_resumes_by_itself(following_table: PublishedTable) -> None:
    following_table.write(row(1))
    following_table.published()
    following_table.table.change_schema([RenameColumn("name", "label")])
    following_table.wait_for(lambda publication: publication.state is PublicationState.PAUSED)
    following_table.write({"id": 1, "day": "a", "label": "z"})
    following_table.published()
    assert following_table.hudi_rows() == [{"id": 1, "day": "a", "label": "z"}]
