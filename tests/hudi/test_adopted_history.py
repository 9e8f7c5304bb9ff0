"""The archived timeline of a Hudi table comes in as history, and damage in it does not lose the table."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake.hudi import adopting
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


def rewrite(path: Path, **columns: Any) -> None:
    """Write the history anew by pyarrow in one file, without metadata of Hudi's writer, with other columns."""
    folder = path / HISTORY
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    rows = {row["instantTime"]: row | columns for table in tables for row in table.to_pylist()}
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
    rewrite(path, **{column: None})
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
    assert adopted.cleaned_before is not None
    assert rows_by_slices(table) == rows_after(10)
    times = dict(writes(table))
    assert rows_by_slices(table, times[border[0]]) == rows_after(10 - len(border) + 1)


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
