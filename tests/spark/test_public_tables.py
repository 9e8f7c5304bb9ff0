"""Public tables of Hudi through their whole way: dry run, adoption, reads, a write, release.

``PUBLIC_HUDI_TABLES`` names a folder with tables, unpacked, at any depth (tests/README.md says which and how).
Each is copied, and compared with what hudi-rs reads of the original. ``-rA`` lists all with their reasons.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import hudi
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action
from chronolake_spark.tables import SparkTable

FOLDER: Final = os.environ.get("PUBLIC_HUDI_TABLES", "")
AS_OF_MAX: Final = 3
"""Instants of a table that are read as of."""


def below(folder: Path) -> list[Path]:
    """The tables below a folder, without their metadata tables, in order."""
    found = (path.parent.parent for path in folder.rglob(".hoodie/hoodie.properties"))
    return sorted(path for path in found if ".hoodie" not in path.parts)


pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="PUBLIC_HUDI_TABLES names no folder of public tables"),
]
TABLES: Final = below(Path(FOLDER)) if FOLDER else []
Rows = Counter[str]


def rows(table: pa.Table) -> Rows:
    """The rows of a table without meta columns, in any order."""
    own = sorted(name for name in table.column_names if not name.startswith("_hoodie_"))
    return Counter(repr(_comparable(row)) for row in table.select(own).to_pylist())


def _comparable(value: Any) -> Any:
    """A value in which the order of a map, and the type of its pairs, does not matter."""
    if isinstance(value, dict):
        return sorted((str(key), _comparable(entry)) for key, entry in value.items())
    if isinstance(value, list):
        listed = [_comparable(entry) for entry in value]
        return sorted(listed, key=repr) if value and isinstance(value[0], tuple) else listed
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    return value


def by_hudi_rs(path: Path, as_of: str | None = None) -> Rows:
    """The rows of hudi-rs, as of a requested time or now."""
    options = hudi.HudiReadOptions()
    options = options if as_of is None else options.with_as_of_timestamp(as_of)
    batches = hudi.HudiTable(str(path)).read(options)
    return rows(pa.Table.from_batches(batches)) if batches else Counter()


def by_chronolake(table: SparkTable, as_of: str | None = None) -> Rows:
    """The rows of Chronolake through Spark."""
    return rows(table.read(as_of=as_of).toArrow())


def completed_writes(table: SparkTable) -> list[Instant]:
    """The last instants that wrote records, oldest first."""
    written = [
        instant
        for instant in table.metastore.instants()
        if instant.completion_time is not None and instant.action in (Action.COMMIT, Action.DELTACOMMIT)
    ]
    return sorted(written, key=lambda instant: str(instant.completion_time))[-AS_OF_MAX:]


@pytest.mark.parametrize("source", TABLES, ids=[path.relative_to(FOLDER).as_posix() for path in TABLES])
def test_a_public_table_is_read_as_by_hudi_rs_and_given_back_or_refused_unchanged(
    spark: SparkSession, client: chronolake.Client, tmp_path: Path, source: Path
) -> None:
    path = tmp_path / source.name
    shutil.copytree(source, path)
    options = Options(name=f"spark.{name_of(source)}", base_path=str(path), roll_back_pending=True)
    before = contents(path)
    try:
        adopting.adopt(client, options, dry_run=True)
    except CannotAdopt as refused:
        assert contents(path) == before
        pytest.skip("OUT: " + " | ".join(refused.reasons))
    assert contents(path) == before
    expected = by_hudi_rs(source)

    adopting.adopt(client, options)
    table = chronolake_spark.table(spark, options.name, client=client)
    assert by_chronolake(table) == expected

    _compare_history(table, source)
    _write_and_release(spark, client, table, path, expected)


def _compare_history(table: SparkTable, source: Path) -> None:
    served_from = table.definition.cleaned_before or ""
    for instant in completed_writes(table):
        completion = str(instant.completion_time)
        if completion >= served_from:
            assert by_chronolake(table, completion) == by_hudi_rs(source, instant.requested_time)
            changed = table.changes(completion)
            assert changed.columns[-1] == "_change_type"
            changed.toArrow()


def _write_and_release(
    spark: SparkSession, client: chronolake.Client, table: SparkTable, path: Path, expected: Rows
) -> None:
    """Write the stored rows again, where Chronolake writes the table: nothing may change."""
    definition = table.definition
    sample = spark.createDataFrame(table.read().limit(2).toArrow())
    try:
        if definition.record_key_fields:
            table.upsert(sample)
        else:
            table.bulk_insert(sample)
            expected = expected + rows(sample.toArrow())
    except chronolake_spark.errors.TableMismatch as refused:
        assert "was adopted from Hudi" in str(refused)
    assert by_chronolake(table) == expected
    releasing.release(client, table.name)
    assert by_hudi_rs(path) == expected


def name_of(path: Path) -> str:
    """A name for the table in a folder, from the folder and the one above."""
    return re.sub("[^A-Za-z0-9_]", "_", f"{path.parent.name}_{path.name}")[-120:]


def contents(path: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
