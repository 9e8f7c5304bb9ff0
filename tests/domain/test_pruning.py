from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from chronolake import Filter, col
from chronolake_metastore import errors
from chronolake_metastore.domain import partition_pruning, pruning
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.partition_pruning import PartitionSet
from chronolake_metastore.domain.pruning import Stats
from chronolake_model import filters as wire
from chronolake_model.filters import And, Compare, IsNull, Not, Or, StartsWith
from tests import records
from tests.examples import examples
from tests.records import FIELD_IDS, PARTITIONS, TABLE, TYPES, Record

OWN: Final = tuple(name for name in TYPES if name not in PARTITIONS)
"""Columns that are judged by their ranges."""


TABLE_BY_SHARD: Final = msgspec.structs.replace(
    TABLE, definition=msgspec.structs.replace(TABLE.definition, partition_fields=["shard"])
)


def kept(wanted: Filter, partition_path: str, files: Sequence[Stats]) -> bool:
    left = partition_pruning.residual(pruning.check(TABLE, wanted), TABLE, partition_path)
    return left if isinstance(left, bool) else pruning.slice_could_match(left, files)


def kept_by_ranges(wanted: Filter, **ranges: Range) -> bool:
    return pruning.slice_could_match(
        pruning.check(TABLE, wanted), [Stats(10, {FIELD_IDS[name]: bounds for name, bounds in ranges.items()})]
    )


def kept_by_partition(wanted: Filter, partition_path: str) -> bool:
    return partition_pruning.residual(pruning.check(TABLE, wanted), TABLE, partition_path) is not False


@settings(max_examples=examples(2_000))
@given(st.data())
def test_a_file_with_a_record_that_matches_is_kept(data: st.DataObject) -> None:
    first, *others = data.draw(st.lists(records.records(), min_size=1, max_size=4))
    rows = [first, *({**row, **{name: first[name] for name in PARTITIONS}} for row in others)]
    wanted = data.draw(records.filters())
    known = data.draw(records.vaguer(records.stats(rows)))

    some_match = any(records.matches(wanted, row) for row in rows)

    assert kept(wanted, records.partition_path(first), [known]) or not some_match


@settings(max_examples=examples(2_000))
@given(st.data())
def test_a_slice_is_kept_whose_files_give_a_record_that_matches_only_together(data: st.DataObject) -> None:
    files = data.draw(st.lists(st.lists(records.records(), min_size=1, max_size=2), min_size=1, max_size=3))
    wanted = data.draw(records.filters(OWN))
    known = [data.draw(records.vaguer(records.stats(rows))) for rows in files]
    rows = [row for file in files for row in file]
    merged = data.draw(records.merged(rows))

    assert kept(wanted, "", known) or not records.matches(wanted, merged)


@settings(max_examples=examples(300))
@given(records.records(), records.filters(OWN))
def test_a_file_of_one_record_is_kept_exactly_if_it_matches(record: Record, wanted: Filter) -> None:
    assert kept(wanted, "", [records.stats([record])]) == records.matches(wanted, record)


@settings(max_examples=examples(300))
@given(records.records(), records.filters(PARTITIONS[1:]))
def test_a_partition_is_kept_exactly_if_its_values_match(record: Record, wanted: Filter) -> None:
    assert kept_by_partition(wanted, records.partition_path(record)) == records.matches(wanted, record)


@settings(max_examples=examples(1_000))
@given(records.records(), records.filters(tuple(name for name in TYPES if name != "country")))
def test_a_file_of_one_record_in_its_partition_is_kept_exactly_if_it_matches(
    record: Record, wanted: Filter
) -> None:
    assert kept(wanted, records.partition_path(record), [records.stats([record])]) == records.matches(
        wanted, record
    )


@settings(max_examples=examples(300))
@given(records.filters(), st.lists(records.records(), max_size=6))
def test_partitions_with_one_residual_are_one_set(wanted: Filter, rows: list[Record]) -> None:
    condition = pruning.check(TABLE, wanted)
    paths = sorted({records.partition_path(row) for row in rows})

    sets = partition_pruning.prune(condition, TABLE, paths)

    left = {path: partition_pruning.residual(condition, TABLE, path) for path in paths}
    assert {path: part.residual or True for part in sets for path in part.partition_paths or ()} == {
        path: residual for path, residual in left.items() if residual is not False
    }
    assert len({part.residual for part in sets}) == len(sets)


def test_a_filter_with_a_condition_for_each_partition_is_pruned_per_partition() -> None:
    paths = [f"shard={number:03}" for number in range(300)]
    small = TABLE_BY_SHARD
    each: list[Filter] = [(col("shard") == number) & (col("id") > number) for number in range(300)]
    others: list[Filter] = [(col("shard") != number) & (col("id") > number) for number in range(40)]

    together = partition_pruning.prune(pruning.check(small, Or(each)), small, paths)
    apart = partition_pruning.prune(pruning.check(small, Or(others)), small, paths)

    assert [part.residual for part in together] == [
        pruning.check(small, col("id") > number) for number in range(300)
    ]
    assert apart == [PartitionSet(tuple(paths), pruning.check(small, Or([col("id") > n for n in range(40)])))]


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ((col("shard") == 7) | (col("id") > 5), {"7": True, "8": col("id") > 5}),
        (
            ((col("shard") == 7) & (col("id") > 5)) | ((col("shard") == 8) & (col("id") < 3)),
            {"7": col("id") > 5, "8": col("id") < 3, "9": False},
        ),
        (~((col("shard") == 7) | (col("id") > 5)), {"7": False, "8": col("id") <= 5}),
        ((col("shard") > 7) & (col("id") > 5) & (col("id") < 9), {"8": (col("id") > 5) & (col("id") < 9)}),
        (col("shard").is_null(), {"7": False, "__HIVE_DEFAULT_PARTITION__": True}),
    ],
)
def test_a_partition_leaves_the_residual_of_a_filter(wanted: Filter, left: dict[str, Filter | bool]) -> None:
    condition = pruning.check(TABLE_BY_SHARD, wanted)

    assert {
        shard: partition_pruning.residual(condition, TABLE_BY_SHARD, f"shard={shard}") for shard in left
    } == {
        shard: residual if isinstance(residual, bool) else pruning.check(TABLE_BY_SHARD, residual)
        for shard, residual in left.items()
    }


def test_a_null_an_empty_string_and_a_certain_other_share_a_partition() -> None:
    path = PARTITION.replace("a%2Fb", "__HIVE_DEFAULT_PARTITION__")
    country = col("country")

    assert kept_by_partition(country.is_null(), path)
    assert kept_by_partition(country == "", path)
    assert kept_by_partition(country.starts_with("__HIVE"), path)
    assert not kept_by_partition(country == "a/b", path)
    assert not kept_by_partition(col("shard").is_not_null(), path.replace("=7", "=__HIVE_DEFAULT_PARTITION__"))


@pytest.mark.parametrize(
    "wanted",
    [
        col("id") < 5,
        col("id") <= 4,
        col("id") > 9,
        col("id") >= 10,
        col("id") == 10,
        col("id").is_in([1, 2, 10]),
        col("id").is_null(),
        ~(col("id") >= 5),
        ~((col("id") > 4) | (col("name") == "x")),
        (col("id") == 7) & (col("id") == 10),
        (col("id") < 5) | (col("id") > 9),
        col("name") != "m",
        ~(col("name") == "m"),
        ~col("name").starts_with(""),
        ~col("name").is_in(["a", "m"]),
        col("name").starts_with("n"),
        col("name").starts_with("l"),
        col("name").starts_with("mm"),
        col("day").is_not_null(),
        ~col("day").is_null(),
        col("weight") > 2.0,
        col("weight").is_in([float("nan")]),
    ],
)
def test_a_file_whose_ranges_rule_the_filter_out_is_dropped(wanted: Filter) -> None:
    assert not kept_by_ranges(
        wanted,
        id=Range(5, 9, nulls=0),
        name=Range("m", "m", nulls=3),
        day=Range(nulls=10),
        weight=Range(-1.0, 2.0, nulls=0),
    )


@pytest.mark.parametrize(
    "wanted",
    [
        col("id") != 7,
        col("id") == 5,
        ~(col("id") == 5),
        col("name").is_null(),
        col("name").starts_with("a"),
        ~col("name").starts_with("a"),
        ~col("name").starts_with("ab"),
        col("name") > "b",
        col("open") == True,  # noqa: E712  # a column is compared
        col("open").is_null(),
        col("weight").is_in([float("nan")]),
        col("weight") >= 1e300,
    ],
)
def test_a_file_whose_ranges_leave_room_is_kept(wanted: Filter) -> None:
    assert kept_by_ranges(
        wanted, id=Range(5, 9, nulls=0), name=Range("ab", "b\uffff"), weight=Range(1.0, float("nan"), nulls=0)
    )


PARTITION: Final = (
    "country=a%2Fb/shard=7/month=2026-02-01/hour=1000000/minute=2026-02-01 12%3A00%3A00.5/rate=1.0/late=true"
)


@pytest.mark.parametrize(
    ("wanted", "could_match"),
    [
        (col("country") == "a/b", True),
        (col("country") == "a%2Fb", False),
        (col("country").starts_with("a/"), True),
        (col("country").is_null(), False),
        ((col("country") == "x") | (col("id") == 1), True),
        (col("shard") > 6, True),
        (~(col("shard") > 6), False),
        (Compare("hour", wire.ComparisonOperator.EQUAL, "1970-01-01T02:00:01+02:00"), True),
        (Compare("minute", wire.ComparisonOperator.LESS, "2026-02-01T12:00:00.500001"), True),
        (col("rate") == 1, True),
        (col("late") == False, False),  # noqa: E712
    ],
)
def test_a_partition_is_judged_by_its_path(wanted: Filter, could_match: bool) -> None:
    assert kept_by_partition(wanted, PARTITION) is could_match


@pytest.mark.parametrize(
    "folder",
    [
        "7",
        "shard",
        "shard=",
        "shard=seven",
        "shard=\u0667",
        "shard=1%",
        "shard=1%zz",
        "shard=99999999999999999999",
        "Shard=1",
        "bucket=1",
        "=1",
    ],
)
def test_a_partition_whose_path_has_no_value_is_kept(folder: str) -> None:
    assert kept_by_partition(col("shard") == 2, PARTITION.replace("shard=7", folder))


def test_a_partition_path_of_another_depth_is_kept() -> None:
    assert kept_by_partition(col("shard") == 2, "shard=7")


@pytest.mark.parametrize(
    ("wanted", "place", "why"),
    [
        (col("amount") > 1, "filter", "no column 'amount'; it has id, open, weight"),
        ((col("id") > 1) & (col("ID") > 1), "filter.filters[1]", "no column 'ID'"),
        (~(col("id") > "1"), "filter.filter.value", "'id' is of type bigint: '1' is not an integer"),
        (col("id") > 1.0, "filter.value", "1.0 is not an integer"),
        (col("id").is_in([1, True]), "filter.values[1]", "True is not an integer"),
        (col("id") > 10**38, "filter.value", "is not an integer"),
        (col("open") == 1, "filter.value", "1 is not true or false"),
        (col("weight") > "nan", "filter.value", "is not a number"),
        (col("price") > 1.5, "filter.value", 'is not an integer, or a string like "12.50"'),
        (col("price") > "1e5", "filter.value", "is not an integer, or a string"),
        (col("price") > "1" * 39, "filter.value", "is not an integer, or a string"),
        (col("price") > "1" * 20 + "." + "1" * 20, "filter.value", "38 digits"),
        (col("name") > 1, "filter.value", "1 is not a string"),
        (col("name") > "a\0", "filter.value", "U.0000"),
        (col("day") > "2026-02-30", "filter.value", 'is not a string like "2026-01-31"'),
        (col("day") > "20260228", "filter.value", "is not a string like"),
        (col("at") > "2026-02-28T12:00:00", "filter.value", "with an offset"),
        (col("at") > "2026-02-28T12:00:00.1234567Z", "filter.value", "is not a string like"),
        (col("at") > "2026-02-28T12:00:00+15:00", "filter.value", "is not a string like"),
        (col("at") > "0001-01-01T00:00:00+01:00", "filter.value", "is not a string like"),
        (col("local") > "2026-02-28T12:00:00Z", "filter.value", "without a zone"),
        (col("tags") == "a", "filter.value", "can only be tested with is_null"),
        (col("shard").starts_with("1"), "filter", "starts_with works only on string columns"),
    ],
)
def test_a_filter_that_does_not_fit_the_table_is_refused_with_its_place(
    wanted: Filter, place: str, why: str
) -> None:
    with pytest.raises(errors.InvalidFilter, match=why) as refused:
        pruning.check(TABLE, wanted)
    assert refused.value.context["place"] == place


def nested(depth: int) -> Filter:
    wanted: Filter = IsNull("id")
    for _ in range(depth - 1):
        wanted = Not(wanted)
    return wanted


def test_a_filter_nests_sixteen_deep_and_no_deeper() -> None:
    pruning.check(TABLE, nested(16))
    with pytest.raises(errors.InvalidFilter, match="deeper than 16"):
        pruning.check(TABLE, nested(17))


def test_equalities_of_one_column_are_one_test_of_many_values() -> None:
    ids = [col("id") == 1, col("id").is_in([2, 3]), col("id") == 4]
    together = [col("id").is_in([1, 2, 3, 4]), col("name") == "a", col("id") > 9]

    condition = pruning.check(TABLE, Or([ids[0], col("name") == "a", *ids[1:], col("id") > 9]))

    assert condition == pruning.check(TABLE, Or(together))
    assert condition != pruning.check(TABLE, Or(together[1:]))


def test_a_filter_has_at_most_a_thousand_parts() -> None:
    pruning.check(TABLE, And([IsNull("id")] * 999))
    with pytest.raises(errors.InvalidFilter, match="more than 1000"):
        pruning.check(TABLE, And([IsNull("id")] * 1_000))
    with pytest.raises(errors.InvalidFilter, match="including the values of in"):
        pruning.check(TABLE, And([col("id").is_in(range(500)), col("id").is_in(range(500))]))


@given(records.filters())
def test_a_filter_survives_a_round_trip_through_json(wanted: Filter) -> None:
    assert msgspec.json.decode(msgspec.json.encode(wanted), type=Filter) == wanted


@pytest.mark.parametrize(
    "body",
    [
        {"type": "and", "filters": []},
        {"type": "in", "column": "id", "values": []},
        {"type": "in", "column": "id", "values": [1] * 1_001},
        {"type": "in", "column": "id", "values": [None]},
        {"type": "compare", "column": "id", "operator": "=", "value": None},
        {"type": "compare", "column": "id", "operator": "<>", "value": 1},
        {"type": "compare", "column": "name", "operator": "=", "value": "x" * 4_097},
        {"type": "is_null", "column": "id", "value": 1},
        {"type": "nearly", "column": "id"},
        {"column": "id"},
    ],
)
def test_a_filter_of_another_form_is_refused(body: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, Filter)


def test_a_filter_has_no_truth_that_python_could_take_for_its_own() -> None:
    with pytest.raises(TypeError, match="combine filters with"):
        bool(col("id") > 1)
    with pytest.raises(TypeError):
        1 < col("id") < 5  # noqa: B015
    with pytest.raises(TypeError, match="is_null"):
        col("id") == None  # noqa: B015, E711
    assert StartsWith("name", "a") == col("name").starts_with("a")
