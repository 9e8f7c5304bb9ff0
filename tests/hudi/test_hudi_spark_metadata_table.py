"""Adoption and release of tables as Hudi writes them by default: with a metadata table and checksum files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import Options
from tests.hudi import stored_tables
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.stored_tables import Rows, rows_by_hudi_rs

pytestmark = pytest.mark.hudi_spark
NEW: Final = ["2026-01-01", 500, "new", 1.0, 99]
UPDATED: Final = ["2026-01-01", 500, "updated", 2.0, 100]
USING_METADATA: Final = {"hoodie__metadata__enable": "true", "hoodie__enable__data__skipping": "true"}


def rows(ids: range, ts: int) -> Rows:
    return [[f"2026-01-0{number % 2 + 1}", number, f"at {ts}", 1.5, ts] for number in ids]


def written_with(version: int, table_type: str) -> dict[str, str]:
    """The settings of Hudi's writer: its defaults, but for a table's own, and one thread."""
    return {
        "hoodie__table__name": "orders",
        "hoodie__write__table__version": str(version),
        "hoodie__write__auto__upgrade": "false",
        "hoodie__datasource__write__table__type": table_type,
        "hoodie__datasource__write__recordkey__field": "id",
        "hoodie__datasource__write__partitionpath__field": "day",
        "hoodie__datasource__write__precombine__field": "ts",
        "hoodie__datasource__write__hive_style_partitioning": "true",
        "hoodie__metadata__index__column__stats__enable": "true",
        "hoodie__metadata__index__bloom__filter__enable": "false",
        "hoodie__embed__timeline__server": "false",
        "hoodie__upsert__shuffle__parallelism": "1",
        "hoodie__index__type": "SIMPLE",
    }


def assert_rows(hudi_spark: HudiSpark, path: Path, expected: Rows) -> None:
    """Hudi's readers return rows, by the metadata table if they want it, and where they filter."""
    for options in ({}, USING_METADATA):
        assert hudi_spark.rows(path, **options) == expected
        for row in expected[-1:]:
            assert hudi_spark.rows(path, f"id = {row[1]} AND ts >= {row[-1]}", **options) == [row]
            assert hudi_spark.rows(path, f"day = '{row[0]}'", **options) == [
                seen for seen in expected if seen[0] == row[0]
            ]
    assert rows_by_hudi_rs(path) == expected


@pytest.mark.parametrize(
    ("version", "table_type"), [(8, "COPY_ON_WRITE"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")]
)
def test_a_metadata_table_that_is_out_of_date_shows_nothing_wrong(
    hudi_spark: HudiSpark,
    client: chronolake.Client,
    namespace: str,
    tmp_path: Path,
    version: int,
    table_type: str,
) -> None:
    path = tmp_path / "orders"
    settings = written_with(version, table_type)
    hudi_spark.write(path, rows(range(6), 1), "insert", **settings)
    hudi_spark.write(path, rows(range(2), 2), **settings)
    before = [*rows(range(2), 2), *rows(range(2, 6), 1)]
    assert (path / ".hoodie/metadata/.hoodie").is_dir()
    assert list(path.rglob("*.crc"))
    assert_rows(hudi_spark, path, before)

    name = adopting.adopt(client, Options(name=f"{namespace}.orders", base_path=str(path))).table
    table = client.table(name)
    assert_rows(hudi_spark, path, before)
    stored_tables.insert(table, path, [NEW])
    assert table.publish().foreign_files == []
    assert_rows(hudi_spark, path, [*before, NEW])

    releasing.release(client, name)
    assert_rows(hudi_spark, path, [*before, NEW])
    hudi_spark.write(path, [UPDATED], **settings)
    assert_rows(hudi_spark, path, [*before, UPDATED])
