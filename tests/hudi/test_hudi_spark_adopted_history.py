"""The timeline of an adopted table has the instants that Hudi itself shows, active and archived."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import chronolake
from chronolake.hudi import adopting, releasing
from chronolake.hudi.adopting import Adopted
from chronolake.hudi.definitions import Options
from chronolake_model.vocabulary import Action
from tests.hudi import stored_tables
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.stored_tables import unpacked
from tests.hudi.test_hudi_spark_archive import ARCHIVES

pytestmark = pytest.mark.hudi_spark
_LEFT_OUT: Final = frozenset({"rollback", "restore", "indexing"})
_COMPLETED_AS: Final = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
Instants = set[tuple[str, str]]
Adopt = Callable[[Path], Adopted]


@pytest.fixture
def adopt(client: chronolake.Client, namespace: str) -> Adopt:
    """Adopts the table in a folder under the folder's name."""

    def run(path: Path) -> Adopted:
        return adopting.adopt(client, Options(name=f"{namespace}.{path.name}", base_path=str(path)))

    return run


def shown(spark: HudiSpark, path: Path) -> dict[str, Instants]:
    """The requested times and actions of the completed instants that Hudi shows, by timeline."""
    rows = spark.sql(f"CALL show_timeline(path => '{path}', showArchived => true, limit => 1000)")
    instants: dict[str, Instants] = {"ACTIVE": set(), "ARCHIVED": set()}
    for row in rows:
        assert row["state"] == "COMPLETED"
        instants[row["timeline_type"]].add((row["instant_time"], row["action"]))
    return instants


def instants_of(table: chronolake.Table) -> Instants:
    """The same of a table of Chronolake, without savepoints, which have other requested times."""
    return {
        (instant.requested_time, _COMPLETED_AS.get(instant.action, instant.action))
        for instant in table.instants()
        if instant.action is not Action.SAVEPOINT
    }


def without(instants: Instants, *actions: str) -> Instants:
    """The instants of other actions."""
    return {(time, action) for time, action in instants if action not in {*_LEFT_OUT, *actions}}


@pytest.mark.parametrize("name", ["kept6", "kept8", "keptmor9", "archived6", "archived8", "upgraded9"])
def test_all_instants_that_hudi_shows_come_in(
    hudi_spark: HudiSpark, client: chronolake.Client, adopt: Adopt, tmp_path: Path, name: str
) -> None:
    path = unpacked(name, tmp_path)
    before = shown(hudi_spark, path)
    assert len(before["ARCHIVED"]) >= 6
    table = client.table(adopt(path).table)
    assert instants_of(table) == without(before["ARCHIVED"] | before["ACTIVE"])


def made_by_hudi(spark: HudiSpark, path: Path, version: int) -> None:
    """A table whose archive has upserts, cleans, an insert overwrite and a rollback."""
    options = {
        **ARCHIVES,
        "hoodie__table__name": path.name,
        "hoodie__write__table__version": str(version),
        "hoodie__write__auto__upgrade": "false",
        "hoodie__datasource__write__recordkey__field": "id",
        "hoodie__datasource__write__precombine__field": "ts",
        "hoodie__table__timeline__timezone": "UTC",
        "hoodie__embed__timeline__server": "false",
        "hoodie__index__bloom__num_entries": "10",
    }
    for number in range(12):
        operation = "insert_overwrite_table" if number == 4 else "upsert"
        spark.write(path, [["2026-01-01", number, "x", 1.0, number]], operation, **options)
        if number == 2:
            # As if its writer was killed at the end: the next write rolls it back.
            [*_, last] = sorted(path.glob(".hoodie/2*.commit")) or sorted(
                path.glob(".hoodie/timeline/2*.commit")
            )
            last.unlink()


@pytest.mark.parametrize("version", [6, 9])
def test_an_archive_that_hudi_has_just_made_comes_in_and_is_kept_by_a_release(
    hudi_spark: HudiSpark, client: chronolake.Client, adopt: Adopt, tmp_path: Path, version: int
) -> None:
    path = tmp_path / f"made{version}"
    made_by_hudi(hudi_spark, path, version)
    before, rows = shown(hudi_spark, path), hudi_spark.rows(path)
    assert {"commit", "clean", "replacecommit"} <= {action for _, action in before["ARCHIVED"]}
    # The archiver of version 6 keeps the last rollbacks.
    assert "rollback" in {action for _, action in before["ACTIVE" if version == 6 else "ARCHIVED"]}
    adopted = adopt(path)
    table = client.table(adopted.table)
    assert instants_of(table) == without(before["ARCHIVED"] | before["ACTIVE"])
    assert any("1 completed rollback are left out" in note for note in adopted.notes)
    # Hadoop's checksum files, on a local disk.
    assert all(finding.path.endswith(".crc") for finding in table.check().findings)

    new = ["2026-01-01", 500, "new", 1.0, 99]
    requested = stored_tables.insert(table, path, [new])
    table.publish()
    expected = {*without(before["ARCHIVED"] | before["ACTIVE"]), (requested, "commit")}
    if version == 6:
        # The timeline is published anew from the log, which begins with the creation of the table.
        [created, *_] = client.events(table=table.name, limit=1)
        expected.add((created.time, "commit"))
    releasing.release(client, table.name)

    after = shown(hudi_spark, path)
    instants = after["ARCHIVED"] | after["ACTIVE"]
    assert without(instants) == expected
    if version == 9:
        # The files of Hudi's history stay as they are, with what does not come in.
        assert before["ARCHIVED"] <= after["ARCHIVED"]
    assert hudi_spark.rows(path) == [*rows, new]
