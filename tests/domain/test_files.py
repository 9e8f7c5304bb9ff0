from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET

from chronolake_metastore import errors
from chronolake_metastore.domain import files, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.tables import NewField, SchemaField
from chronolake_model.times import Micros

REQUESTED: Final = "20260203040506789"
TABLE: Final = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders", base_path="/lake", schema=[NewField("id", "int")], record_key_fields=["id"]
        )
    ),
    UUID(int=7),
    Micros(0),
)
GOOD: Final = WriteStat(
    partition_path="",
    file_id=bucket_file_id(1),
    file_name=base_file_name(bucket_file_id(1), "0-1-2", REQUESTED),
    size_bytes=10,
    records=2,
)


def changed(**change: object) -> WriteStat:
    return msgspec.structs.replace(GOOD, **change)


def test_a_stat_that_fits_passes() -> None:
    files.check(TABLE, REQUESTED, [GOOD])


@pytest.mark.parametrize(
    ("stats", "why"),
    [
        ([changed(file_name="part-0.parquet")], "is neither"),
        ([changed(file_name=base_file_name(bucket_file_id(1), "0-1-2", "20260203040506780"))], "says instant"),
        ([changed(file_id=bucket_file_id(2))], "says file id"),
        ([changed(file_name=f".{bucket_file_id(1)}_{REQUESTED}.log.1_0-1-2")], "no log files"),
        ([changed(partition_path="../elsewhere")], "must be relative"),
        ([changed(partition_path="a//b")], "must be relative"),
        (
            [changed(file_id="00000001-aa", file_name=base_file_name("00000001-aa", "0-1-2", REQUESTED))],
            "begins with its bucket",
        ),
        ([changed(partition_path="month=2026-02")], "one part for each"),
        ([GOOD, GOOD], "reported twice"),
        ([GOOD, changed(file_name=base_file_name(bucket_file_id(1), "0-1-3", REQUESTED))], "reported twice"),
        (
            [
                changed(
                    file_id=bucket_file_id(4), file_name=base_file_name(bucket_file_id(4), "0-1-2", REQUESTED)
                )
            ],
            "begins with its bucket",
        ),
        (
            [changed(file_id="abc", file_name=base_file_name("abc", "0-1-2", REQUESTED))],
            "begins with its bucket",
        ),
    ],
)
def test_a_stat_that_does_not_fit_is_refused_with_its_place(stats: list[WriteStat], why: str) -> None:
    with pytest.raises(errors.InvalidWriteStat, match=why) as refused:
        files.check(TABLE, REQUESTED, stats)
    assert refused.value.context["index"] == len(stats) - 1


def test_the_digest_changes_with_every_field() -> None:
    others = [
        changed(partition_path="x"),
        changed(file_id="x"),
        changed(file_name="x"),
        changed(size_bytes=11),
        changed(records=3),
        changed(inserts=1),
        changed(updates=1),
        changed(deletes=1),
    ]
    assert len({files.digest([stat]) for stat in [GOOD, *others]}) == 9


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a/b",
        "a\nb",
        "a\\b",
        "a\x7f",
        ".hoodie",
        "/",
        "a/",
        "/a",
        ".",
        "..",
        "a/../b",
        "../../etc",
        "é" * 3_000,
    ],
)
def test_a_partition_path_that_does_not_fit_the_table_is_refused(path: str) -> None:
    schema = [SchemaField("id", "int", field_id=1), SchemaField("month", "string", field_id=2)]
    definition = msgspec.structs.replace(TABLE.definition, schema=schema, partition_fields=["month"])
    table = msgspec.structs.replace(TABLE, definition=definition)
    files.check(table, REQUESTED, [changed(partition_path="month=2026-02")])
    with pytest.raises(errors.InvalidWriteStat, match="partition path"):
        files.check(table, REQUESTED, [changed(partition_path=path)])


SCHEMA: Final = [
    SchemaField("id", "int", field_id=1),
    SchemaField("name", "string", field_id=2),
    SchemaField("weight", "double", field_id=3),
    SchemaField("tags", "array<string>", field_id=4),
]
# The column of field id 5 was dropped.
WIDE: Final = msgspec.structs.replace(
    TABLE, definition=msgspec.structs.replace(TABLE.definition, schema=SCHEMA, last_field_id=5)
)


@pytest.mark.parametrize(
    "column_stats",
    [
        [],
        [ColumnStats(1, 1, 1, 0)],
        [ColumnStats(1), ColumnStats(2, "", "b", 1), ColumnStats(4, nulls=2)],
        [ColumnStats(3, "-Infinity", "NaN")],
        [ColumnStats(2, nulls=2), ColumnStats(1, max=7)],
        [ColumnStats(5, "whatever", 1)],
    ],
)
def test_column_stats_that_fit_pass(column_stats: list[ColumnStats]) -> None:
    files.check(WIDE, REQUESTED, [changed(column_stats=column_stats)])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (ColumnStats(6), "no such column"),
        (ColumnStats(2), "the column is named twice"),
        (ColumnStats(1, "1"), "'1' is not an integer"),
        (ColumnStats(1, max=1.5), "1.5 is not an integer"),
        (ColumnStats(3, max="nan"), "is not a number"),
        (ColumnStats(1, 2, 1), "min, 2, is greater than max, 1"),
        (ColumnStats(3, "NaN", "Infinity"), "is greater than max"),
        (ColumnStats(1, nulls=3), "3 nulls in 2 records"),
        (ColumnStats(4, min="a"), "a column of this type has no order"),
    ],
)
def test_column_stats_that_do_not_fit_are_refused_with_their_place(wrong: ColumnStats, why: str) -> None:
    file_id = bucket_file_id(2)
    other = changed(file_id=file_id, file_name=base_file_name(file_id, "0-1-2", REQUESTED))
    stat = changed(column_stats=[ColumnStats(2), wrong])
    with pytest.raises(errors.InvalidWriteStat, match=rf"^write_stats\[1\]: column_stats\[1\].*{why}"):
        files.check(WIDE, REQUESTED, [other, stat])


def test_field_ids_count_in_the_digest() -> None:
    assert len({files.digest([changed(has_field_ids=given)]) for given in (True, False, UNSET)}) == 3


def test_column_stats_count_in_the_digest_and_stats_without_have_the_digest_of_before() -> None:
    assert files.digest([GOOD]) == "ec254d49b00970e9d2a6eb19c95457116d9de8391217141b92bee98ee848e04d"
    assert len({files.digest([changed(column_stats=stats)]) for stats in ([], [ColumnStats(1)], UNSET)}) == 3
