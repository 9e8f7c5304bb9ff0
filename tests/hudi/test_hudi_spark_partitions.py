"""Hudi's Spark bundle takes the values of partition columns from the paths: they are those of the files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hudi import partitioned_tables
from tests.hudi.hudi_spark import HudiFailed, HudiSpark
from tests.hudi.partitioned_tables import BEYOND_PYTHON, VALUES, text_of

pytestmark = pytest.mark.hudi_spark
Select = Callable[..., dict[int, str | None]]


@pytest.fixture
def select(hudi_spark: HudiSpark, tmp_path: Path) -> Iterator[Callable[..., Select]]:
    """Writes a table; then selects ids and values as text in a time zone, timestamps as microseconds."""

    def make(type_: str, values: list[Any]) -> Select:
        partitioned_tables.write(tmp_path / "t", type_, values)
        name = f"t_{uuid.uuid4().hex}"
        hudi_spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{tmp_path / 't'}'")
        value = "unix_micros(k)" if type_ == "timestamp" else "k"

        def rows(condition: str = "true", zone: str = "UTC") -> dict[int, str | None]:
            hudi_spark.sql(f"SET spark.sql.session.timeZone={zone}")
            query = f"SELECT id, cast({value} AS string) AS value FROM {name} WHERE {condition}"
            return {row["id"]: row["value"] for row in hudi_spark.sql(query)}

        return rows

    yield make
    hudi_spark.sql("SET spark.sql.session.timeZone=UTC")


@pytest.mark.parametrize("type_", VALUES)
def test_the_values_of_a_partition_column_come_back_in_every_time_zone(
    select: Callable[..., Select], type_: str
) -> None:
    values = [*VALUES[type_], *(BEYOND_PYTHON if type_ == "timestamp" else ())]
    rows = select(type_, values)
    expected = dict(enumerate(map(text_of, values)))
    assert rows() == expected
    assert rows(zone="America/New_York") == expected


@pytest.mark.parametrize(
    ("type_", "condition", "value"),
    [
        ("int", "k = -1", -1),
        ("timestamp", "k = timestamp'2026-01-01 00:00:07.123456 UTC'", 1_767_225_607_123_456),
        ("timestamp", "k > timestamp'9999-01-01 00:00:00 UTC'", 253_402_300_799_999_999),
        ("timestamp", "k is null", None),
        ("date", "k = date'1582-10-10'", VALUES["date"][2]),
        ("string", "k = '}'", "}"),
        ("string", "k = 'a/b=c%d'", "a/b=c%d"),
        ("string", "k = 'null'", "null"),
        ("string", "k is null", None),
    ],
)
def test_a_filter_on_a_partition_column_keeps_the_partition(
    select: Callable[..., Select], type_: str, condition: str, value: Any
) -> None:
    rows = select(type_, VALUES[type_])
    for zone in ("UTC", "Asia/Tokyo"):
        assert list(rows(condition, zone).values()) == [text_of(value)]


@pytest.mark.parametrize(("type_", "condition"), [("boolean", "k = true"), ("decimal(38,10)", "k = -1.5")])
def test_hudi_fails_at_filters_on_some_types(select: Callable[..., Select], type_: str, condition: str) -> None:
    with pytest.raises(HudiFailed):
        select(type_, VALUES[type_])(condition)


def test_hudi_reads_an_empty_text_and_the_name_of_the_default_partition_as_null(
    select: Callable[..., Select],
) -> None:
    assert select("string", ["", None, "__HIVE_DEFAULT_PARTITION__"])() == {0: None, 1: None, 2: None}


@pytest.mark.parametrize(("type_", "value", "read"), [("string", "a/b", "a%2Fb"), ("timestamp", 0, "None")])
def test_changes_have_escaped_values_as_the_path_spells_them(
    hudi_spark: HudiSpark, tmp_path: Path, type_: str, value: Any, read: str
) -> None:
    partitioned_tables.write(tmp_path / "t", type_, [value])
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "20000101000000000",
    }
    [changed] = hudi_spark.read(tmp_path / "t", **options)
    assert str(changed["k"]) == read
