"""The check of a publication: what differs from the log is put right after any damage."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

import chronolake
from chronolake_hudi import partition_metadata
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.publication import PublishedFile
from chronolake_model.vocabulary import TableType
from chronolake_storage import publications, publishing
from tests.fix_server import ServerProcess
from tests.published import PublishedTable, row

TIMELINE = ".hoodie/timeline"


def contents(table: PublishedTable) -> dict[str, bytes]:
    """The timeline, and hoodie.properties."""
    paths = [*(table.folder / TIMELINE).iterdir(), table.folder / publishing.PROPERTIES_PATH]
    return {path.name: path.read_bytes() for path in paths}


def checked(table: PublishedTable) -> None:
    """Let a publisher that has not published the table yet check it."""
    table.table.publish(publisher=os.urandom(4).hex())


def replace(path: Path, content: bytes) -> None:
    """Write a published file anew: publishers make them without the permission to write."""
    path.unlink()
    path.write_bytes(content)


def none_in_turn(*_: object) -> Generator[Any, Any, int]:
    """Compares no files in turn."""
    yield from ()
    return 0


def flipped(content: bytes) -> bytes:
    """Another content of the same size."""
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", ["missing", "empty", "cut off", "of the same size"])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_a_damaged_file_of_the_timeline_is_put_right(table: PublishedTable, damage: str, place: int) -> None:
    for number in range(6):
        table.write(row(number), bucket=number)
    table.publish()
    published = contents(table)
    path = table.folder / TIMELINE / table.timeline()[place]
    content = path.read_bytes()
    damaged = {"missing": b"", "empty": b"", "cut off": content[:-9], "of the same size": flipped(content)}
    replace(path, damaged[damage])
    if damage == "missing":
        path.unlink()
    checked(table)
    assert contents(table) == published


def test_the_metadata_of_partitions_are_put_right(table: PublishedTable) -> None:
    days = [f"d{number}" for number in range(5)]
    table.write(*(row(number, day=day) for number, day in enumerate(days)))
    table.publish()
    paths = [table.folder / f"day={day}" / partition_metadata.FILE_NAME for day in days]
    paths[0].unlink()
    paths[2].unlink()
    replace(paths[4], b"")
    checked(table)
    depths = [partition_metadata.decode(path.read_bytes(), path.name).depth for path in paths]
    assert depths == [1] * 5


def test_a_file_that_a_late_publisher_wrote_again_is_removed(table: PublishedTable) -> None:
    table.write(row(1))
    savepoint = table.table.savepoint()
    table.write(row(2), bucket=1)
    table.publish()
    before = contents(table)
    table.table.restore(savepoint.requested_time)
    table.publish()
    published = contents(table)
    undone = sorted(before.keys() - published.keys())
    assert undone
    for name in undone:
        (table.folder / TIMELINE / name).write_bytes(before[name])
    checked(table)
    assert contents(table) == published
    assert table.table.publication().foreign_files == []
    assert table.hudi_rows() == [row(1)]


def test_a_withdrawn_plan_that_came_back_is_removed(client: chronolake.Client, tmp_path: Path) -> None:
    table = PublishedTable(client, tmp_path / "lake", type=TableType.MERGE_ON_READ)
    table.write(row(1))
    table.append(row(2))
    plan = table.table.plan(chronolake.Action.COMPACTION, [FileGroupName("day=a", bucket_file_id(0))])
    table.publish()
    name = f"{plan.requested_time}.compaction.requested"
    content = (table.folder / TIMELINE / name).read_bytes()
    table.table.rollback(plan.requested_time)
    table.publish()
    (table.folder / TIMELINE / name).write_bytes(content)
    checked(table)
    assert name not in table.timeline()


def test_what_no_check_has_seen_changing_is_compared_in_turn(
    table: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        table.write(row(number), bucket=number)
    table.publish()
    published = contents(table)
    path = table.folder / TIMELINE / table.timeline()[1]
    replace(path, flipped(path.read_bytes()))
    # As if the storage did not tell when a file was written.
    monkeypatch.setattr(publications, "_put_right_suspects", lambda *_: iter(()))
    checked(table)
    assert contents(table) == published


def test_a_check_knows_only_the_partitions_that_are_published(
    table: PublishedTable, shared_server: ServerProcess
) -> None:
    def listed() -> list[str]:
        url = f"{shared_server.url}/v1/tables/{table.table.name}/publication/partitions"
        return [file["path"].partition("/")[0] for file in httpx.get(url).json()["files"]]

    table.write(row(1))
    assert listed() == []
    table.publish()
    table.write(row(2), row(3, day="b"))
    assert listed() == ["day=a"]
    table.publish()
    assert listed() == ["day=a", "day=b"]


def test_an_unchanged_file_is_not_read_again(table: PublishedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        table.write(row(number), bucket=number)
        table.publish()
    checked(table)
    compared: list[str] = []

    def put_right(files: object, expected: list[PublishedFile], stored: object) -> list[object]:
        compared.extend(file.path for file in expected)
        return []

    monkeypatch.setattr(publishing, "put_right", put_right)
    monkeypatch.setattr(publications, "_put_right_contents", none_in_turn)
    checked(table)
    first = f"{TIMELINE}/{table.timeline()[0]}"
    assert first not in compared
    assert publishing.PROPERTIES_PATH in compared
