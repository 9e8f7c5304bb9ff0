"""Services hold some row groups of a file, not the file (report 18 of Hudi's users: HUDI-5350, #19084)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import chronolake
from chronolake import Action
from chronolake.slices import base_files
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import services
from tests.spark.arrow_writes import row, upsert
from tests.spark.test_services import SCHEMA, plan

ROWS = 2_000
TEXT_BYTES = 10_000
ROW_GROUP_ROWS = 100


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLUSTERING])
def test_a_service_holds_some_row_groups_of_a_file_and_never_the_file(
    shared_server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    monkeypatch.setattr(base_files, "ROW_GROUP_ROWS", ROW_GROUP_ROWS)
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("memory", if_not_exists=True)
        table = client.create_table(
            f"memory.{action}",
            base_path=str(tmp_path / "table"),
            schema=SCHEMA,
            record_key_fields=["id"],
            ordering_field="ts",
            type=TableType.MERGE_ON_READ,
            index=BucketIndex(IndexType.SIMPLE),
            properties={"hudi.publish": "false"},
        )
        texts = (f"{number:010}" * (TEXT_BYTES // 10) for number in range(ROWS))
        upsert(table, *(row(id, id=id, value=text, ts=1) for id, text in enumerate(texts)))
        upsert(table, row(1, id=1, value="new", ts=2))
        planned = plan(table, action)
        before = pa.total_allocated_bytes()
        allocated: list[int] = []

        services.execute(
            table, planned.requested_time, check=lambda: allocated.append(pa.total_allocated_bytes() - before)
        )

    assert len(allocated) > ROWS // ROW_GROUP_ROWS // 2
    assert max(allocated) < ROWS * TEXT_BYTES // 3
