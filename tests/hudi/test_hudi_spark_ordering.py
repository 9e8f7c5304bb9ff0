"""Hudi's Spark bundle and hudi-rs: strings as ordering values, in log files whose blocks are Avro."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from chronolake_model.vocabulary import TableType
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.keyed_table import KeyedTable, assert_base_files_agree, assert_readers_agree
from tests.hudi.written_tables import Blocks
from tests.published import Row

pytestmark = pytest.mark.hudi_spark
VALUES = {"ASCII": ("10", "5", "7"), "other characters": ("z", "\uffee", "\U0001f5fc")}


def row(number: int, ts: str, name: str = "x") -> Row:
    return {"id": number, "day": "a", "name": name, "ts": ts}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("values", VALUES)
def test_updates_and_deletes_in_avro_blocks_go_by_strings(
    hudi_spark: HudiSpark, client: chronolake.Client, tmp_path: Path, version: int, values: str
) -> None:
    low, middle, high = VALUES[values]
    table = KeyedTable(
        client,
        tmp_path / "lake",
        TableType.MERGE_ON_READ,
        ordering="string",
        version=version,
        properties={"hudi.log-blocks": "avro"},
    )
    avro = Blocks.AVRO
    table.upsert(*(row(number, middle) for number in range(8)))
    table.upsert(row(0, low, "older"), row(1, middle, "same"), row(2, high, "newer"), blocks=avro)
    table.delete(row(3, low), row(4, middle), row(5, high))
    table.upsert(row(2, middle, "older"), row(5, middle, "older than its delete"), blocks=avro)
    table.upsert(row(4, high, "after its delete"), row(6, high, "new"), blocks=avro)
    before = assert_readers_agree(hudi_spark, table)
    assert [seen[2] for seen in before] == ["0", "1", "2", "3", "4", "6", "7"]
    assert_base_files_agree(hudi_spark, table)

    table.compact()
    assert assert_readers_agree(hudi_spark, table) == before
