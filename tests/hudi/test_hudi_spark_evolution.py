"""Schemas and types by Hudi's Spark bundle and hudi-rs: added and widened columns, other orders, renames."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake.errors import NotPublished
from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn, WidenColumn
from chronolake_model.tables import Field
from chronolake_model.vocabulary import TableType
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.keyed_table import KeyedTable, assert_history_agrees, assert_readers_agree
from tests.published import FIELDS, Row

pytestmark = pytest.mark.hudi_spark
BOTH_TYPES = pytest.mark.parametrize("table_type", TableType)


def row(number: int, day: Any = "a", **columns: Any) -> Row:
    return {"id": number, "day": day, **columns}


@pytest.fixture
def new_table(client: chronolake.Client, tmp_path: Path) -> Callable[..., KeyedTable]:
    """Makes a table in a folder."""
    return partial(KeyedTable, client, tmp_path / "lake")


@BOTH_TYPES
def test_added_widened_and_dropped_columns_are_read_in_old_and_new_files(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    fields = [*FIELDS, Field("count", "int"), Field("rate", "float"), Field("gone", "string")]
    table = new_table(table_type, schema=fields)
    table.upsert(*(row(number, name="x", count=number, rate=0.5, gone="g") for number in range(4)))
    assert_readers_agree(hudi_spark, table)
    table.table.change_schema([AddColumn("note", "string")])
    assert_readers_agree(hudi_spark, table)
    table.upsert(row(1, name="y", count=9, rate=1.5, gone="h", note="n"), row(2, "b", note="m"))
    assert_readers_agree(hudi_spark, table)

    table.table.change_schema([WidenColumn("count", "bigint"), WidenColumn("rate", "double")])
    table.table.change_schema([DropColumn("gone")])
    assert_readers_agree(hudi_spark, table)
    table.upsert(row(2, name="z", count=2**40, rate=1e300), row(7, count=2**41))
    assert len(assert_readers_agree(hudi_spark, table)) == 6
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 6


@BOTH_TYPES
@pytest.mark.parametrize("given_again", [False, True], ids=["renamed", "name given again"])
def test_publication_waits_at_a_rename_and_goes_on_when_the_files_are_rewritten(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType, given_again: bool
) -> None:
    table = new_table(table_type)
    table.upsert(row(1, name="x"), row(2, name="x"), row(3, "b", name="x"))
    before = assert_readers_agree(hudi_spark, table)
    new_name = "name" if given_again else "label"
    if given_again:
        table.table.change_schema([DropColumn("name"), AddColumn("name", "string")])
    else:
        table.table.change_schema([RenameColumn("name", "label")])
    for day, ids in (("a", (1, 2)), ("b", (3,))):
        with pytest.raises(NotPublished, match="renamed, or has the name"):
            table.publish()
        assert [seen["name"] for seen in hudi_spark.read(table.folder)] == [seen[-1] for seen in before]
        table.overwrite(day, *({"id": number, "day": day, new_name: "y"} for number in ids))

    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["y", "y", "y"]
    table.upsert({"id": 1, "day": "a", new_name: "z"})
    assert [seen[-1] for seen in assert_readers_agree(hudi_spark, table)] == ["z", "y", "y"]


@BOTH_TYPES
def test_columns_in_another_order_are_read(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    table = new_table(table_type)
    table.upsert(row(1, name="x"), row(2, name="x"))
    table.is_in_other_order = True
    table.upsert(row(1, name="y"), row(4, name="y"), row(3, "b", name="y"))
    assert len(assert_readers_agree(hudi_spark, table)) == 4
    table.compact()
    assert len(assert_readers_agree(hudi_spark, table)) == 4


TYPES: dict[str, list[Any]] = {
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [0.5, -1.25],
    "double": [0.1, 1e300],
    "boolean": [True, False],
    "string": ["", "ü\n€"],
    "date": [datetime.date(1960, 2, 29), datetime.date(2026, 1, 1)],
    "timestamp": [
        datetime.datetime(1960, 1, 1, 0, 0, 0, 1, datetime.UTC),
        datetime.datetime(2026, 1, 1, 0, 0, 0, 999_999, datetime.UTC),
    ],
    "decimal(10,2)": [Decimal("-99999999.99"), Decimal("0.01")],
}


@BOTH_TYPES
def test_values_of_all_types_are_the_same(
    hudi_spark: HudiSpark, new_table: Callable[..., KeyedTable], table_type: TableType
) -> None:
    columns = [Field(f"c_{number}", name) for number, name in enumerate(TYPES)]
    table = new_table(table_type, schema=[*FIELDS[:2], *columns])
    for values in (*zip(*TYPES.values(), strict=True), [None] * len(TYPES)):
        named = {column.name: value for column, value in zip(columns, values, strict=True)}
        table.upsert(row(1, **named), row(2, **named), row(len(table.requested_times) + 3, **named))
        assert_readers_agree(hudi_spark, table)
    assert_history_agrees(hudi_spark, table)


@pytest.mark.parametrize("name", ["int", "bigint", "boolean", "date", "string", "decimal(10,2)"])
def test_partitions_of_a_type_have_their_values_and_null(
    hudi_spark: HudiSpark, client: chronolake.Client, tmp_path: Path, name: str
) -> None:
    fields = [FIELDS[0], Field("day", name)]
    table = KeyedTable(client, tmp_path / "lake", schema=fields)
    value = TYPES[name][-1] if name != "string" else "a b"
    table.upsert(row(1, value), row(2, None))
    assert len(assert_readers_agree(hudi_spark, table)) == 2
