"""Settings that change how Spark reads and writes: records stay as they are (docs/spark-settings.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake_spark import SparkTable
from chronolake_spark.read import slice_frames
from tests.spark.python_only import python_only

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
Rows = list[tuple[Any, ...]]
TYPES: Final = ("copy_on_write", "merge_on_read")
LEGACY: Final = {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}
HARMLESS: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "STRICT",
}
"""Settings that this page's other tests leave out, all at once: they changed nothing before either."""
SETTINGS: Final = {
    "dates of the Julian calendar": LEGACY,
    "old dates refused": {"spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION"},
    "files left out by name": {"spark.sql.files.ignoredPathSegmentRegex": "parquet$"},
    "TIMESTAMP without zone": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "names as patterns": {"spark.sql.parser.quotedRegexColumnNames": "true"},
    "Spark's other reader": {"spark.sql.sources.useV1SourceList": ""},
    "rows instead of columns": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "all others": HARMLESS,
}
BY_SOURCE: Final = ("TIMESTAMP without zone", "all others")


@contextlib.contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A block in which the session has these settings."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, text in before.items():
            if text is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, text)


def old_and_new(spark: SparkSession) -> DataFrame:
    """A record with times of long ago in a column of each type, and one with times of today."""
    rows = [
        f"SELECT {number}L id, date'{day}' day, timestamp'{day}T00:00:00Z' at, "
        f"timestamp_ntz'{day}T00:00:00' local, array(date'{day}') days, 'x{number}' `x+`, 'y' xx"
        for number, day in enumerate(["1000-01-01", "2000-01-01"])
    ]
    return spark.sql(" UNION ALL ".join(rows))


def rows_of(frame: DataFrame) -> Rows:
    """Its rows as numbers and texts, which PySpark does not convert."""
    shown = frame.selectExpr(
        "id", "unix_date(day)", "unix_micros(at)", "cast(local as string)", "unix_date(days[0])", "xx"
    )
    return sorted(tuple(row) for row in shown.collect())


@pytest.fixture(scope="module")
def tables(spark: SparkSession, new_table: NewTable) -> Mapping[str, SparkTable]:
    """A table of each type; that with log files has some in one of its file groups."""
    tables = {type_: new_table(old_and_new(spark), "id", type=type_, buckets=2) for type_ in TYPES}
    for table in tables.values():
        table.insert(old_and_new(spark))
    tables["merge_on_read"].upsert(old_and_new(spark).where("id = 0"))
    return tables


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", SETTINGS)
def test_records_are_read_as_they_are(
    spark: SparkSession, client: chronolake.Client, tables: Mapping[str, SparkTable], name: str, type_: str
) -> None:
    table = tables[type_]
    expected = rows_of(old_and_new(spark))
    before = table.read()

    with under(spark, SETTINGS[name]):
        assert rows_of(before) == expected
        assert rows_of(table.changes("earliest")) == expected
        assert rows_of(table.lookup([0])) == expected[:1]
        assert rows_of(table.read(filter="day < '1500-01-01'")) == expected[:1]
        made = table.read(columns=["id", "day", "at", "local", "days", "xx"])
        reader = spark.read.format("chronolake").options(table=table.name, url=client.url)
        frames = [reader.load()]
        if name in BY_SOURCE:
            with python_only(spark):
                frames.append(reader.load())
        assert [rows_of(frame) for frame in frames] == [expected] * len(frames)
    assert rows_of(made) == expected


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("settings", [LEGACY, {**HARMLESS, "spark.sql.timestampType": "TIMESTAMP_NTZ"}])
def test_records_are_written_as_they_are(
    spark: SparkSession, new_table: NewTable, type_: str, settings: Mapping[str, str]
) -> None:
    rows = old_and_new(spark)
    table = new_table(rows, "id,at", partition_fields=["day", "at"], type=type_, buckets=1)
    keys = "_hoodie_record_key", "_hoodie_partition_path"
    table.insert(rows)
    expected, places = rows_of(rows), table.read(meta_columns=True).select(*keys).sort(*keys).collect()

    with under(spark, settings):
        table.upsert(rows)
        table.merge(rows).when_matched_update({"xx": "concat(target.xx, 'z')"}).execute()
        table.overwrite(table.read(), "all")
        table.delete("day < '1500-01-01' and id = 1 or day > '1500-01-01' and id = 0")

    assert rows_of(table.read()) == [(*row[:-1], "yz") for row in expected]
    assert table.read(meta_columns=True).select(*keys).sort(*keys).collect() == places
    with under(spark, settings):
        table.delete("day < '1500-01-01'")
    assert [row[0] for row in rows_of(table.read())] == [1]


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_a_lost_file_is_never_left_out(
    spark: SparkSession, new_table: NewTable, tmp_path: Path, setting: str
) -> None:
    table = new_table(old_and_new(spark), "id", buckets=1, base_path=str(tmp_path / "table"))
    table.insert(old_and_new(spark))
    frame = table.read()
    [file] = (tmp_path / "table").glob("*.parquet")
    if setting == "ignoreMissingFiles":
        file.unlink()
    else:
        file.write_bytes(bytes(file.stat().st_size))

    with under(spark, {f"spark.sql.files.{setting}": "true"}):
        with pytest.raises(Exception, match=r"(?i)file"):
            frame.collect()
        with pytest.raises(Exception, match=r"(?i)file"):
            table.read().collect()


def test_a_text_is_written_only_where_it_fits(
    spark: SparkSession, client: chronolake.Client, tables: Mapping[str, SparkTable]
) -> None:
    table = tables["copy_on_write"]
    texts = table.read().withColumn("id", sf.lit("no number"))
    writer = texts.write.format("chronolake").options(table=table.name, url=client.url).mode("append")

    with (
        under(spark, {"spark.sql.storeAssignmentPolicy": "LEGACY", "spark.sql.ansi.enabled": "false"}),
        pytest.raises(PySparkException, match="id"),
    ):
        writer.save()


def test_the_session_keeps_its_settings_when_threads_list_files(spark: SparkSession) -> None:
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    with under(spark, {key: "7"}):
        first, second = ExitStack(), ExitStack()
        first.enter_context(slice_frames._files_listed_by_the_driver(spark))
        second.enter_context(slice_frames._files_listed_by_the_driver(spark))
        first.close()
        assert spark.conf.get(key) == "1000000"
        second.close()

        assert spark.conf.get(key) == "7"
