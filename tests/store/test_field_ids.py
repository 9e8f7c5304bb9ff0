"""Field ids in the log and its projections: of nested columns, and of files that carry them.

After each test the fixture compares all projections with a rebuild, and verifies the log.
"""

from __future__ import annotations

import msgspec

from chronolake_model.files import WriteStat
from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn, WidenColumn
from chronolake_model.vocabulary import Action
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, restore, stat


def with_ids(stat_of_file: WriteStat) -> WriteStat:
    """The write stat of a file that carries field ids."""
    return msgspec.structs.replace(stat_of_file, has_field_ids=True)


def has_field_ids(history: TablesOfTypes, table: str) -> dict[str, list[bool]]:
    """By file id: whether the base file and then the log files have field ids."""
    return {
        file_slice.file_id[:8]: [
            file.has_field_ids for file in (file_slice.base_file, *file_slice.log_files) if file is not None
        ]
        for file_slice in history.snapshot(table).slices
    }


def test_a_replay_gives_nested_fields_the_same_ids(history: TablesOfTypes) -> None:
    history.change_schema(COW, AddColumn("home", "struct<city:string,geo:struct<lat:float>>"))
    history.change_schema(
        COW,
        RenameColumn("home.city", "town"),
        WidenColumn("home.geo.lat", "double"),
        AddColumn("home.tags", "array<string>"),
    )
    history.change_schema(COW, DropColumn("home.geo"), AddColumn("home.geo", "map<string,int>"))


def test_a_file_keeps_its_field_ids_when_a_restore_brings_it_back(history: TablesOfTypes) -> None:
    first = history.start(COW, Action.COMMIT)
    history.finish(first, with_ids(stat(first, 0)), stat(first, 1))
    savepoint = history.save(COW)
    history.written(COW, Action.COMMIT, 0, 1)
    assert has_field_ids(history, COW) == {"00000000": [False], "00000001": [False]}

    history.answer(restore(history, savepoint))

    assert has_field_ids(history, COW) == {"00000000": [True], "00000001": [False]}


def test_base_and_log_files_of_a_slice_have_field_ids_of_their_own(history: TablesOfTypes) -> None:
    base = history.start(MOR, Action.DELTACOMMIT)
    history.finish(base, with_ids(stat(base, 0)))
    for has_ids in (True, False):
        log = history.start(MOR, Action.DELTACOMMIT)
        stat_of_log = stat(log, 0, log=True)
        history.finish(log, with_ids(stat_of_log) if has_ids else stat_of_log)

    assert has_field_ids(history, MOR) == {"00000000": [True, True, False]}
