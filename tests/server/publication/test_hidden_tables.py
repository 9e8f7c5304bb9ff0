"""Publication that is switched off: Hudi's readers find no table, before a clean deletes what they saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake import errors
from chronolake._location import TableLocation
from chronolake._published_location import PublishedLocation
from chronolake._sync import publishing as publishers
from chronolake.cli import main
from chronolake_model.publication import PublicationState, ReportPublication
from chronolake_model.schemas import RenameColumn
from chronolake_storage import publishing
from tests.fix_server import ServerProcess
from tests.published import PublishedTable, row

OFF = {"hudi.publish": "false"}
THEIRS = "hoodie.table.name=theirs\nhoodie.table.type=COPY_ON_WRITE\n"


def written_and_published(table: PublishedTable) -> list[str]:
    """Publish one row, and replace its file twice; returns the data files."""
    table.write(row(0))
    table.publish()
    table.write(row(1))
    table.write(row(2))
    return data_files(table)


def data_files(table: PublishedTable) -> list[str]:
    return sorted(path.name for path in table.folder.glob("day=*/*.parquet"))


def switch_off(client: chronolake.Client, table: PublishedTable) -> None:
    """Set the property as another client does."""
    client.table(table.table.name).alter(set=OFF)


def clean_at_server(table: PublishedTable) -> bytes:
    """Plan a clean as a client of any language does; the answer."""
    return table.post("cleans", {"writer": "w", "retain_commits": 1})


def is_shown(table: PublishedTable) -> bool:
    return (table.folder / publishing.PROPERTIES_PATH).exists()


def test_readers_find_no_table_as_soon_as_publication_is_off(
    client: chronolake.Client, table: PublishedTable
) -> None:
    written_and_published(table)
    switch_off(client, table)
    publication = table.publish()

    assert publication.state is PublicationState.OFF
    assert not publication.is_visible
    assert "hidden from Hudi's readers since" in str(publication.reason)
    with pytest.raises(Exception, match=r"hoodie\.properties"):
        table.hudi_rows()
    again = table.publish()
    assert (again.reason, again.is_hidden) == (publication.reason, True)
    table.write(row(3))
    assert (table.table.publication().lag_versions, table.table.publication().lag_seconds) == (0, 0.0)


def test_a_clean_keeps_what_readers_see_until_the_table_is_hidden(
    client: chronolake.Client, table: PublishedTable
) -> None:
    files = written_and_published(table)
    switch_off(client, table)

    assert b'"clean":null' in clean_at_server(table)
    assert data_files(table) == files
    assert table.hudi_rows() == [row(0)]
    publication = table.table.publication()
    assert publication.is_visible
    assert "not hidden from Hudi's readers yet" in str(publication.reason)

    table.publish()
    assert b'"clean":null' not in clean_at_server(table)


def test_a_client_that_cleans_hides_the_table_first(client: chronolake.Client, table: PublishedTable) -> None:
    written_and_published(table)
    switch_off(client, table)
    assert len(table.table.reload().clean(retain_commits=1)) == 1
    assert len(data_files(table)) == 1
    assert not is_shown(table)


def test_a_client_that_publishes_hides_the_table_when_it_switches_publication_off(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = PublishedTable(client, tmp_path / "lake", properties={"hudi.publisher": "client"})
    table.write(row(0))
    assert is_shown(table)
    table.table.alter(set=OFF)
    assert not is_shown(table)
    table.table.alter(set={"hudi.publish": "true"})
    assert table.hudi_rows() == [row(0)]


def test_a_table_is_shown_again_when_all_of_it_is_published(
    client: chronolake.Client, table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_and_published(table)
    switch_off(client, table)
    table.table.reload().clean(retain_commits=1)
    table.table.alter(unset=["hudi.publish"])
    shown: list[bool] = []
    write = publishing._write

    def watched(*arguments: object, **options: bool) -> None:
        shown.append(is_shown(table))
        write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(publishing, "_write", watched)
    assert table.publish().is_visible
    assert shown and not any(shown)
    assert table.hudi_rows() == table.rows() == [row(2)]


def test_a_publisher_that_was_replaced_does_not_show_a_hidden_table(
    client: chronolake.Client,
    shared_server: ServerProcess,
    table: PublishedTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.write(row(0))
    report = publishers._Publisher.report

    def report_late(self: Any, body: ReportPublication) -> None:
        monkeypatch.setattr(publishers._Publisher, "report", report)
        table.expire_lease(shared_server.dsn)
        switch_off(client, table)
        table.table.publish(publisher="another")
        report(self, body)

    monkeypatch.setattr(publishers._Publisher, "report", report_late)
    with pytest.raises(errors.PublicationFenced):
        table.table.publish(publisher="late")
    assert "is hidden" in str(table.table.publication().reason)
    assert not is_shown(table)


def test_the_table_of_another_is_not_removed(client: chronolake.Client, table: PublishedTable) -> None:
    files = written_and_published(table)
    path = table.folder / publishing.PROPERTIES_PATH
    path.unlink()
    path.write_text(THEIRS)
    switch_off(client, table)

    with pytest.raises(errors.StorageFailed, match="of another Hudi table, so it is not removed"):
        table.publish()
    assert table.table.reload().clean(retain_commits=1) == []
    assert path.read_text() == THEIRS
    assert data_files(table) == files
    path.unlink()
    assert len(table.table.clean(retain_commits=1)) == 1


def test_a_backup_that_a_writer_of_hudi_has_left_keeps_the_table_from_being_hidden(
    client: chronolake.Client, table: PublishedTable
) -> None:
    written_and_published(table)
    backup = table.folder / publishing.BACKUP_PATH
    backup.write_bytes((table.folder / publishing.PROPERTIES_PATH).read_bytes())
    switch_off(client, table)

    with pytest.raises(errors.StorageFailed, match=r"hoodie\.properties\.backup"):
        table.publish()
    assert b'"clean":null' in clean_at_server(table)
    backup.unlink()
    assert not table.publish().is_visible
    assert b'"clean":null' not in clean_at_server(table)


def test_a_table_that_was_never_published_beside_another_holds_no_clean(
    client: chronolake.Client, table: PublishedTable
) -> None:
    path = table.folder / publishing.PROPERTIES_PATH
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    table.write(row(0))
    with pytest.raises(errors.StorageFailed, match="or set hudi"):
        table.publish()
    table.write(row(1))
    switch_off(client, table)
    assert len(table.table.reload().clean(retain_commits=1)) == 1
    assert path.read_text() == THEIRS


def test_a_table_that_no_publisher_has_begun_has_nothing_to_hide(
    client: chronolake.Client, table: PublishedTable
) -> None:
    table.write(row(0))
    table.write(row(1))
    switch_off(client, table)
    with pytest.raises(errors.NotPublished, match=r"hudi\.publish is false$"):
        table.publish()
    assert b'"clean":null' not in clean_at_server(table)


def test_a_table_whose_first_publisher_died_may_be_seen_and_is_hidden(
    client: chronolake.Client, shared_server: ServerProcess, table: PublishedTable
) -> None:
    table.write(row(0))
    table.write(row(1))
    table.lease("dead")
    table.expire_lease(shared_server.dsn)
    switch_off(client, table)
    assert b'"clean":null' in clean_at_server(table)
    assert not table.publish().is_visible
    assert b'"clean":null' not in clean_at_server(table)


def test_a_paused_table_is_hidden(client: chronolake.Client, table: PublishedTable) -> None:
    table.write(row(0))
    table.publish()
    table.table.change_schema([RenameColumn("name", "label")])
    with pytest.raises(errors.NotPublished, match="renamed"):
        table.publish()
    switch_off(client, table)
    assert not table.publish().is_visible
    assert not is_shown(table)


def test_a_server_hides_a_table_and_shows_it_again(following_table: PublishedTable) -> None:
    following_table.write(row(0))
    following_table.published()
    following_table.table.alter(set=OFF)
    following_table.wait_for(lambda publication: "is hidden" in str(publication.reason))
    assert not is_shown(following_table)
    following_table.write(row(1))
    assert b'"clean":null' not in clean_at_server(following_table)
    following_table.table.alter(unset=["hudi.publish"])
    following_table.published()
    assert following_table.hudi_rows() == following_table.rows() == [row(1)]


def stall_before(monkeypatch: pytest.MonkeyPatch, name: str, then: Callable[[], object]) -> None:
    """Let a publisher stall at one method, once, while ``then`` happens."""
    method = getattr(PublishedLocation, name)

    def stalled(self: PublishedLocation, *arguments: Any) -> Any:
        is_meant = name != "execute" or any(
            file.path == publishing.PROPERTIES_PATH for step in arguments[0] for file in step.writes
        )
        if is_meant:
            monkeypatch.setattr(PublishedLocation, name, method)
            then()
        return method(self, *arguments)

    monkeypatch.setattr(PublishedLocation, name, stalled)


def hidden_and_put_back(client: chronolake.Client, table: PublishedTable) -> None:
    """Hide a table of which a clean can delete files, and put its ``hoodie.properties`` back."""
    written_and_published(table)
    path = table.folder / publishing.PROPERTIES_PATH
    content = path.read_bytes()
    switch_off(client, table)
    table.publish()
    table.table.reload()
    path.write_bytes(content)


def test_a_publisher_that_stalls_before_it_shows_a_hidden_table_hides_it_again(
    client: chronolake.Client,
    shared_server: ServerProcess,
    table: PublishedTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written_and_published(table)
    switch_off(client, table)
    table.publish()
    client.table(table.table.name).alter(unset=["hudi.publish"])

    def hide_and_clean() -> None:
        table.expire_lease(shared_server.dsn)
        switch_off(client, table)
        assert len(client.table(table.table.name).clean(retain_commits=1)) == 1
        assert not is_shown(table)

    stall_before(monkeypatch, "execute", hide_and_clean)
    with pytest.raises(errors.PublicationFenced):
        table.table.publish(publisher="late")
    assert not is_shown(table)
    assert table.table.publication().is_hidden


def test_a_publisher_that_stalls_before_it_hides_a_shown_table_shows_it_again(
    client: chronolake.Client,
    shared_server: ServerProcess,
    table: PublishedTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written_and_published(table)
    switch_off(client, table)

    def show() -> None:
        table.expire_lease(shared_server.dsn)
        other = client.table(table.table.name).alter(unset=["hudi.publish"])
        assert other.publish(publisher="another").is_visible

    stall_before(monkeypatch, "hide", show)
    with pytest.raises(errors.PublicationFenced):
        table.table.publish(publisher="late")
    assert is_shown(table)
    assert table.hudi_rows() == [row(2)]


def test_no_clean_deletes_while_the_properties_are_there_again(
    client: chronolake.Client, table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden_and_put_back(client, table)
    files = data_files(table)

    with monkeypatch.context() as patch:
        # The properties came back after the client had looked.
        patch.setattr(publishers, "publish_if_possible", lambda *_: None)
        with pytest.raises(errors.StorageFailed, match=r"hidden from Hudi's readers, but .* shows it again"):
            table.table.clean(retain_commits=1)
    assert data_files(table) == files
    assert len(table.table.clean(retain_commits=1)) == 1
    assert not is_shown(table)
    assert len(data_files(table)) == 1


def test_a_client_that_cleans_hides_the_table_again(client: chronolake.Client, table: PublishedTable) -> None:
    hidden_and_put_back(client, table)
    assert len(table.table.clean(retain_commits=1)) == 1
    assert not is_shown(table)


def test_the_command_line_hides_again_and_says_so(
    client: chronolake.Client,
    table: PublishedTable,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hidden_and_put_back(client, table)
    assert main.run(["--url", client.url, "hudi", "publish", table.table.name]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "hidden from Hudi's readers since" in shown
    assert "lag" not in shown
    assert not is_shown(table)


def test_a_check_reports_a_hidden_table_that_is_visible(
    client: chronolake.Client, table: PublishedTable
) -> None:
    hidden_and_put_back(client, table)
    inspection = table.table.inspect_publication()
    assert inspection is not None
    assert inspection.damaged == {publishing.PROPERTIES_PATH: publishers.SHOWN}
    table.publish()
    assert table.table.inspect_publication() is None
    (table.folder / publishing.PROPERTIES_PATH).write_text(THEIRS)
    assert table.table.inspect_publication() is None


def test_a_server_hides_a_table_that_is_visible_again(following_table: PublishedTable) -> None:
    following_table.write(row(0))
    following_table.published()
    path = following_table.folder / publishing.PROPERTIES_PATH
    content = path.read_bytes()
    following_table.table.alter(set=OFF)
    following_table.wait_for(lambda publication: publication.is_hidden)
    path.write_bytes(content)
    # A look of the server follows an event, and not more often than each ten intervals.
    for number in range(1, 30):
        following_table.write(row(number))
        if not path.exists():
            break
        time.sleep(0.05)
    assert not path.exists()


def test_a_clean_says_that_publication_holds_its_files_once_it_is_on_again(
    client: chronolake.Client, table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written_and_published(table)
    switch_off(client, table)
    table.publish()
    delete = TableLocation.delete

    def switch_on_and_delete(self: TableLocation, *arguments: Any) -> dict[str, str]:
        client.table(table.table.name).alter(unset=["hudi.publish"])
        return delete(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TableLocation, "delete", switch_on_and_delete)
        with pytest.raises(
            errors.StorageFailed, match=r"publication for Hudi's readers needs it now.*Clean again"
        ):
            table.table.clean(retain_commits=1)
    assert data_files(table) == files
    table.publish()
    assert len(table.table.clean(retain_commits=1)) == 1
    assert len(data_files(table)) == 1
