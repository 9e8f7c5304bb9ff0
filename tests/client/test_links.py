"""Rollbacks across a symbolic link: nothing below the link is deleted, and the rollback waits."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake import MarkersType, State, errors
from tests.client.conftest import SCHEMA
from tests.client.stored import base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "victim" / "name=1").mkdir(parents=True)
    (tmp_path / "victim" / "precious").write_bytes(b"precious")
    (tmp_path / "orders").mkdir()
    return tmp_path


@pytest.fixture
def orders(client: chronolake.Client, namespace: str, root: Path) -> chronolake.Table:
    return client.create_table(
        f"{namespace}.orders", base_path=str(root / "orders"), schema=SCHEMA, record_key_fields=["id"]
    )


def rolled_back(write: chronolake.Write, orders: chronolake.Table) -> chronolake.Instant:
    with pytest.raises(errors.StorageFailed, match="is a link"):
        write.rollback()
    rollback = write.refresh().rolled_back_by
    assert rollback is not None
    return orders.instant(rollback)


def test_a_linked_folder_of_direct_markers_is_not_followed(orders: chronolake.Table, root: Path) -> None:
    write = orders.begin(markers=MarkersType.DIRECT)
    (root / "orders" / ".hoodie" / ".temp").mkdir(parents=True)
    (root / "orders" / ".hoodie" / ".temp" / write.requested_time).symlink_to(root / "victim")

    with pytest.raises(errors.StorageFailed, match="is a link"):
        write.mark(base(write, 0))
    waiting = rolled_back(write, orders)

    assert waiting.state is State.REQUESTED
    assert (root / "victim" / "precious").read_bytes() == b"precious"
    assert sorted(path.name for path in (root / "victim").iterdir()) == ["name=1", "precious"]


def test_a_linked_partition_folder_is_not_followed(orders: chronolake.Table, root: Path) -> None:
    write = orders.begin()
    marker = base(write, 0)
    write.mark(marker)
    behind = root / "victim" / marker.file_name
    behind.write_bytes(b"of another")
    (root / "orders" / "name=1").symlink_to(root / "victim")

    waiting = rolled_back(write, orders)

    assert waiting.state is State.REQUESTED
    assert list(orders.deletions(waiting.requested_time)) == []
    assert behind.exists()
    (root / "orders" / "name=1").unlink()
    assert [rollback.state for rollback in orders.finish_rollbacks()] == [State.COMPLETED]
    assert behind.exists()


def test_a_file_that_is_no_marker_stays_and_is_reported(orders: chronolake.Table, root: Path) -> None:
    write = orders.begin(markers=MarkersType.DIRECT)
    write.mark(base(write, 0))
    folder = root / "orders" / ".hoodie" / ".temp" / write.requested_time
    (folder / "notes").write_bytes(b"precious")
    markers = orders.markers_of(write.requested_time, markers=MarkersType.DIRECT)

    with pytest.raises(errors.StorageFailed, match="notes: it is not a marker of the instant"):
        markers.delete_all()

    assert list(markers.listed()) == []
    assert [path.name for path in folder.iterdir()] == ["notes"]
