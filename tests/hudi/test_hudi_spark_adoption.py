"""Real Hudi before, while and after Chronolake has a table: adoption, reads, and release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import Options
from chronolake_model.partition_paths import Spelling
from tests.hudi import stored_tables
from tests.hudi.hudi_spark import HudiFailed, HudiSpark
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_by_slices, rows_of_hudi, unpacked

pytestmark = pytest.mark.hudi_spark
NEW = ["2026-01-01", 500, "new", 1.0, 99]
UPDATED = ["2026-01-01", 500, "updated", 2.0, 100]
COMPACTED = {"hoodie__compact__inline__max__delta__commits": "1"}
LATER = ["2026-01-01", 501, "later", 3.0, 101]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Callable[[Path], chronolake.Table]:
    """Adopts the table in a folder."""

    def run(path: Path) -> chronolake.Table:
        options = Options(name=f"{namespace}.{path.name}", base_path=str(path), roll_back_pending=True)
        return client.table(adopting.adopt(client, options).table)

    return run


@pytest.mark.parametrize(
    "name",
    [
        *stored_tables.COPY_ON_WRITE,
        *stored_tables.MERGE_ON_READ,
        *stored_tables.VERSION_6,
        *stored_tables.VERSION_6_LOGS,
        "partial9",
        "logcompacted9",
        "pending8",
        "pendingmor8",
        "slashed8",
        "flagged9",
        "ordered9",
        "orderedmor9",
        "ordereddeletes9",
        "ordereddeletes6",
        "bycommit9",
        "upgraded9",
    ],
)
def test_hudi_reads_an_adopted_table_as_before(
    hudi_spark: HudiSpark, adopt: Callable[[Path], chronolake.Table], tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    adopt(path)
    assert hudi_spark.rows(path) == rows_of_hudi(name)


@pytest.mark.parametrize(
    "name",
    ["cow8", "cow9", "plain8", "archived8", "cow6", "archived6", "mor9", "compacted6", "logs6", "partial9"],
)
def test_a_table_goes_from_hudi_to_chronolake_and_back(
    hudi_spark: HudiSpark,
    client: chronolake.Client,
    adopt: Callable[[Path], chronolake.Table],
    tmp_path: Path,
    name: str,
) -> None:
    path = unpacked(name, tmp_path)
    table = adopt(path)
    stored_tables.insert(table, path, [NEW])
    table.publish()
    assert hudi_spark.rows(path) == [*rows_of_hudi(name), NEW]
    with pytest.raises(HudiFailed, match="ThisTableIsWrittenThroughChronolake"):
        hudi_spark.write(path, [UPDATED], **written_with(table))

    released = releasing.release(client, table.name)

    assert hudi_spark.rows(path) == [*rows_of_hudi(name), NEW]
    hudi_spark.write(path, [UPDATED, LATER], **written_with(table))
    hudi_spark.write(path, [LATER], "delete", **written_with(table))
    assert hudi_spark.rows(path) == [*rows_of_hudi(name), UPDATED]
    assert rows_by_hudi_rs(path) == [*rows_of_hudi(name), UPDATED]
    assert f"hoodie.table.version={released.table_version}" in (path / ".hoodie/hoodie.properties").read_text()


@pytest.mark.parametrize("name", ["logs6", "logcompacted6"])
def test_hudi_reads_log_files_of_version_6_as_of_their_commits_and_compacts_them_after_a_release(
    hudi_spark: HudiSpark,
    client: chronolake.Client,
    adopt: Callable[[Path], chronolake.Table],
    tmp_path: Path,
    name: str,
) -> None:
    path = unpacked(name, tmp_path)
    times = [instant.name.partition(".")[0] for instant in sorted(path.glob(".hoodie/2*commit"))]
    before = {time: hudi_spark.rows(path, as__of__instant=time) for time in times}
    table = adopt(path)
    assert {time: hudi_spark.rows(path, as__of__instant=time) for time in times} == before
    instants = {instant.requested_time: instant.completion_time for instant in table.instants()}
    assert {time: rows_by_slices(table, instants[time]) for time in times} == before

    releasing.release(client, table.name)
    hudi_spark.write(path, [UPDATED], **written_with(table) | {"hoodie__compact__inline": "true"} | COMPACTED)
    assert hudi_spark.rows(path) == [*rows_of_hudi(name), UPDATED]
    assert rows_by_hudi_rs(path) == [*rows_of_hudi(name), UPDATED]


def test_after_the_advised_compaction_hudi_updates_the_records_of_groups_with_log_files_only(
    hudi_spark: HudiSpark, client: chronolake.Client, adopt: Callable[[Path], chronolake.Table], tmp_path: Path
) -> None:
    path = unpacked("logonly9", tmp_path)
    table = adopt(path)
    released = releasing.release(client, table.name)
    assert "compact it (call run_compaction" in released.advice[1]

    hudi_spark.sql(f"create table logonly9 using hudi location '{path}'")
    at_once = "options => 'hoodie.compact.inline.max.delta.commits=1'"
    hudi_spark.sql(f"call run_compaction(table => 'logonly9', op => 'scheduleAndExecute', {at_once})")
    changed = [rows_of_hudi("logonly9")[0][0], 0, "changed", 9.0, 99]
    hudi_spark.write(path, [changed], **written_with(table))
    assert hudi_spark.rows(path) == [changed, *rows_of_hudi("logonly9")[1:]]


@pytest.mark.parametrize("name", ["timestamp9", "custom8"])
def test_hudi_reads_a_table_with_a_key_generator_of_times_when_it_is_released(
    hudi_spark: HudiSpark,
    client: chronolake.Client,
    adopt: Callable[[Path], chronolake.Table],
    tmp_path: Path,
    name: str,
) -> None:
    path = unpacked(name, tmp_path)
    table = adopt(path)
    releasing.release(client, table.name)
    assert hudi_spark.rows(path) == rows_of_hudi(name)


def test_hudi_reads_a_record_once_that_was_updated_in_a_plain_partition_path(
    hudi_spark: HudiSpark, adopt: Callable[[Path], chronolake.Table], tmp_path: Path
) -> None:
    path = unpacked("plain8", tmp_path)
    table = adopt(path)
    changed = ["2026-01-01", 3, "changed", 9.0, 99]
    stored_tables.upsert(table, path, changed)
    table.publish()
    expected = sorted(
        [changed, *(row for row in rows_of_hudi("plain8") if row[1] != 3)], key=lambda row: row[1]
    )
    assert hudi_spark.rows(path) == rows_by_hudi_rs(path) == expected


def written_with(table: chronolake.Table) -> dict[str, str]:
    """The settings with which Hudi writes a table that comes from Chronolake."""
    definition = table.definition
    spelling = Spelling.of(definition.properties)
    return {
        "hoodie__table__name": definition.name.rpartition(".")[2],
        "hoodie__datasource__write__recordkey__field": ",".join(definition.record_key_fields),
        "hoodie__datasource__write__partitionpath__field": ",".join(definition.partition_fields),
        "hoodie__datasource__write__precombine__field": "ts",
        "hoodie__datasource__write__table__type": definition.type.name,
        "hoodie__datasource__write__hive_style_partitioning": str(spelling.hive_style).lower(),
        "hoodie__index__type": "SIMPLE",
        "hoodie__write__table__version": definition.properties["hudi.table-version"],
        "hoodie__write__auto__upgrade": "false",
        "hoodie__embed__timeline__server": "false",
        "hoodie__compact__inline": "false",
    }
