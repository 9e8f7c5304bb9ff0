"""The active timeline of an adopted table becomes shorter, and its history goes on after that of Hudi."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
import pytest

import chronolake
from chronolake._sync import publishing
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import Options
from chronolake_metastore.domain.active_window import HeldBy
from chronolake_model.publication import FormerHistory, HistoryRange
from chronolake_model.vocabulary import Action
from chronolake_storage import published_history
from chronolake_storage.errors import StorageError
from chronolake_storage.local import LocalFiles
from tests.hudi import stored_tables
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.stored_tables import Rows, rows_by_hudi_rs, rows_of_hudi, unpacked
from tests.hudi.test_hudi_spark_adoption import written_with
from tests.hudi.test_hudi_spark_archive import ARCHIVES, EXACT
from tests.server.publication.archived_tables import SHORT

TIMELINE: Final = ".hoodie/timeline"
HISTORY: Final = f"{TIMELINE}/history"
_COMPLETED: Final = re.compile(r"([0-9]{17})_([0-9]{17})\.([a-z]+)")
Adopt = Callable[..., chronolake.Table]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Adopt:
    """Adopts the table in a folder, with a short active timeline."""

    def run(path: Path, **chosen: bool) -> chronolake.Table:
        name = f"{namespace}.{path.name}"
        options = Options(name=name, base_path=str(path), properties=SHORT, **chosen)
        return client.table(adopting.adopt(client, options).table)

    return run


def manifest(path: Path) -> list[str]:
    """The names of the files that readers find, whose sizes are right."""
    number = (path / HISTORY / "_version_").read_text()
    entries = msgspec.json.decode((path / HISTORY / f"manifest_{number}").read_bytes())["files"]
    assert all((path / HISTORY / entry["fileName"]).stat().st_size == entry["fileLen"] for entry in entries)
    return [entry["fileName"] for entry in entries]


def history(path: Path) -> list[dict[str, Any]]:
    """The rows of the history in the order of its files."""
    files = [io.BytesIO((path / HISTORY / name).read_bytes()) for name in manifest(path)]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def completed(path: Path) -> dict[tuple[str, str, str], bytes]:
    """The completed instants of the active timeline, with the contents of their files."""
    return {
        (match[1], match[2], match[3]): file.read_bytes()
        for file in (path / TIMELINE).iterdir()
        if (match := _COMPLETED.fullmatch(file.name))
    }


def write(table: chronolake.Table, path: Path, first: int, count: int) -> Rows:
    """Complete and publish inserts: their rows."""
    rows: Rows = [["2026-01-01", number, "new", 1.0, 99] for number in range(first, first + count)]
    for row in rows:
        stored_tables.insert(table, path, [row])
        table.publish()
    return rows


@pytest.mark.parametrize("name", ["kept8", "kept9"])
def test_the_history_of_hudi_is_extended_by_copies_and_then_from_the_log(
    adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    of_hudi = manifest(path)
    contents = {file: (path / HISTORY / file).read_bytes() for file in of_hudi}
    before = history(path)
    instants = completed(path)
    plans = {file.name[:17]: file.read_bytes() for file in path.glob(f"{TIMELINE}/*.clean.requested")}
    table = adopt(path)
    for row in history(path):
        key = (row["instantTime"], row["completionTime"], row["action"])
        assert row in before or row["metadata"] == instants[key]

    new = write(table, path, 500, 8)

    assert manifest(path)[: len(of_hudi)] == of_hudi
    assert {file: (path / HISTORY / file).read_bytes() for file in of_hudi} == contents
    rows = history(path)
    assert rows[: len(before)] == before
    times = [row["instantTime"] for row in rows]
    assert len({*times}) == len(times)
    assert times == sorted(times)
    # Each instant of Hudi has left the timeline with its bytes, but for a savepoint.
    copies = {(row["instantTime"], row["completionTime"], row["action"]): row for row in rows}
    left = {
        key: content for key, content in instants.items() if key[2] not in ("savepoint", "restore", "indexing")
    }
    assert {key: copies[key]["metadata"] for key in left} == left
    assert {
        time: row["plan"] for (time, _, action), row in copies.items() if action == "clean" and time in plans
    } == plans
    active = [file.name for file in (path / TIMELINE).iterdir() if file.is_file()]
    assert {file[:17] for file in active if not file.endswith("savepoint")}.isdisjoint(times)
    assert rows_by_hudi_rs(path) == [*rows_of_hudi(name), *new]
    publication = table.publication()
    assert publication.active_timeline is not None
    assert publication.active_timeline.history_files == len(manifest(path))
    assert publication.foreign_files == []
    assert table.check().totals == []


def test_a_publisher_that_is_killed_before_its_report_leaves_nothing_twice(
    adopt: Adopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is in the manifest, and is not taken for one of Hudi."""
    path = unpacked("kept8", tmp_path)
    of_hudi = manifest(path)
    show = publishing._Publisher.show_history

    class Killed(BaseException):
        pass

    def killed(publisher: Any, *arguments: Any) -> None:
        show(publisher, *arguments)
        raise Killed

    table = adopt(path)
    stored_tables.insert(table, path, [["2026-01-01", 500, "new", 1.0, 99]])
    stored_tables.insert(table, path, [["2026-01-01", 501, "new", 1.0, 99]])
    with monkeypatch.context() as patched:
        patched.setattr(publishing._Publisher, "show_history", killed)
        for number in range(502, 506):
            stored_tables.insert(table, path, [["2026-01-01", number, "new", 1.0, 99]])
        with pytest.raises(Killed):
            table.publish(publisher="killed")
    shown = manifest(path)
    assert len(shown) > len(of_hudi)
    table.publish(publisher="killed")
    write(table, path, 600, 4)
    times = [row["instantTime"] for row in history(path)]
    assert len({*times}) == len(times)
    assert manifest(path)[: len(of_hudi)] == of_hudi


def test_a_savepoint_of_hudi_holds_its_instants_on_the_timeline(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("cow9", tmp_path)
    first, *held = sorted(completed(path))
    table = adopt(path)
    write(table, path, 500, 8)
    assert [row["instantTime"] for row in history(path)] == [first[0]]
    assert {*held} <= {*completed(path)}
    active = table.publication().active_timeline
    assert active is not None
    assert active.held_by == HeldBy.SAVEPOINT


def test_a_damaged_history_of_hudi_holds_the_timeline_until_it_is_restored(
    adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("kept8", tmp_path)
    file = path / HISTORY / manifest(path)[0]
    content = file.read_bytes()
    file.unlink()
    table = adopt(path, skip_damaged_history=True)
    before = set(completed(path))
    write(table, path, 500, 5)
    active = table.publication().active_timeline
    assert active is not None
    assert active.held_by == HeldBy.HUDI_HISTORY
    assert before <= set(completed(path))
    file.write_bytes(content)
    write(table, path, 600, 3)
    assert len(completed(path)) <= 5
    assert file.name in manifest(path)


def test_what_hudi_was_archiving_when_it_was_killed_is_in_the_history_once(
    adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("kept8", tmp_path)
    row = history(path)[-1]
    name = f"{row['instantTime']}_{row['completionTime']}.{row['action']}"
    (path / TIMELINE / name).write_bytes(row["metadata"])
    table = adopt(path)
    write(table, path, 500, 6)
    times = [row["instantTime"] for row in history(path)]
    assert times.count(row["instantTime"]) == 1
    assert not (path / TIMELINE / name).exists()


def test_instants_of_hudi_that_somebody_deleted_before_they_left_are_named(tmp_path: Path) -> None:
    """It was an IndexError."""
    begin, end = "20260101000000000", "20260102000000000"
    with pytest.raises(StorageError, match=f"from {begin} to before {end}, which Hudi wrote"):
        published_history.write(
            LocalFiles(str(tmp_path)), HistoryRange(begin, end, 2), FormerHistory(begin, [])
        )


def test_a_table_of_version_6_has_a_history_from_its_log(adopt: Adopt, tmp_path: Path) -> None:
    path = unpacked("kept6", tmp_path)
    table = adopt(path)
    new = write(table, path, 500, 3)
    times = [row["instantTime"] for row in history(path)]
    assert len(times) >= 8
    assert rows_by_hudi_rs(path) == [*rows_of_hudi("kept6"), *new]


def changes(spark: HudiSpark, path: Path, after: str, until: str) -> Rows:
    """The rows that Hudi's incremental query returns of a range of completion times, commit by commit."""
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": after,
        "hoodie.datasource.read.end.instanttime": until,
    }
    return spark.rows(path, **options, **EXACT)


@pytest.mark.hudi_spark
@pytest.mark.parametrize("name", ["kept8", "kept9"])
def test_hudi_reads_on_both_sides_of_both_borders_and_archives_on_after_a_release(
    hudi_spark: HudiSpark, client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    """apache/hudi PR 19338, 19553, 12385, #6167, #2818: incremental reads of archived ranges lost commits."""
    path = unpacked(name, tmp_path)
    table = adopt(path)
    times = [
        (instant.requested_time, instant.completion_time or "")
        for instant in table.instants()
        if instant.action is Action.COMMIT
    ]
    ranges = [(times[a][1], times[b][1]) for a, b in ((0, 1), (0, 4), (2, 9), (6, 9), (8, 9))]
    as_of = {requested: hudi_spark.rows(path, as__of__instant=requested) for requested, _ in times}
    of_hudi = {range_: changes(hudi_spark, path, *range_) for range_ in ranges}
    assert [len(rows) for rows in of_hudi.values()] == [2, 7, 10, 6, 2]

    new = write(table, path, 500, 8)

    rows = [*rows_of_hudi(name), *new]
    assert hudi_spark.rows(path) == rows_by_hudi_rs(path) == rows
    assert {time: hudi_spark.rows(path, as__of__instant=time) for time in as_of} == as_of
    assert {range_: changes(hudi_spark, path, *range_) for range_ in ranges} == of_hudi
    last = max(instant.completion_time or "" for instant in table.instants())
    over_all = [*changes(hudi_spark, path, times[6][1], times[9][1]), *new]
    assert changes(hudi_spark, path, times[6][1], last) == over_all
    shown = hudi_spark.sql(f"CALL show_timeline(path => '{path}', showArchived => true, limit => 1000)")
    seen = [record["instant_time"] for record in shown if record["state"] == "COMPLETED"]
    of_both = [*(row["instantTime"] for row in history(path)), *(key[0] for key in completed(path))]
    assert sorted(seen) == sorted(of_both)

    before = [row["instantTime"] for row in history(path)]
    releasing.release(client, table.name)
    assert hudi_spark.rows(path) == rows
    later: Rows = [["2026-01-01", number, "later", 1.0, 99] for number in range(900, 908)]
    for row in later:
        hudi_spark.write(path, [row], **written_with(table), **ARCHIVES)
    after = sorted(row["instantTime"] for row in history(path))
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert hudi_spark.rows(path) == [*rows, *later]
