"""Parts of a snapshot are what the whole snapshot has of them, as of the same time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import chronolake
from chronolake import Action, Field, col
from chronolake.indexes import partial_snapshots
from chronolake_model.files import FileSlice
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType
from tests.spark.hand_written import base, commit

_NUMBERS = itertools.count(1)
Group = tuple[str, str]
A, B, C = ("day=a", "a-0"), ("day=b", "b-0"), ("day=c", "c-0")


@pytest.fixture
def table(shared_server_url: str, tmp_path: Path) -> Iterator[chronolake.Table]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("parts", if_not_exists=True)
        table = client.create_table(
            f"parts.t{next(_NUMBERS)}",
            base_path=str(tmp_path / "table"),
            schema=[Field("id", "bigint", nullable=False), Field("day", "string")],
            record_key_fields=["id"],
            partition_fields=["day"],
            index=BucketIndex(IndexType.SIMPLE),
        )
        table.claim_storage()
        yield table


@pytest.fixture(params=[1, 10_000])
def portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one partition or file group each, or of all."""
    monkeypatch.setattr(partial_snapshots, "PARTITIONS_MAX", request.param)
    monkeypatch.setattr(partial_snapshots, "FILE_GROUPS_MAX", request.param)


def groups_of(slices: list[FileSlice]) -> list[Group]:
    return [(slice_.partition_path, slice_.file_id) for slice_ in slices]


def of_names(table: chronolake.Table, as_of: str, *groups: Group) -> tuple[list[FileSlice], list[object]]:
    names = pa.table({"path": [path for path, _ in groups], "id": [file_id for _, file_id in groups]})
    slices, live = partial_snapshots.of_file_groups(table, as_of, names)
    assert live.column_names[:2] == ["path", "id"]
    return slices, [tuple(row.values()) for row in live.to_pylist()]


@pytest.mark.usefixtures("portions")
def test_parts_are_as_of_the_begin_of_a_write_whatever_completes_later(table: chronolake.Table) -> None:
    commit(table, {A: base("1"), B: base("2"), C: base("3")})
    commit(table, {}, replaced=[C], action=Action.REPLACECOMMIT)
    begun = table.begin().requested_time
    whole = table.snapshot(begun).slices
    commit(table, {A: base("1"), ("day=a", "new-0"): base("4")})
    commit(table, {}, replaced=[B], action=Action.REPLACECOMMIT)

    paths = ["day=b", "day=a", "day=a", "day=c", "day=nowhere"]
    assert partial_snapshots.of_partitions(table, begun, paths) == whole
    assert groups_of(whole) == [A, B]
    named = of_names(table, begun, B, C, A, B, ("day=a", "new-0"), ("day=a", "nothing-0"))
    assert named == (whole, [(*A, 0), (*B, 1)])
    assert partial_snapshots.last_completion(table, begun) == table.snapshot(begun).as_of


def test_a_filter_leaves_out_slices_that_cannot_match(table: chronolake.Table) -> None:
    commit(table, {A: base("1"), B: base("2")})
    latest = table.snapshot().as_of
    assert latest is not None
    only_b = partial_snapshots.of_partitions(table, latest, ["day=a", "day=b"], col("day") == "b")
    assert groups_of(only_b) == [B]


def test_parts_of_nothing_are_empty(table: chronolake.Table) -> None:
    begun = table.begin().requested_time
    assert partial_snapshots.last_completion(table, begun) is None
    assert partial_snapshots.of_partitions(table, begun, ["day=a"]) == []
    assert of_names(table, begun, A) == ([], [])
    commit(table, {A: base("1")})
    assert partial_snapshots.last_completion(table, begun) is None
    assert partial_snapshots.of_partitions(table, begun, []) == []
    assert of_names(table, begun) == ([], [])
