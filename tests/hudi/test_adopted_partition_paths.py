"""The spelling of partition paths that Hudi has written: writers go on as Hudi did, or are refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import chronolake
from chronolake.hudi import adopting, keeping, requirements, stored
from chronolake.hudi.definitions import Options
from chronolake_model.checks import FindingKind
from chronolake_model.file_names import base_file_name
from chronolake_model.markers import Marker, MarkerKind
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY, URL_ENCODE_PROPERTY
from chronolake_model.vocabulary import Operation
from chronolake_storage.opening import open_files
from tests.hudi import stored_tables
from tests.hudi.stored_tables import rows_by_hudi_rs, rows_by_snapshot, rows_of_hudi, unpacked

Adopt = Callable[[Path], chronolake.Table]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Adopt:
    """Adopts the table in a folder."""

    def run(path: Path) -> chronolake.Table:
        options = Options(name=f"{namespace}.{path.name}", base_path=str(path))
        return client.table(adopting.adopt(client, options).table)

    return run


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("cow8", {URL_ENCODE_PROPERTY: "false"}),
        ("cow9", {}),
        ("plain8", {HIVE_STYLE_PROPERTY: "false", URL_ENCODE_PROPERTY: "false"}),
    ],
)
def test_an_adopted_table_spells_its_partition_paths_as_hudi_did(
    adopt: Adopt, tmp_path: Path, name: str, spelling: dict[str, str]
) -> None:
    path = unpacked(name, tmp_path)
    table = adopt(path)
    stated = table.definition.properties
    assert {key: text for key, text in stated.items() if key.startswith("partition-paths.")} == spelling
    changed = ["2026-01-01", 3, "changed", 9.0, 99]

    stored_tables.upsert(table, path, changed)
    table.publish()

    expected = sorted([changed, *(row for row in rows_of_hudi(name) if row[1] != 3)], key=lambda row: row[1])
    assert rows_by_hudi_rs(path) == rows_by_snapshot(table, path) == expected
    kinds = {finding.kind for finding in table.check().findings}
    assert FindingKind.WRONG_PARTITION not in kinds


def test_a_writer_that_spells_partition_paths_in_another_way_writes_nothing(
    adopt: Adopt, tmp_path: Path
) -> None:
    path = unpacked("plain8", tmp_path)
    table = adopt(path)
    write = table.begin(operation=Operation.UPSERT)
    name = base_file_name(f"{uuid.uuid4()}-0", "0-0-0", write.requested_time)
    with pytest.raises(chronolake.errors.InvalidMarker, match="hive-style is false"):
        write.mark(Marker("day=2026-01-01", name, MarkerKind.CREATE))
    stat = chronolake.WriteStat("day=2026-01-01", name.partition("_")[0], name, 1, 1)
    with pytest.raises(chronolake.errors.InvalidWriteStat, match="hive-style is false"):
        write.complete([stat])
    table.rollback(write.requested_time, "it was refused")


@pytest.mark.parametrize(
    ("name", "partition_path", "reason"),
    [
        ("cow8", "2026-01-01", "is not spelled as hoodie.properties says"),
        ("plain8", "day=2026-01-01", "is not spelled as hoodie.properties says"),
        ("plain8", "2026/01/01", "has 3 parts"),
        ("plain8", "", "has 0 parts"),
    ],
)
def test_partition_paths_in_another_style_than_the_tables_are_kept(
    tmp_path: Path, name: str, partition_path: str, reason: str
) -> None:
    table = stored.read(open_files(str(unpacked(name, tmp_path))))
    schema = requirements.schema_of(table)
    assert keeping.of(table, schema) == keeping.Kept()
    file, parsed = table.data_files[0]
    moved = msgspec.structs.replace(file, partition_path=partition_path)
    changed = msgspec.structs.replace(table, data_files=[(moved, parsed)])
    assert reason in str(keeping.of(changed, schema).paths)
