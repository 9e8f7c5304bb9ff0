"""The archived timeline of a Hudi table comes in as history, and damage in it does not lose the table."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake import errors
from chronolake.hudi import adopting, archive, archived_instants, history
from chronolake.hudi.adopting import Adopted
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake_hudi import log_blocks, log_files
from tests.hudi.stored_tables import Rows, rows_by_hudi_rs, rows_by_slices, rows_of_hudi, unpacked

HISTORY: Final = ".hoodie/timeline/history"
KEPT: Final = ("kept8", "kept9", "keptmor9", "kept6")
_TIME: Final = re.compile("[0-9]{17}")
Adopt = Callable[..., Adopted]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Adopt:
    """Adopts the table in a folder under the folder's name."""

    def run(path: Path, *, skips: bool = False) -> Adopted:
        name = f"{namespace}.{path.name}"
        return adopting.adopt(client, Options(name=name, base_path=str(path), skip_damaged_history=skips))

    return run


def archived(path: Path) -> dict[str, str | None]:
    """The archived instants and their completion times; version 6 keeps none."""
    known: dict[str, str | None] = {}
    for file in path.glob(f"{HISTORY}/*.parquet"):
        known |= {row["instantTime"]: row["completionTime"] for row in pq.read_table(file).to_pylist()}
    for file in path.glob(".hoodie/history/.commits_.archive.*"):
        content = file.read_bytes()
        for block in log_files.read(io.BytesIO(content), len(content), file.name):
            known |= {entry["commitTime"]: None for entry in log_blocks.read_avro(block, file.name)}
    return known


def archived_rows(path: Path) -> dict[str, tuple[str, str]]:
    """The actions and completion times of the instants in Parquet files of the history."""
    files = map(pq.read_table, path.glob(f"{HISTORY}/*.parquet"))
    rows = [row for file in files for row in file.to_pylist()]
    return {row["instantTime"]: (row["action"], row["completionTime"]) for row in rows}


def active(path: Path) -> list[str]:
    """The requested times of the active timeline."""
    names = [file.name for folder in ("", "timeline") for file in path.glob(f".hoodie/{folder}/2*")]
    return sorted({match[0] for name in names if (match := _TIME.match(name))})


def rows_after(commits: int) -> Rows:
    """The rows of a table ``kept`` after its first commits, by id."""
    days = ("2026-01-01", "2026-01-02", "2026-01-03")
    times = dict.fromkeys(range(6), 1)
    for number in range(2, commits + 1):
        times |= {number % 3: number, 20 + number: number}
    return [[days[id_ % 3], id_, f"name {id_} at {ts}", id_ * 1.5, ts] for id_, ts in sorted(times.items())]


def writes(table: chronolake.Table) -> list[tuple[str, str]]:
    """The requested and the completion times of the ten commits that Hudi has made."""
    return [
        (instant.requested_time, instant.completion_time)
        for instant in table.instants()
        if instant.action in ("commit", "deltacommit") and instant.completion_time is not None
    ]


@pytest.mark.parametrize("name", KEPT)
def test_the_timeline_has_all_instants_of_both_with_their_times(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    before, now = archived(path), active(path)
    assert len(before) >= 6
    adopted = adopt(path)
    instants = {instant.requested_time: instant for instant in client.table(adopted.table).instants()}
    assert sorted(instants) == sorted({*before, *now})
    stated = {time: completion for time, completion in before.items() if completion is not None}
    assert {time: instants[time].completion_time for time in stated} == stated
    assert adopted.cleaned_before is None
    assert any(
        f"{len(before)} instant(s) of Hudi's archived timeline come in" in note for note in adopted.notes
    )


@pytest.mark.parametrize("name", KEPT)
def test_reads_and_changes_are_right_on_both_sides_of_the_border(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    table = client.table(adopt(path).table)
    times = writes(table)
    assert len(times) == 10
    assert {number: rows_by_slices(table, times[number - 1][1]) for number in range(1, 11)} == {
        number: rows_after(number) for number in range(1, 11)
    }
    for (_, after), (requested, until) in itertools.pairwise(times):
        assert [instant.requested_time for instant in table.changes(after, until).instants] == [requested]
    changes = table.changes(times[2][1], times[-1][1])
    assert {time for time, _ in times[3:]} <= {instant.requested_time for instant in changes.instants}
    ranged = table.instants(requested_from=times[1][0], requested_to=times[7][0])
    assert [time for time, _ in times[2:8]] == [
        instant.requested_time for instant in ranged if instant.requested_time in dict(times)
    ]
    assert table.check().totals == []
    assert rows_by_hudi_rs(path) == rows_of_hudi(name)


def test_files_that_were_cleaned_bound_the_times_that_are_served(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("archived8", tmp_path)
    before = archived(path)
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert {*before} <= {instant.requested_time for instant in table.instants()}
    assert adopted.cleaned_before is not None
    served = [time for time in writes(table) if time[1] >= adopted.cleaned_before]
    assert [len(rows_by_slices(table, completion)) for _, completion in served] == [
        *range(18 - len(served), 18)
    ]


def rewrite(path: Path, changes: Mapping[str, Mapping[str, Any]] = {}, **columns: Any) -> None:
    """Write the history anew by pyarrow in one file, without metadata of Hudi's writer, with other columns.

    ``changes`` are those of single instants.
    """
    folder = path / HISTORY
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    rows = {row["instantTime"]: row | columns for table in tables for row in table.to_pylist()}
    rows = {time: row | changes.get(time, {}) for time, row in rows.items()}
    ordered = [rows[time] for time in sorted(rows)]
    for file in folder.iterdir():
        file.unlink()
    name = f"{ordered[0]['instantTime']}_{ordered[-1]['instantTime']}_2.parquet"
    pq.write_table(pa.Table.from_pylist(ordered, tables[0].schema.remove_metadata()), folder / name)
    files = [{"fileName": name, "fileLen": (folder / name).stat().st_size}]
    (folder / "manifest_7").write_text(json.dumps({"files": files, "unknown": 1}))
    (folder / "_version_").write_text("7")


def test_a_history_made_by_another_writer_comes_in(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("kept8", tmp_path)
    rewrite(path)
    before = archived(path)
    table = client.table(adopt(path).table)
    instants = {instant.requested_time: instant.completion_time for instant in table.instants()}
    assert {time: instants[time] for time in before} == before
    assert rows_by_slices(table, writes(table)[2][1]) == rows_after(3)


@pytest.mark.parametrize("column", ["metadata", "completionTime"])
def test_a_history_with_nulls_comes_in(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, column: str
) -> None:
    """With times only, an instant has the files that are named after it."""
    path = unpacked("kept8", tmp_path)
    columns: dict[str, Any] = {column: None}
    rewrite(path, **columns)
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert {*archived(path)} <= {instant.requested_time for instant in table.instants()}
    times = writes(table)
    border = next(completion for requested, completion in times if requested == active(path)[0])
    assert adopted.cleaned_before == (border if column == "metadata" else None)
    assert rows_by_slices(table) == rows_after(10)


def test_an_instant_that_is_on_both_timelines_comes_in_once(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    """Hudi was killed after it had written the history, and before it removed the instant."""
    path = unpacked("kept8", tmp_path)
    last = max(archived(path))
    row, *_ = [
        row
        for file in path.glob(f"{HISTORY}/*.parquet")
        for row in pq.read_table(file).to_pylist()
        if row["instantTime"] == last
    ]
    name = f"{last}_{row['completionTime']}.{row['action']}"
    (path / ".hoodie/timeline" / name).write_bytes(row["metadata"])
    times = writes(client.table(adopt(path).table))
    assert len(times) == len({requested for requested, _ in times}) == 10


def left_out(client: chronolake.Client, table: str) -> list[str]:
    """The archived instants that have not come in, as the log says."""
    [event] = [event for event in client.events(table=table) if event.type == "TableAdopted"]
    texts: list[str] = event.payload["left_out"]
    return texts


def instants_of(table: chronolake.Table, times: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """The action and the completion time of instants."""
    known = {instant.requested_time: instant for instant in table.instants()}
    return {time: (known[time].action, known[time].completion_time) for time in times if time in known}


def test_instants_without_metadata_and_files_come_in_with_their_times_and_actions(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("archived8", tmp_path)
    rewrite(path, metadata=None)
    before, present = archived_rows(path), active(path)
    assert "clean" in {action for action, _ in before.values()}
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert instants_of(table, before) == before
    assert adopted.cleaned_before is not None
    assert adopted.cleaned_before >= min(end for requested, end in writes(table) if requested in present)
    assert any("with their times and actions only" in note for note in adopted.notes)
    assert rows_by_slices(table) == rows_by_hudi_rs(path)
    assert table.check().totals == []


def test_the_files_of_instants_with_times_only_are_unknown(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    """No read as of a time goes to an instant of which files may be missing."""
    path = unpacked("archived8", tmp_path)
    rewrite(path, metadata=None)
    first = min(archived(path))
    adopted = adopt(path)
    table = client.table(adopted.table)
    instant = table.instant(first)
    assert instant.completion_time is not None
    assert adopted.cleaned_before is not None
    assert instant.completion_time < adopted.cleaned_before
    with pytest.raises(errors.HistoryCleaned):
        table.snapshot(instant.completion_time)


@pytest.mark.parametrize("name", ["archived6", "archived8"])
def test_instants_beyond_those_with_metadata_come_in_with_their_times(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(archived_instants, "DETAILED_MAX", 2)
    path = unpacked(name, tmp_path)
    before, expected = archived(path), rows_by_hudi_rs(path)
    table = client.table(adopt(path).table)
    assert {*instants_of(table, before)} == {*before}
    table.publish()
    assert rows_by_slices(table) == rows_by_hudi_rs(path) == expected
    assert table.check().totals == []


def test_the_oldest_instants_that_a_request_has_no_room_for_are_named(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpacked("archived8", tmp_path)
    rewrite(path, metadata=None)
    times, present = sorted(archived(path)), active(path)
    by_files = {match[0] for file in path.glob("*.parquet") if (match := _TIME.search(file.name[-25:]))}
    others = [time for time in times if time not in by_files]
    monkeypatch.setattr(history, "ADOPTED_INSTANTS_MAX", len(times) + len(present) - 2)
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert [time for time in times if time not in instants_of(table, times)] == others[:2]
    assert any(f"2 instant(s) of Hudi's archived timeline, up to {others[1]}" in note for note in adopted.notes)
    [text] = left_out(client, adopted.table)
    assert f"2 instant(s) of Hudi's archived timeline, up to {others[1]}" in text
    assert rows_by_slices(table) == rows_by_hudi_rs(path)


def test_more_instants_with_files_than_a_request_has_room_for_are_refused(
    adopt: Adopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ADOPTED_INSTANTS_MAX", 9)
    with pytest.raises(CannotAdopt, match="at most 9"):
        adopt(unpacked("kept8", tmp_path))


def test_archived_actions_of_no_known_name_are_damage_and_wrong_times_are_counted(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("archived8", tmp_path)
    clean, *_ = [time for time, (action, _) in archived_rows(path).items() if action == "clean"]
    rewrite(
        path, {clean: {"action": "schemacommit"}, min(archived(path)): {"instantTime": "20261399000000000"}}
    )
    with pytest.raises(CannotAdopt, match=f"the instant {clean} in .* has the action 'schemacommit'"):
        adopt(path)
    adopted = adopt(path, skips=True)
    assert any(clean in note for note in adopted.notes)
    assert any("1 instant(s)" in note and "17 digits" in note for note in adopted.notes)
    assert rows_by_slices(client.table(adopted.table)) == rows_by_hudi_rs(path)


DAMAGES: Final[dict[str, tuple[str, str, bytes | None]]] = {
    "cut": ("kept8", f"{HISTORY}/*_1.parquet", b"PAR1"),
    "missing": ("kept8", f"{HISTORY}/*_1.parquet", None),
    "manifest": ("kept8", f"{HISTORY}/manifest_*", b'{"files": ['),
    "log": ("kept6", ".hoodie/history/.commits_.archive.*", b"#HUDI#"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_is_named_and_skipped_when_told(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path, damage: str
) -> None:
    name, pattern, content = DAMAGES[damage]
    path = unpacked(name, tmp_path)
    file, border = max(path.glob(pattern)), active(path)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(CannotAdopt, match="--skip-damaged-history") as refused:
        adopt(path)
    assert file.name in str(refused.value)
    adopted = adopt(path, skips=True)
    table = client.table(adopted.table)
    assert any(file.name in note for note in adopted.notes)
    assert any(file.name in text for text in left_out(client, adopted.table))
    assert adopted.cleaned_before is not None
    assert rows_by_slices(table) == rows_after(10)
    times = dict(writes(table))
    assert rows_by_slices(table, times[border[0]]) == rows_after(10 - len(border) + 1)


def test_the_files_of_the_archive_that_were_read_are_counted(
    client: chronolake.Client, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "READERS", 1)
    heard: list[str] = []
    options = Options(name=f"{namespace}.kept6", base_path=str(unpacked("kept6", tmp_path)))
    adopting.adopt(client, options, dry_run=True, progress=heard.append)
    files = len([*tmp_path.glob("kept6/.hoodie/history/.commits_.archive.*")])
    assert files > 1
    assert f"read {files} of {files} files of Hudi's archived timeline" in heard


def test_a_file_of_an_archived_instant_that_was_removed_does_not_refuse_the_table(
    client: chronolake.Client, adopt: Adopt, tmp_path: Path
) -> None:
    """Hudi's readers list files, so they do not miss it."""
    path = unpacked("archived8", tmp_path)
    [file] = path.glob(f"*_{sorted(archived(path))[1]}.parquet")
    file.unlink()
    expected = rows_by_hudi_rs(path)
    adopted = adopt(path)
    assert adopted.cleaned_before is not None
    assert rows_by_slices(client.table(adopted.table)) == expected
