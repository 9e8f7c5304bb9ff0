from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import msgspec
import pytest

import chronolake
from chronolake import ColumnStats, Filter, calls, col, errors
from chronolake._filters import Value
from chronolake.cli import output
from chronolake_model.filters import Compare, ComparisonOperator, In, IsNull, Not, StartsWith
from chronolake_model.scans import Scan
from tests.client.conftest import Cli
from tests.client.test_writes import stat_of


@pytest.fixture
def ranges(table: chronolake.Table) -> chronolake.Table:
    """A table with a file in bucket 0 of ids below 10, and one in bucket 1 of others."""
    with table.begin() as write:
        for bucket, (least, greatest) in enumerate([(0, 9), (10, 19)]):
            known = [ColumnStats(1, least, greatest, 0)]
            write.add(msgspec.structs.replace(stat_of(write, bucket), column_stats=known))
    return table


@pytest.mark.parametrize(
    ("wanted", "buckets"),
    [
        (col("id") < 10, [0]),
        (col("id").is_in([3, 13]), [0, 1]),
        (~(col("id") < 10) & (col("id") != 99), [1]),
        ((col("id") == 100) | col("id").is_null(), []),
    ],
)
def test_a_scan_leaves_out_files_that_cannot_match(
    ranges: chronolake.Table, wanted: Filter, buckets: list[int]
) -> None:
    assert [int(file_slice.file_id[:8]) for file_slice in ranges.scan(wanted).slices] == buckets


def test_a_scan_is_as_of_a_time_and_of_some_partitions(ranges: chronolake.Table) -> None:
    [written] = ranges.instants()

    assert len(ranges.scan(col("id") < 10, as_of=written.completion_time, partition_paths=[""]).slices) == 1
    assert ranges.scan(col("id") < 10, as_of=written.requested_time).slices == []
    assert ranges.scan(col("id") < 10, partition_paths=["elsewhere"]).slices == []


def test_an_invalid_filter_is_reported_with_its_position(table: chronolake.Table) -> None:
    with pytest.raises(errors.InvalidFilter, match="no column 'amount'") as refused:
        table.scan((col("id") > 1) & (col("amount") > 1))
    assert refused.value.context["place"] == "filter.filters[1]"


def test_the_cursor_of_the_next_page_is_sent_in_the_body() -> None:
    call = calls.files.scan("shop.orders", None, ["a"], col("id") > 1)
    following = call.page_at("next").page_at("last")

    first, last = (msgspec.json.decode(request.body or b"", type=Scan) for request in (call, following))

    assert last == msgspec.structs.replace(first, cursor="last")
    assert not call.is_command


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (1, 1),
        (True, True),
        (1.5, 1.5),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        ("x", "x"),
        (Decimal("1E+2"), "100"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00Z"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:00:00Z"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None), "2026-01-02T03:00:00"),
    ],
)
def test_values_of_python_become_literals(value: Value, literal: object) -> None:
    assert [col("c") == value, col("c").is_in([value])] == [
        Compare("c", ComparisonOperator.EQUAL, literal),  # type: ignore[arg-type]
        In("c", [literal]),  # type: ignore[list-item]
    ]


def test_conditions_are_built_from_operators_and_methods_of_a_column() -> None:
    column = col("c")

    assert column.is_not_null() == Not(IsNull("c"))
    assert column.starts_with("x") == StartsWith("c", "x")
    assert (column != 1) == Compare("c", ComparisonOperator.NOT_EQUAL, 1)
    assert (column <= 1) == Compare("c", ComparisonOperator.LESS_OR_EQUAL, 1)
    assert (column >= 1) == Compare("c", ComparisonOperator.GREATER_OR_EQUAL, 1)


@pytest.mark.parametrize("command", ["files", "snapshot"])
@pytest.mark.parametrize(
    "where",
    [
        "id >= 10 and id not in (99)",
        '{"type": "compare", "column": "id", "operator": ">=", "value": 10}',
    ],
)
def test_files_are_listed_that_could_hold_a_record_like_this(
    cli: Cli, ranges: chronolake.Table, command: str, where: str
) -> None:
    document = cli(command, ranges.name, "--where", where, "--json").json
    shown = cli(command, ranges.name, "--where", where)
    elsewhere = cli(command, ranges.name, "--where", where, "--partition", "x", "--json").json

    assert [int(file_slice["file_id"][:8]) for file_slice in document["slices"]] == [1]
    assert "1 file slice that could match id >= 10" in shown.out
    assert elsewhere["slices"] == []


def test_a_filter_at_the_terminal_is_as_of_a_time(cli: Cli, ranges: chronolake.Table) -> None:
    [written] = ranges.instants()

    then = cli("files", ranges.name, "--where", "id < 10", "--as-of", written.requested_time)

    assert f"nothing had completed as of {written.requested_time}" in then.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--where", "id >= "], "at character 7: expected a value"),
        (["--where", '{"type": "nearly"}'], "Invalid value 'nearly'"),
        (["--where", '{"type": "not", "filter":' * 100_000], "--where"),
        (["--where", "id > 1", "--view", "latest"], "only with the merged view"),
    ],
)
def test_a_filter_that_is_none_is_wrong_usage(
    cli: Cli, ranges: chronolake.Table, arguments: list[str], why: str
) -> None:
    ran = cli("files", ranges.name, *arguments)

    assert ran.code == output.USAGE
    assert why in " ".join(ran.err.replace("│", " ").split())


def test_a_filter_that_does_not_fit_the_table_is_refused_by_the_server(
    cli: Cli, ranges: chronolake.Table
) -> None:
    ran = cli("files", ranges.name, "--where", "id > 1 and amount > 1")

    assert ran.code != 0
    assert "filter.filters[1]" in ran.err
    assert "no column 'amount'" in ran.err
