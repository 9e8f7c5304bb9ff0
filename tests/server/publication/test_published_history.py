"""Old instants leave the published timeline when its history has them, and readers see the same rows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
from rich.console import Console

import chronolake
from chronolake import errors
from chronolake._sync import publishing
from chronolake.cli import hudi as cli_hudi, main
from chronolake_metastore.domain.active_window import ADVICE, HeldBy
from chronolake_model.checks import FindingKind
from chronolake_model.publication import KEEP_MAX_PROPERTY, KEEP_MIN_PROPERTY, HistoryInstant
from chronolake_model.schemas import AddColumn
from chronolake_storage import published_history
from chronolake_storage.publishing import HISTORY_FOLDER, TIMELINE_FOLDER
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.hudi.keyed_table import KeyedTable
from tests.processes import wait_until
from tests.published import row
from tests.server.publication.archived_tables import (
    SHORT,
    active_times,
    archived,
    history_names,
    manifest,
    names,
    times,
)

WIDE: Final = {KEEP_MAX_PROPERTY: "1000", KEEP_MIN_PROPERTY: "500"}


@pytest.fixture
def keyed_table(shared_server: ServerProcess, store: Store) -> Iterator[KeyedTable]:
    """A copy-on-write table with a short active timeline."""
    with chronolake.connect(shared_server.url, storage_options=store.options) as client:
        yield KeyedTable(client, store, properties=SHORT)


def test_the_oldest_instants_are_in_the_history_and_hudi_reads_the_same_rows(keyed_table: KeyedTable) -> None:
    table = keyed_table
    table.publish()
    published: dict[str, bytes] = {}
    for number in range(12):
        table.upsert(row(number), row(0, name=f"n{number}"))
        before = {name: table.body(f"{TIMELINE_FOLDER}/{name}") for name in names(table)}
        published |= before
        table.publish()
        assert table.of_hudi_rs() == table.own_rows()
        stay = active_times(table)
        assert len(stay) <= 5
        # A prefix has left, and no instant is lost or in both.
        assert sorted(times(archived(table)) + stay) == sorted(
            {name[:17] for name in [*published, *names(table)]}
        )
        assert not archived(table) or times(archived(table))[-1] < stay[0]

    rows = archived(table)
    assert times(rows) == sorted(times(rows))
    assert {(r["instantTime"], r["completionTime"], r["action"]): r["metadata"] for r in rows} == {
        (name[:17], name[18:35], "commit"): published[name] for name in published if name[:17] in times(rows)
    }
    assert {(r["plan"], r["version"]) for r in rows} == {(None, 1)}
    publication = table.table.publication()
    assert publication.active_timeline is not None
    assert publication.active_timeline.before == active_times(table)[0]
    assert publication.foreign_files == []


@pytest.mark.parametrize(
    "damage", ["version", "other-version", "manifest", "manifest-content", "data", "cut", "all"]
)
def test_a_damaged_history_is_written_again_by_the_next_publisher(keyed_table: KeyedTable, damage: str) -> None:
    """apache/hudi PR 11271: without a manifest Hudi's readers lose all of the history."""
    table = keyed_table
    fill(table, 9)
    before, number = archived(table), int(table.body(f"{HISTORY_FOLDER}/_version_"))
    [data] = [entry["fileName"] for entry in manifest(table)]
    paths = [f"{HISTORY_FOLDER}/{name}" for name in history_names(table)]
    match damage:
        case "version":
            table.store.delete(f"{HISTORY_FOLDER}/_version_")
        case "other-version":
            table.put(f"{HISTORY_FOLDER}/_version_", str(number - 1).encode())
        case "manifest":
            table.store.delete(f"{HISTORY_FOLDER}/manifest_{number}")
        case "manifest-content":
            table.put(f"{HISTORY_FOLDER}/manifest_{number}", b'{"files": [')
        case "data":
            table.store.delete(f"{HISTORY_FOLDER}/{data}")
        case "cut":
            table.put(f"{HISTORY_FOLDER}/{data}", b"PAR1")
        case _:
            table.store.delete(*paths)
    of_version = damage in ("version", "other-version", "manifest", "manifest-content", "all")
    of_data = damage in ("data", "cut", "all")
    named = {f"{HISTORY_FOLDER}/_version_": of_version, f"{HISTORY_FOLDER}/{data}": of_data}
    assert damaged(table) == sorted(path for path, is_damaged in named.items() if is_damaged)
    table.table.publish(publisher="another")
    assert damaged(table) == []
    assert archived(table) == before
    assert table.of_hudi_rs() == table.own_rows()


def damaged(table: KeyedTable) -> list[str]:
    """The files of the publication that a check names."""
    findings = table.table.check().findings
    return sorted(
        finding.path for finding in findings if finding.kind is FindingKind.WRONG_HUDI_FILE and finding.path
    )


def fill(table: KeyedTable, commits: int) -> None:
    """Complete and publish commits."""
    for number in range(commits):
        table.upsert(row(number), row(0, name=f"n{number}"))
        table.publish()


def test_three_manifests_stay_and_no_file_that_none_of_them_names(keyed_table: KeyedTable) -> None:
    fill(keyed_table, 14)
    keyed_table.put(f"{HISTORY_FOLDER}/20200101000000000_20200102000000000_0.parquet", b"left over")
    keyed_table.put(f"{HISTORY_FOLDER}/of_another.parquet", b"x")
    fill(keyed_table, 3)
    listed = history_names(keyed_table)
    numbers = [int(name[9:]) for name in listed if name.startswith("manifest_")]
    assert numbers == [*range(max(numbers) - 2, max(numbers) + 1)]
    bodies = [keyed_table.body(f"{HISTORY_FOLDER}/manifest_{number}") for number in numbers]
    named = {entry["fileName"] for body in bodies for entry in msgspec.json.decode(body)["files"]}
    assert {name for name in listed if name.endswith(".parquet")} == {*named, "of_another.parquet"}


def test_foreign_files_hold_the_timeline_and_a_foreign_manifest_is_one(keyed_table: KeyedTable) -> None:
    """apache/hudi#19649: Hudi's readers fail at such a name whenever ``_version_`` is missing."""
    table = keyed_table
    fill(table, 5)
    path = f"{HISTORY_FOLDER}/manifest_114.abcd"
    table.put(path, b"{}")
    assert table.table.publish(publisher="another").foreign_files == [path]
    gone = times(archived(table))
    fill(table, 4)
    assert times(archived(table)) == gone
    publication = table.table.publication()
    assert publication.active_timeline is not None
    assert publication.active_timeline.held_by == HeldBy.FOREIGN_FILES
    table.store.delete(path)
    table.table.publish(publisher="a third")
    fill(table, 3)
    assert len(times(archived(table))) > len(gone)


def test_no_two_rows_have_one_requested_time_and_each_has_a_completion(keyed_table: KeyedTable) -> None:
    """apache/hudi#13264, PR 13579, 10244, 19452: readers take one of two, and fail without completion."""
    table = keyed_table
    table.publish()
    table.table.change_schema([AddColumn("note", "string")])
    for number in range(4):
        table.upsert(row(number))
        table.overwrite("b", row(50 + number, day="b"))
        table.table.clean(retain_commits=1)
        table.publish()
    rows = archived(table)
    assert len({*times(rows)}) == len(rows)
    assert all(entry["completionTime"] for entry in rows)
    assert {entry["action"] for entry in rows} == {"commit", "replacecommit", "clean"}
    assert table.of_hudi_rs() == table.own_rows()


def held_by(table: KeyedTable) -> str | None:
    """The cause that holds the active timeline after four more commits."""
    for number in range(4):
        table.upsert(row(number))
    table.publish()
    active = table.table.publication().active_timeline
    assert active is not None
    return active.held_by


def test_what_holds_the_timeline_is_named_and_stays_on_it(keyed_table: KeyedTable) -> None:
    table = keyed_table
    fill(table, 6)
    pending = table.table.begin()
    assert held_by(table) == HeldBy.PENDING
    assert active_times(table)[0] < pending.requested_time
    pending.rollback()
    savepoint = table.table.savepoint()
    target = table.requested_times[-1]
    assert held_by(table) == HeldBy.SAVEPOINT
    assert min(time for time in active_times(table) if time in table.requested_times) <= target
    table.table.release_savepoint(savepoint.requested_time)
    replace = table.overwrite("a", row(1))
    assert held_by(table) == HeldBy.REPLACED
    assert active_times(table)[0] <= replace
    table.table.clean(retain_commits=1)
    # The clean retains the last commit, and deletes the replaced files.
    assert held_by(table) == HeldBy.CLEAN
    assert replace in times(archived(table))
    assert table.of_hudi_rs() == table.own_rows()


def test_a_savepoint_of_an_instant_in_the_history_is_refused(keyed_table: KeyedTable) -> None:
    table = keyed_table
    fill(table, 8)
    gone = next(time for time in times(archived(table)) if time in table.requested_times)
    with pytest.raises(errors.IllegalTransition, match="has left the published active timeline"):
        table.table.savepoint(gone)
    stays = next(time for time in active_times(table) if time in table.requested_times)
    savepoint = table.table.savepoint(stays)
    fill(table, 6)
    table.table.restore(savepoint.requested_time)
    table.publish()
    assert table.of_hudi_rs() == table.own_rows()
    assert held_by(table) == HeldBy.SAVEPOINT
    assert table.of_hudi_rs() == table.own_rows()


def test_a_table_that_was_hidden_and_is_shown_again_keeps_its_history(keyed_table: KeyedTable) -> None:
    table = keyed_table
    fill(table, 8)
    before = archived(table)
    table.table.alter(set={"hudi.publish": "false"})
    table.publish()
    table.upsert(row(77))
    table.table.alter(unset=["hudi.publish"])
    table.publish()
    assert archived(table)[: len(before)] == before
    assert table.of_hudi_rs() == table.own_rows()
    fill(table, 5)
    assert len(archived(table)) > len(before)
    assert table.of_hudi_rs() == table.own_rows()


def test_an_instant_that_is_put_back_leaves_the_timeline_again(keyed_table: KeyedTable) -> None:
    table = keyed_table
    fill(table, 3)
    name = names(table)[1]
    content = table.body(f"{TIMELINE_FOLDER}/{name}")
    fill(table, 6)
    assert name not in names(table)
    table.put(f"{TIMELINE_FOLDER}/{name}", content)
    publication = table.table.publish(publisher="another")
    assert publication.foreign_files == []
    assert name not in names(table)


def test_a_publisher_that_was_replaced_shows_no_history(
    keyed_table: KeyedTable, shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apache/hudi PR 10244: two archivers at once wrote instants twice."""
    table = keyed_table
    table.publish()
    for number in range(8):
        table.upsert(row(number))
    written = publishing._Publisher.write_history

    def replaced(publisher: Any, *arguments: Any) -> Any:
        monkeypatch.setattr(publishing._Publisher, "write_history", written)
        file = written(publisher, *arguments)
        table.expire_lease(shared_server.dsn)
        table.upsert(row(100))
        table.table.publish(publisher="another")
        return file

    monkeypatch.setattr(publishing._Publisher, "write_history", replaced)
    with pytest.raises(errors.PublicationFenced):
        table.table.publish(publisher="replaced")
    rows = times(archived(table))
    assert len({*rows}) == len(rows) > 0
    assert rows[-1] < active_times(table)[0]
    assert table.of_hudi_rs() == table.own_rows()


def test_a_publisher_that_was_replaced_puts_no_archived_instant_back(
    keyed_table: KeyedTable, shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apache/hudi PR 10325: readers take an instant that is missing between two others for uncommitted."""
    table = keyed_table
    fill(table, 4)
    find = publishing._Publisher.find

    def replaced(publisher: Any, owned: Any) -> Any:
        monkeypatch.setattr(publishing._Publisher, "find", find)
        table.expire_lease(shared_server.dsn)
        fill(table, 6)
        return find(publisher, owned)

    written: list[str] = []
    put_right = publishing._Publisher.put_right

    def recorded(publisher: Any, *arguments: Any) -> Any:
        files = put_right(publisher, *arguments)
        written.extend(file.path for file in files)
        return files

    monkeypatch.setattr(publishing._Publisher, "find", replaced)
    monkeypatch.setattr(publishing._Publisher, "put_right", recorded)
    with pytest.raises(errors.PublicationFenced):
        table.table.publish(publisher="replaced")
    assert written == []
    assert table.of_hudi_rs() == table.own_rows()


@pytest.mark.slow
def test_a_closed_file_of_the_history_is_not_written_again(
    publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = KeyedTable(publishing_client, tmp_path / "lake", properties=SHORT)
    table.upsert(row(1))
    while len(manifest(table) if "_version_" in history_names(table) else []) < 2:
        table.table.begin().complete()
    closed, _ = manifest(table)
    assert closed["fileName"].endswith("_1.parquet")
    before = (table.folder / HISTORY_FOLDER / closed["fileName"]).stat()
    for _ in range(20):
        table.table.begin().complete()
    table.published()
    assert manifest(table)[0] == closed
    assert (table.folder / HISTORY_FOLDER / closed["fileName"]).stat() == before
    # The active ones first: the server goes on moving instants from there to the history.
    active = active_times(table)
    rows = times(archived(table))
    assert rows == sorted({*rows})
    # All but the writes: the creation of the table has a commit too.
    known = {instant.requested_time for instant in table.table.instants()}
    assert known <= {*rows, *active}
    assert table.of_hudi_rs() == table.own_rows()


def test_status_says_where_the_active_timeline_begins_and_what_holds_it(keyed_table: KeyedTable) -> None:
    fill(keyed_table, 8)
    keyed_table.table.begin()
    held_by(keyed_table)
    with io.StringIO() as text:
        cli_hudi._print(Console(file=text, width=200), keyed_table.table.publication())
        printed = text.getvalue()
    assert "older instants are in 1 history file\n" in printed
    assert "pending, 20" in printed


def test_the_status_of_the_archive_names_the_one_cause_its_age_and_what_ends_it(
    keyed_table: KeyedTable, shared_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    table = keyed_table
    command = ["--url", shared_server.url, "archive", "status", table.table.name]
    fill(table, 8)
    assert main.run(command) == 0
    assert re.search("held by *nothing", capsys.readouterr().out)
    savepoint = table.table.savepoint()
    table.table.begin()
    held_by(table)
    active = table.table.publication().active_timeline
    assert active is not None
    assert (active.held_by, active.held_since) == (HeldBy.SAVEPOINT, savepoint.requested_time)
    assert active.held_seconds is not None
    assert active.held_seconds >= 0
    assert main.run(command) == 0
    printed = capsys.readouterr().out
    assert re.search("held by *savepoint, 20", printed)
    assert "chronolake savepoints release" in printed
    figures = httpx.get(f"{shared_server.url}/metrics").text
    assert 'chronolake_active_timeline_held_seconds{held_by="savepoint"}' in figures


def test_each_cause_that_holds_a_timeline_has_an_advice() -> None:
    assert {*ADVICE} == {*HeldBy}


def test_check_finds_nothing_in_a_table_with_a_history(keyed_table: KeyedTable) -> None:
    fill(keyed_table, 9)
    result = keyed_table.table.check()
    assert [finding.kind for finding in result.findings if "hudi" in finding.kind] == []


def test_check_compares_the_rows_of_a_history_with_the_log(keyed_table: KeyedTable) -> None:
    table = keyed_table
    fill(table, 9)
    [name] = [entry["fileName"] for entry in manifest(table)]
    path = f"{HISTORY_FOLDER}/{name}"
    content = table.body(path)
    fields = HistoryInstant.__struct_fields__
    rows = [
        {**row, "requested_time": row["instantTime"], "completion_time": row["completionTime"]}
        for row in archived(table)
    ]
    instants = [HistoryInstant(**{field: row[field] for field in fields}) for row in rows]
    later = msgspec.structs.replace(instants[0], completion_time=instants[1].completion_time)
    for others in (instants[1:], [later, *instants[1:]]):
        assert published_history.differs(table.store.files(), name, others)
    table.put(path, b"PAR1" + bytes(40) + content[44:])
    assert damaged(table) == [path]
    table.put(path, content)
    assert damaged(table) == []


def test_check_of_a_history_ignores_a_manifest_that_a_publisher_has_not_reported_yet(
    keyed_table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed_table
    fill(table, 9)
    show = publishing._Publisher.show_history

    def fail_after(publisher: Any, *arguments: Any) -> None:
        show(publisher, *arguments)
        raise errors.StorageFailed("the publisher ends before its report")

    with monkeypatch.context() as patched:
        patched.setattr(publishing._Publisher, "show_history", fail_after)
        for number in range(4):
            table.upsert(row(number))
        with pytest.raises(errors.StorageFailed):
            table.publish()
    assert damaged(table) == []


def test_a_table_within_its_window_has_no_history(keyed_table: KeyedTable) -> None:
    for number in range(4):
        keyed_table.upsert(row(number))
        keyed_table.publish()
    assert history_names(keyed_table) == []
    assert len(active_times(keyed_table)) == 5


def test_a_server_moves_old_instants_by_itself_when_the_window_becomes_shorter(
    publishing_client: chronolake.Client, tmp_path: Path
) -> None:
    table = KeyedTable(publishing_client, tmp_path / "lake", properties=SHORT | WIDE)
    for number in range(6):
        table.upsert(row(number))
    table.published()
    assert history_names(table) == []
    table.table.alter(set=SHORT)
    for number in range(6):
        table.upsert(row(100 + number, day="b"))
    table.wait_for(lambda publication: _active_commits(table) <= 4 and not publication.lag_versions)

    def on_both() -> tuple[list[str], list[str]]:
        return times(archived(table)), active_times(table)

    # The server may still be moving some: they are on both for a moment.
    wait_until(lambda: on_both() == on_both() and on_both()[0][-1] < on_both()[1][0])
    rows, active = on_both()
    assert {*table.requested_times} <= {*rows, *active}
    assert rows[-1] < active[0]
    assert table.of_hudi_rs() == table.own_rows()


def _active_commits(table: KeyedTable) -> int:
    return len([time for time in active_times(table) if time in table.requested_times])
