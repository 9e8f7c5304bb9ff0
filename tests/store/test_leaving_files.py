"""Rows of cleaned files leave PostgreSQL with their instants, and no answer depends on them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import savepoints, streams
from chronolake_metastore.domain.results import StreamResult
from chronolake_metastore.queries import deletable, file_groups, iceberg
from chronolake_metastore.store import needed_files
from chronolake_metastore.store.files import FIRST
from chronolake_metastore.store.iceberg import BaseFileOfStates, ChangedGroups
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.deletable import Deletable, FindDeletableOrphans
from chronolake_model.file_names import bucket_file_id
from chronolake_model.marker_names import DeletedFile
from chronolake_model.slices import FileGroupHistory
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, TableType
from chronolake_storage.files import Files
from tests.store import archiving, tampering
from tests.store.history import History
from tests.store.shown import TESTER
from tests.store.tables_of_types import TablesOfTypes, group, stat
from tests.store.test_border import ask
from tests.store.test_leaving_instants import (
    LEAST,
    TABLE,
    Killed,
    border,
    clean,
    cleaned_table,
    files_of,
    let_leave,
    rebuild,
)
from tests.store.thinned import query


@pytest.fixture
def archive(tmp_path: Path) -> Files:
    return archiving.local(tmp_path / "archive")


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with cleaned_table(dsn) as history:
        yield history


def test_cleaned_files_leave_with_their_cleans_and_come_back(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needed_files, "DELETED_AT_ONCE", 3)
    before = files_of(dsn)
    let_leave(dsn, archive)
    after, first = files_of(dsn), border(dsn)
    assert first is not None
    left = [before[key] for key in before.keys() - after.keys()]
    assert len(left) > 5
    assert all(cleaned_by is not None and cleaned_by < first for cleaned_by, _ in left)
    assert after.items() <= before.items()
    assert min(before) in after, "the first file of the partition"
    assert tampering.verify(dsn, archive=archive).findings == []

    rebuild(dsn, archive)
    assert files_of(dsn) == after
    rebuild(dsn, archive, with_instants=True)
    assert files_of(dsn) == before


def test_a_file_that_must_stay_and_was_deleted_is_found(dsn: str, history: History, archive: Files) -> None:
    let_leave(dsn, archive)
    kept = files_of(dsn)
    for version, ordinal, _ in (min(kept), max(kept)):
        [[row]] = query(
            dsn,
            f"DELETE FROM file WHERE version = {version} AND ordinal = {ordinal}"
            " RETURNING to_jsonb(file)::text",
        )
        assert len(tampering.verify(dsn, archive=archive).findings) == 1
        query(dsn, f"INSERT INTO file SELECT * FROM jsonb_populate_record(NULL::file, '{row}')")
    assert files_of(dsn) == kept


def test_a_cleaned_file_that_appears_again_after_its_row_has_left_may_be_deleted(
    dsn: str, history: History, archive: Files, tmp_path: Path
) -> None:
    before = names_of(dsn)
    let_leave(dsn, archive)
    left = sorted(before.keys() - names_of(dsn).keys())
    live = sorted(name for name, is_live in before.items() if is_live)
    body = FindDeletableOrphans([DeletedFile("", name) for name in (*left, *live)])

    def orphans(database: Database) -> Awaitable[Deletable]:
        return deletable.find_deletable_orphans(TESTER, database, TABLE, body)

    assert [of.file_name for of in ask(dsn, tmp_path / "archive", orphans).refused] == live


def test_rows_stay_that_a_service_needs_while_a_stream_keeps_the_files(dsn: str, archive: Files) -> None:
    def compact() -> None:
        planned = shop.planned(TABLE, Action.COMPACTION, group(0))
        shop.finish(planned, stat(planned, 0))

    def write_and_leave() -> None:
        for _ in range(3):
            shop.written(TABLE, Action.DELTACOMMIT, 1, 2)
            shop.pass_seconds(4_000)
            clean(shop)
        let_leave(dsn, archive)
        assert tampering.verify(dsn, archive=archive).findings == []

    with TablesOfTypes(dsn) as shop:
        shop.make_namespace("shop")
        shop.make_table_of(TABLE, TableType.MERGE_ON_READ, LEAST)
        shop.written(TABLE, Action.DELTACOMMIT, 0, 1, 2)
        shop.written(TABLE, Action.DELTACOMMIT, 0)
        compact()
        write_and_leave()
        # The clean of the file that the compaction superseded is before the border now.
        write_and_leave()
        assert query(dsn, "SELECT files_from = instants_from FROM first_event") == [(True,)]
        opened = shop.done(streams.OpenStream(TABLE, "job", "w"))
        assert isinstance(opened, StreamResult)
        shop.done(streams.CloseStream(TABLE, "job", opened.of.stream.epoch))
        compact()
        stayed = files_of(dsn)
        # The last run before the border of the files leaves with the instants, whose border goes on.
        write_and_leave()
        write_and_leave()
        assert query(dsn, "SELECT files_from < instants_from FROM first_event") == [(True,)]
        assert stayed.keys() < files_of(dsn).keys()


def test_a_slice_ends_when_the_next_one_began_though_that_one_is_cleaned(dsn: str, history: History) -> None:
    kept, _ = history.write(TABLE, 3)
    history.done(savepoints.CreateSavepoint(TABLE, None, "ann"))
    _, ended = history.write(TABLE, 3)
    live, _ = history.write(TABLE, 3)
    clean(history)

    def slices(database: Database) -> Awaitable[FileGroupHistory]:
        name = ("", bucket_file_id(3))
        return file_groups.history(TESTER, database, TABLE, name, None, 10, None)

    shown_slices = ask(dsn, None, slices).slices
    assert [(of.base_instant_time, of.superseded_at) for of in shown_slices] == [(kept, ended), (live, None)]


def test_iceberg_continues_no_snapshot_whose_files_may_have_left(
    dsn: str, history: History, archive: Files
) -> None:
    states = ask(dsn, None, lambda database: iceberg.states(TESTER, database, TABLE, 100))
    old, new = query(dsn, "SELECT micros(completion_time) FROM instant WHERE action = 'commit' ORDER BY 1")[2:4]
    for _ in range(4):
        history.write(TABLE, 0)
        history.pass_seconds(4_000)
        clean(history)
    between = Micros(old[0]), Micros(new[0])

    def changes(database: Database) -> Awaitable[ChangedGroups | None]:
        [state] = states.states[:1]
        return iceberg.changes(TESTER, database, TABLE, states.table, state, state, between, (10, 10))

    def files(database: Database) -> Awaitable[list[BaseFileOfStates]]:
        [state] = states.states[:1]
        return iceberg.files(TESTER, database, TABLE, states.table, state, None, FIRST, 10)

    changed = ask(dsn, None, changes)
    assert changed is not None
    assert changed.groups == [("", bucket_file_id(0)), ("", bucket_file_id(1))]
    let_leave(dsn, archive)
    assert ask(dsn, None, changes) is None
    with pytest.raises(errors.HistoryCleaned):
        ask(dsn, None, files)


def test_auditors_get_one_answer_from_the_announcement_on(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_arguments: Any) -> None:
        raise Killed

    query(dsn, "CREATE TABLE moments AS SELECT live_from AS at FROM file UNION SELECT superseded_at FROM file")

    def audited() -> list[Any]:
        return [
            query(
                dsn, "SELECT * FROM audit_files WHERE change = 'removed' ORDER BY completion_time, file_name"
            ),
            query(
                dsn,
                "SELECT m.at, t.files, t.size_bytes, t.records"
                " FROM moments m CROSS JOIN LATERAL tables_as_of(m.at) t ORDER BY 1",
            ),
        ]

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(needed_files, "delete", die)
        let_leave(dsn, archive)
    announced = audited()
    let_leave(dsn, archive)
    assert audited() == announced
    assert announced[0] != []
    assert {files for _, files, _, _ in announced[1]} == {None, 3}


def names_of(dsn: str) -> dict[str, bool]:
    """The names of the files, and whether each is live."""
    return dict(query(dsn, "SELECT file_name, superseded_at IS NULL FROM file"))
