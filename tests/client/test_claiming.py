"""The Python client claims a local folder before its writers mark or publish files there."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake import errors
from chronolake_storage import claims
from tests.client.conftest import SCHEMA
from tests.client.stored import base

FOREIGN = (
    b'{"format_version": 1, "metastore_id": "another", "table_id": "another", "table": "other.orders", '
    b'"claimed_at": "2026-11-22T00:00:00+00:00"}'
)


def is_claimed(table: chronolake.Table, folder: Path) -> bool:
    return table.definition.table_id in (folder / claims.PATH).read_text(encoding="utf-8")


def claim_for_another(folder: Path) -> None:
    (folder / ".hoodie").mkdir()
    (folder / claims.PATH).write_bytes(FOREIGN)


def test_a_marker_claims_the_folder_of_the_table(table: chronolake.Table, tmp_path: Path) -> None:
    write = table.begin()
    write.mark(base(write, 0))

    assert is_claimed(table, tmp_path)


def test_a_marker_of_an_executor_claims_the_folder_of_the_table(
    table: chronolake.Table, tmp_path: Path
) -> None:
    write = table.begin()
    table.create_markers(write.requested_time, [base(write, 0)])

    assert is_claimed(table, tmp_path)


def test_completing_claims_the_folder_that_a_write_without_markers_made(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    table = client.create_table(
        f"{namespace}.new", base_path=str(folder), schema=SCHEMA, record_key_fields=["id"]
    )
    write = table.begin()
    write.mark(base(write, 0))
    # The writer may be on a machine without this disk.
    assert not folder.exists()
    folder.mkdir()

    write.rollback()
    table.begin().complete()

    assert is_claimed(table, folder)


def test_nothing_is_marked_or_published_in_a_folder_that_another_has_claimed(
    table: chronolake.Table, tmp_path: Path
) -> None:
    claim_for_another(tmp_path)
    write = table.begin()

    with pytest.raises(errors.StorageFailed, match=r"claimed by the table other\.orders"):
        write.mark(base(write, 0))
    with pytest.raises(errors.StorageFailed, match=r"claimed by the table other\.orders"):
        write.complete()
    assert write.refresh().state is chronolake.State.INFLIGHT
    assert list(table.markers(write.requested_time)) == []


def test_nothing_is_published_where_a_link_leads_to_another_table(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    table, _ = (
        client.create_table(
            f"{namespace}.{name}", base_path=str(tmp_path / name / "a"), schema=SCHEMA, record_key_fields=["id"]
        )
        for name in ("real", "alias")
    )
    write = table.begin()
    write.mark(base(write, 0))
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("real")

    with pytest.raises(errors.StorageFailed, match="overlaps"):
        write.complete()
    assert write.refresh().state is chronolake.State.INFLIGHT
