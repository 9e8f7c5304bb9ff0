"""The record index follows every commit of any writer, without a JVM."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import chronolake
from chronolake.indexes.record import entry_files, manifests as index_manifests, record_index
from chronolake.indexes.record.manifests import Manifest, StoredManifests
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.slices import columns
from chronolake.slices.base_files import TableFolder
from chronolake_model.tables import BucketIndex, Field
from chronolake_model.vocabulary import Action, IndexType, TableType
from chronolake_spark import errors
from chronolake_spark.index import lookups
from chronolake_storage.errors import StorageError
from chronolake_storage.local import LocalFiles
from tests.spark.hand_written import base, commit, log

_NUMBERS = itertools.count(1)
NewTable = Callable[..., chronolake.Table]


@pytest.fixture
def new_table(shared_server_url: str, tmp_path: Path) -> Iterator[NewTable]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("indexed", if_not_exists=True)

        def make(type_: TableType = TableType.COPY_ON_WRITE, **definition: Any) -> chronolake.Table:
            number = next(_NUMBERS)
            return client.create_table(
                f"indexed.t{os.getpid()}_{number}",
                base_path=str(tmp_path / f"table{number}"),
                schema=[Field("id", "string"), Field("day", "string")],
                record_key_fields=["id"],
                partition_fields=["day"],
                index=BucketIndex(IndexType.RECORD),
                type=type_,
                **definition,
            )

        yield make


def places(table: chronolake.Table, *keys: str) -> dict[str, str]:
    """``partition/file id`` of each key: in the index after it caught up, and in a lookup before, the same."""
    index = RecordIndex(table)
    wanted = pa.array(keys)
    found = index.find_now(wanted)
    manifest = index.catch_up()
    assert manifest is not None
    caught_up = _by_key(index.find(manifest, wanted))
    assert found is None or _by_key(found.entries) == caught_up
    assert RecordIndex(table).catch_up() == manifest
    return caught_up


def _by_key(entries: pa.Table) -> dict[str, str]:
    return {key: f"{path}/{file_id}" for key, path, file_id in zip(*entries.to_pydict().values(), strict=True)}


@pytest.mark.parametrize("is_built_late", [False, True])
def test_the_index_follows_commits_of_other_writers(new_table: NewTable, is_built_late: bool) -> None:
    table = new_table()
    assert RecordIndex(table).catch_up() is None
    first = commit(table, {("day=1", "a-0"): base("k1", "k2")})
    if not is_built_late:
        assert places(table, "k1", "k2", "k3") == {"k1": "day=1/a-0", "k2": "day=1/a-0"}
    commit(
        table,
        {
            ("day=1", "a-0"): base("k1", "k4", times={"k1": first.requested_time}),
            ("day=2", "b-0"): base("k2", "k3"),
        },
    )

    expected = {"k1": "day=1/a-0", "k2": "day=2/b-0", "k3": "day=2/b-0", "k4": "day=1/a-0"}
    assert places(table, "k1", "k2", "k3", "k4", "k5") == expected


def test_a_clustering_that_keeps_commit_times_moves_entries(new_table: NewTable) -> None:
    table = new_table()
    first = commit(table, {("day=1", "a-0"): base("k1"), ("day=1", "b-0"): base("k2")})
    places(table, "k1")
    kept = dict.fromkeys(("k1", "k2"), first.requested_time)
    groups = [("day=1", "a-0"), ("day=1", "b-0")]
    commit(
        table,
        {("day=1", "c-0"): base("k1", "k2", times=kept)},
        replaced=groups,
        action=Action.CLUSTERING,
        planned=groups,
    )

    assert places(table, "k1", "k2") == {"k1": "day=1/c-0", "k2": "day=1/c-0"}


def test_a_restore_brings_back_the_entries_of_records_that_had_moved(new_table: NewTable) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1", "k2"), ("day=2", "b-0"): base("k3")})
    savepoint = table.savepoint()
    before = places(table, "k1", "k2", "k3")
    commit(table, {("day=1", "a-0"): base("k2"), ("day=2", "b-0"): base("k1", "k3")})
    commit(
        table, {("day=3", "d-0"): base("k2", "k9")}, replaced=[("day=1", "a-0")], action=Action.REPLACECOMMIT
    )
    assert places(table, "k1", "k2")["k1"] == "day=2/b-0"
    table.restore(savepoint.requested_time)

    assert places(table, "k1", "k2", "k3") == before


def test_what_was_rolled_back_is_not_in_the_index(new_table: NewTable) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    with pytest.raises(RuntimeError, match="crash"), table.begin():
        raise RuntimeError("crash")
    commit(table, {("day=1", "b-0"): base("k2")})

    assert places(table, "k1", "k2") == {"k1": "day=1/a-0", "k2": "day=1/b-0"}


def test_records_of_log_files_are_found_also_after_a_compaction(new_table: NewTable) -> None:
    table = new_table(TableType.MERGE_ON_READ)
    first = commit(table, {("day=1", "a-0"): base("k1", "k2"), ("day=2", "b-0"): base("k3")})
    places(table, "k1")
    commit(table, {("day=1", "a-0"): log("k4", deletes=["k1"]), ("day=2", "b-0"): log("k1")})
    moved = {"k1": "day=2/b-0", "k2": "day=1/a-0", "k3": "day=2/b-0", "k4": "day=1/a-0"}
    assert places(table, "k1", "k2", "k3", "k4") == moved
    fourth = commit(table, {("day=1", "a-0"): log("k5")})
    commit(
        table,
        {
            ("day=1", "a-0"): base(
                "k2", "k4", "k5", times={"k2": first.requested_time, "k5": fourth.requested_time}
            )
        },
        action=Action.COMPACTION,
        planned=[("day=1", "a-0")],
    )
    # The compaction came before the catch-up, so the record of the log file is in the base file.
    assert places(table, "k1", "k2", "k4", "k5") == {
        "k1": "day=2/b-0",
        "k2": "day=1/a-0",
        "k4": "day=1/a-0",
        "k5": "day=1/a-0",
    }


def test_a_key_that_was_inserted_and_deleted_in_log_files_keeps_its_file_group(new_table: NewTable) -> None:
    table = new_table(TableType.MERGE_ON_READ)
    commit(table, {("day=1", "a-0"): base("k1"), ("day=2", "b-0"): base("k2")})
    places(table, "k1")
    commit(table, {("day=1", "a-0"): log("gone", "moved")})
    commit(table, {("day=1", "a-0"): log(deletes=["gone", "moved"]), ("day=2", "b-0"): log("moved")})
    expected = {"gone": "day=1/a-0", "moved": "day=2/b-0"}
    assert places(table, "gone", "moved") == expected
    commit(table, {("day=1", "a-0"): log("k3")})

    # The delete of an earlier commit is read again, and does not count.
    assert places(table, "gone", "moved") == expected


def test_deleted_keys_keep_their_file_group_when_the_index_is_made_again(new_table: NewTable) -> None:
    """Only so are their deletes compared with older records that come later."""
    table = new_table(TableType.MERGE_ON_READ)
    commit(table, {("day=1", "a-0"): base("gone", "moved", "twice")})
    commit(table, {("day=1", "a-0"): log(deletes=["moved"]), ("day=2", "b-0"): base("moved")})
    commit(table, {("day=1", "a-0"): log(deletes=["twice"]), ("day=2", "b-0"): log("twice", "new")})
    before = places(table, "gone")
    commit(
        table,
        {("day=1", "a-0"): log(deletes=["gone"]), ("day=2", "b-0"): log(deletes=["twice", "new", "gone2"])},
    )
    followed = places(table, "gone", "moved", "twice", "new", "gone2")
    assert followed == {
        **before,
        "moved": "day=2/b-0",
        "twice": "day=2/b-0",
        "new": "day=2/b-0",
        "gone2": "day=2/b-0",
    }
    RecordIndex(table).catch_up(rebuild=True)
    assert places(table, *followed) == followed

    # The restore takes in all of a group, but not its delete of a record that is elsewhere since.
    savepoint = table.savepoint()
    commit(table, {("day=1", "a-0"): log("k5")})
    table.restore(savepoint.requested_time)
    assert places(table, *followed) == followed


def test_deletes_after_a_compaction_keep_their_file_group(new_table: NewTable) -> None:
    table = new_table(TableType.MERGE_ON_READ)
    commit(table, {("day=1", "a-0"): base("k1")})
    places(table, "k1")
    added = commit(table, {("day=1", "a-0"): log("k2")})
    commit(
        table,
        {("day=1", "a-0"): base("k1", "k2", times={"k2": added.requested_time})},
        action=Action.COMPACTION,
        planned=[("day=1", "a-0")],
    )
    commit(table, {("day=1", "a-0"): log(deletes=["k2"])})
    assert places(table, "k1", "k2") == {"k1": "day=1/a-0", "k2": "day=1/a-0"}


def test_an_index_whose_history_was_cleaned_is_made_again(new_table: NewTable) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    places(table, "k1")
    for number in range(3):
        commit(
            table, {("day=1", "a-0"): base("k1", f"m{number}"), ("day=2", f"c{number}-0"): base(f"n{number}")}
        )
    table.clean(retain_commits=1)

    assert places(table, "k1", "m0", "m2", "n0") == {
        "k1": "day=1/a-0",
        "m2": "day=1/a-0",
        "n0": "day=2/c0-0",
    }


@pytest.mark.parametrize("type_", TableType)
def test_stale_entries_give_no_records(new_table: NewTable, type_: TableType) -> None:
    table = new_table(type_)
    commit(
        table,
        {
            ("day=1", "a-0"): base("replaced", "deleted", "stays"),
            ("day=2", "b-0"): base("dropped"),
            ("day=3", "c-0"): base("moves"),
        },
    )
    assert places(table, "moves") == {"moves": "day=3/c-0"}
    has_logs = type_ is TableType.MERGE_ON_READ
    commit(table, {("day=1", "a-0"): log(deletes=["deleted"]) if has_logs else base("replaced", "stays")})
    commit(
        table,
        {("day=3", "d-0"): base("moves", "deleted2"), ("day=3", "c-0"): log(deletes=["moves"])}
        if has_logs
        else {("day=3", "d-0"): base("moves"), ("day=3", "c-0"): base("other")},
    )
    commit(table, {}, replaced=[("day=2", "b-0")], action=Action.REPLACECOMMIT)
    keys = ["replaced", "deleted", "stays", "dropped", "moves"]

    def found() -> list[str]:
        return sorted(lookups.find(table, keys)[0][columns.RECORD_KEY].to_pylist())

    assert found() == ["moves", "replaced", "stays"]
    RecordIndex(table).catch_up()
    assert found() == ["moves", "replaced", "stays"]
    commit(table, {("day=1", "e-0"): base("stays")}, replaced=[("day=1", "a-0")], action=Action.REPLACECOMMIT)
    assert found() == ["moves", "stays"]
    assert lookups.find(table, [{"id": "stays", "day": "2"}, {"id": "moves", "day": "2"}])[0].num_rows == 0
    assert lookups.find(table, [{"id": "stays", "day": "1"}])[0].num_rows == 1


@pytest.mark.parametrize("damage", ["cut", "footer", "entries", "gone", "of another table"])
def test_a_damaged_index_is_said_and_made_again(new_table: NewTable, damage: str) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1", "k2")})
    manifest = caught_up(table)
    other = new_table()
    commit(other, {("day=1", "b-0"): base("k3", "k4")})
    content = bytearray(file_of(other).read_bytes())
    damaged = file_of(table)
    assert len(content) == manifest.files[0].size_bytes
    if damage == "of another table":
        damaged.write_bytes(content)
    elif damage == "gone":
        damaged.unlink()
    else:
        content = bytearray(damaged.read_bytes())
        footer = -8 - int.from_bytes(content[-8:-4], "little")
        content[{"cut": 0, "footer": footer, "entries": 60}[damage]] ^= 0xFF
        damaged.write_bytes(content[: -1 if damage == "cut" else None])
    with pytest.raises(errors.RecordIndexDamaged, match="rebuild"):
        lookups.find(table, ["k1"])

    again = RecordIndex(table).catch_up(rebuild=True)

    assert again is not None
    assert (again.covered, again.generation) == (manifest.covered, 1)
    assert places(table, "k1") == {"k1": "day=1/a-0"}


def test_a_failure_of_storage_is_no_damage(new_table: NewTable) -> None:
    """Its error is the same as that of Arrow for damaged content."""
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    [file] = caught_up(table).files

    class Failing:
        def open_input_file(self, path: str) -> pa.NativeFile:
            raise OSError(f"AWS Error NETWORK_CONNECTION during GetObject of {path}")

        open_input_stream = open_input_file

    folder = TableFolder(Failing(), "lake")
    with pytest.raises(OSError, match="NETWORK"):
        entry_files.read(folder, file)


def caught_up(table: chronolake.Table) -> Manifest:
    manifest = RecordIndex(table).catch_up()
    assert manifest is not None
    return manifest


def file_of(table: chronolake.Table) -> Path:
    """The only file of the index."""
    [file] = caught_up(table).files
    return Path(table.definition.base_path, file.path)


def manifests_of(table: chronolake.Table) -> Path:
    folder = index_manifests.folder_of(table.definition.table_id)
    return Path(table.definition.base_path, folder, "manifests")


@pytest.mark.parametrize("of_another_table", [False, True])
def test_a_manifest_that_cannot_be_used_is_passed_over(new_table: NewTable, of_another_table: bool) -> None:
    table, other = new_table(), new_table()
    commit(other, {("day=1", "b-0"): base("k1")})
    commit(table, {("day=1", "a-0"): base("k1")})
    first = caught_up(table)
    commit(table, {("day=1", "c-0"): base("k2")})
    second = caught_up(table)
    foreign = (manifests_of(other) / caught_up(other).name).read_bytes()
    content = foreign if of_another_table else b'{"format_version": 1}'
    (manifests_of(table) / second.name).write_bytes(content)
    assert RecordIndex(table).newest() == first

    again = caught_up(table)
    assert (again.covered, again.generation) == (second.covered, 1)
    assert places(table, "k1", "k2") == {"k1": "day=1/a-0", "k2": "day=1/c-0"}
    # The content of an earlier manifest of the table does not fit the name either.
    (manifests_of(table) / again.name).write_bytes((manifests_of(table) / first.name).read_bytes())
    assert caught_up(table).generation == 2


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_manifests_of_a_lost_time_are_not_used_after_a_backup_was_restored(
    new_table: NewTable, is_rebuilt: bool
) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    kept = caught_up(table)
    index = RecordIndex(table)
    moved = pa.table([["k1"], ["day=2"], ["b-0"]], schema=entry_files.ENTRIES)
    lost = [entry_files.write(index.folder, index.index_folder, moved, None)]
    stored = StoredManifests(LocalFiles(table.definition.base_path), table.definition.table_id)
    later = str(int(kept.covered) + 1)
    # The second one has the completion time of an instant that the log has, but is of another instant.
    for covered in (later, kept.covered):
        generation = 0 if covered == later else 1
        assert stored.publish(
            replace(kept, covered=covered, instant=covered, generation=generation, files=lost)
        )
        assert RecordIndex(table).newest() is None
        assert lookups.find(table, ["k1"])[0].num_rows == 1

        again = RecordIndex(table).catch_up(rebuild=is_rebuilt)
        assert again is not None
        assert again.generation == generation + 1
        assert places(table, "k1") == {"k1": "day=1/a-0"}
        (manifests_of(table) / again.name).unlink()
    commit(table, {("day=1", "c-0"): base("k2")})
    assert places(table, "k1", "k2") == {"k1": "day=1/a-0", "k2": "day=1/c-0"}


def test_files_are_merged_and_old_ones_deleted(new_table: NewTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    monkeypatch.setattr(index_manifests, "RETIRED_SECONDS", 0)
    monkeypatch.setattr(entry_files, "SHARD_ENTRIES", 10)
    monkeypatch.setattr(entry_files, "SHARD_ENTRIES_MAX", 20)
    keys: list[str] = []
    manifest = None
    for number in range(50):
        keys += [f"k{number}x{part}" for part in range(3)]
        commit(table, {(f"day={number}", f"g{number}-0"): base(*keys[-3:])})
        manifest = RecordIndex(table).catch_up()
    assert manifest is not None

    assert places(table, *keys) == {
        f"k{number}x{part}": f"day={number}/g{number}-0" for number in range(50) for part in range(3)
    }
    assert manifest.shards > 4
    assert len(manifest.files) < 4 * manifest.shards + 9
    folder = Path(table.definition.base_path, index_manifests.folder_of(table.definition.table_id))
    assert len(list((folder / "manifests").iterdir())) <= 2 * index_manifests.MANIFESTS_KEPT + 1
    assert len(list((folder / "files").iterdir())) < 60
    assert table.orphans().orphans == []


@pytest.mark.parametrize("puts", [1, 2])
def test_the_index_is_right_after_a_process_was_killed(new_table: NewTable, puts: int) -> None:
    """``puts``: before the index file, or between it and the manifest."""
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    before = RecordIndex(table).catch_up()
    commit(table, {("day=2", "b-0"): base("k1", "k2"), ("day=1", "a-0"): base()})
    child = os.fork()
    if child == 0:
        _die_before_put(table, puts)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert RecordIndex(table).newest() == before

    assert places(table, "k1", "k2") == {"k1": "day=2/b-0", "k2": "day=2/b-0"}


def _die_before_put(table: chronolake.Table, puts: int) -> None:
    def die(*_arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        if puts == 1:
            entry_files.write = die  # type: ignore[assignment]
        else:
            StoredManifests.publish = die  # type: ignore[assignment,method-assign]
        RecordIndex(table).catch_up()
    finally:
        os._exit(1)


def test_a_manifest_whose_answer_was_lost_keeps_its_files(
    new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})
    publish = StoredManifests.publish

    def lost(manifests: StoredManifests, manifest: Manifest) -> bool:
        # The client of the store repeats a put whose answer is lost, and learns that the object exists.
        publish(manifests, manifest)
        return False

    with monkeypatch.context() as patches:
        patches.setattr(StoredManifests, "publish", lost)
        assert RecordIndex(table).catch_up() is not None
    assert places(table, "k1") == {"k1": "day=1/a-0"}


@pytest.mark.parametrize(
    ("place", "error"),
    [((entry_files, "write"), PermissionError("denied")), ((LocalFiles, "create"), StorageError("denied"))],
)
def test_a_write_does_not_fail_because_the_index_cannot_be_written(
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: tuple[Any, str],
    error: Exception,
) -> None:
    table = new_table()
    commit(table, {("day=1", "a-0"): base("k1")})

    def refused(*_arguments: object) -> None:
        raise error

    with monkeypatch.context() as patches:
        patches.setattr(*place, refused)
        record_index.follow(table, lambda *_: [])
    assert "the record index was not updated after a write: denied" in caplog.text
    assert places(table, "k1") == {"k1": "day=1/a-0"}


def test_processes_that_catch_up_at_once_agree(new_table: NewTable) -> None:
    table = new_table()
    for number in range(5):
        commit(table, {(f"day={number}", f"g{number}-0"): base(f"k{number}", "moving")})
        with ThreadPoolExecutor(4) as threads:
            manifests = list(threads.map(lambda _: RecordIndex(table).catch_up(), range(4)))
        assert all(manifest == manifests[0] for manifest in manifests)
        folder = Path(table.definition.base_path, index_manifests.folder_of(table.definition.table_id))
        assert manifests[0] is not None
        named = {Path(file.path).name for file in manifests[0].files}
        assert named == {path.name for path in (folder / "files").iterdir()}
    assert places(table, "k0", "k4", "moving") == {
        "k0": "day=0/g0-0",
        "k4": "day=4/g4-0",
        "moving": "day=4/g4-0",
    }
