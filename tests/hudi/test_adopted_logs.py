"""Log files of adopted tables: the rows that Hudi read, as of now and as of each of its commits."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.slices import stored_slices
from chronolake_model.orphans import Orphan, OrphanReason
from tests.hudi.stored_tables import VERSION_6_LOGS, rows_by_hudi_rs, rows_by_slices, rows_of_hudi, unpacked
from tests.spark import hand_written

SEVERAL_ORDERINGS = ("orderedmor9", "ordereddeletes9", "ordereddeletes6", "bycommit9")


def adopted(client: chronolake.Client, namespace: str, path: Path) -> chronolake.Table:
    """The table in a folder, adopted under the name of the folder."""
    wanted = Options(name=f"{namespace}.{path.name}", base_path=str(path))
    return client.table(adopting.adopt(client, wanted).table)


@pytest.mark.parametrize(
    "name",
    [
        "mor8",
        "mor9",
        "partial9",
        "logcompacted9",
        "logonly9",
        "compacted6",
        *SEVERAL_ORDERINGS,
        *VERSION_6_LOGS,
    ],
)
def test_rows_in_log_files_are_those_that_hudi_read(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    table = adopted(client, namespace, unpacked(name, tmp_path))
    assert rows_by_slices(table) == rows_of_hudi(name)


@pytest.mark.parametrize("name", VERSION_6_LOGS)
def test_hudi_rs_reads_the_log_files_of_version_6_in_the_published_table(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    adopted(client, namespace, path)
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)


def test_log_files_of_version_6_are_in_the_states_of_their_commits(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    table = adopted(client, namespace, unpacked("logs6", tmp_path))
    names = {}
    for instant in table.instants():
        if instant.completion_time is not None:
            names[instant.requested_time] = {
                row[1]: row[2] for row in rows_by_slices(table, instant.completion_time)
            }
    first = {id: f"name {id} at 1" for id in range(9)}
    second = first | {id: f"name {id} at 2" for id in (3, 4, 5)}
    deleted = {id: name for id, name in second.items() if id != 1}
    last = deleted | {0: "name 0 at 4", 4: "name 4 at 4"}
    without = {id: name for id, name in last.items() if id != 8}
    assert list(names.values()) == [first, second, deleted, deleted, last, without]

    changed = table.changes(list(names)[4 - 1], None)
    assert {group.after is not None and len(group.after.log_files) for group in changed.file_groups} == {1}


def test_a_log_file_of_version_6_is_not_deleted_while_it_is_live(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("logs6", tmp_path)
    table = adopted(client, namespace, path)
    logs = [file for slice_ in table.snapshot().slices for file in slice_.log_files]
    assert not {orphan.path for orphan in table.orphans().orphans} & {file.path for file in logs}
    assert "wrong-name" not in {total.kind.value for total in table.check().totals}

    report = table.orphans()
    wrong = [Orphan(file.path, file.size_bytes, OrphanReason.NOT_NAMED, None) for file in logs]
    deleted = table.delete_orphans(msgspec.structs.replace(report, orphans=wrong))
    assert [orphan.deleted for orphan in deleted.orphans] == [False] * len(logs)
    assert rows_by_slices(table) == rows_of_hudi("logs6")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rolledback6", "has blocks of the instant 2026[0-9]+, which did not complete"),
        ("pendinglogs6", "is named after the compaction 2026[0-9]+, which is not completed"),
    ],
)
def test_log_files_that_hudis_readers_would_read_otherwise_are_refused(
    client: chronolake.Client, namespace: str, tmp_path: Path, name: str, reason: str
) -> None:
    path = unpacked(name, tmp_path)
    options = Options(name=f"{namespace}.{name}", base_path=str(path), roll_back_pending=True)
    with pytest.raises(CannotAdopt, match=reason):
        adopting.adopt(client, options, dry_run=True)


def test_a_dry_run_names_blocks_that_cannot_be_read(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("mor9", tmp_path)
    for log in path.rglob(".*.log.*"):
        content = log.read_bytes()
        at = content.index(b"\0\0\0\1\0\0\0") + 7
        log.write_bytes(content[:at] + b"\4" + content[at + 1 :])
    options = Options(name=f"{namespace}.mor9", base_path=str(path))
    with pytest.raises(CannotAdopt, match="a block of the type HFILE_DATA cannot be read"):
        adopting.adopt(client, options, dry_run=True)


def test_a_release_with_file_groups_of_log_files_only_advises_a_compaction_before_the_first_upsert(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    table = adopted(client, namespace, unpacked("mor8", tmp_path))
    hand_written.commit(table, {("", f"{uuid.UUID(int=1)}-0"): hand_written.log("77")})
    released = releasing.release(client, table.name)
    assert f"1 file group(s), such as {uuid.UUID(int=1)}-0" in "".join(released.advice)

    released = releasing.release(client, adopted(client, namespace, unpacked("mor9", tmp_path)).name)
    assert "compact it" not in "".join(released.advice)


def test_a_clean_deletes_log_files_of_version_6_with_their_slice_and_plans_them_once(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("logs6", tmp_path)
    table = adopted(client, namespace, path)
    live = {file.path for slice_ in table.snapshot().slices for file in stored_slices.files_of(slice_)}
    table.clean(retain_commits=1)
    left = {str(file.relative_to(path)) for file in path.rglob("*-0_*20*")}
    assert left == live
    assert rows_by_slices(table) == rows_of_hudi("logs6") == rows_by_hudi_rs(path)
    assert table.clean(retain_commits=1) == []


def test_log_files_of_change_data_capture_are_left_out_with_a_note_and_stay(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    path = unpacked("captured9", tmp_path)
    captured = sorted(path.rglob("*.cdc"))
    options = Options(name=f"{namespace}.captured9", base_path=str(path))

    planned = adopting.adopt(client, options, dry_run=True)
    done = adopting.adopt(client, options)

    for report in (planned, done):
        [note] = [note for note in report.notes if "change data capture" in note]
        assert note.startswith(
            "2 log file(s) of change data capture are not brought in, and stay where they are"
        )
    table = client.table(done.table)
    assert not any(slice_.log_files for slice_ in table.snapshot().slices)
    assert rows_by_slices(table) == rows_of_hudi("captured9") == rows_by_hudi_rs(path)
    assert "hoodie.table.cdc.enabled=false" in (path / ".hoodie/hoodie.properties").read_text().splitlines()
    table.delete_orphans(table.orphans(), unknown_instants=True)
    assert sorted(path.rglob("*.cdc")) == captured
    assert len(captured) == 2
