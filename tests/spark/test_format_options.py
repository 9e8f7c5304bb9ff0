"""The options of ``format("chronolake")``, without Spark."""

from __future__ import annotations

import pytest

from chronolake_model.cuts import Cut, TableAtCut
from chronolake_model.times import Tick
from chronolake_spark import errors
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import QueryView, Use, WriteOperation


def test_options_of_any_case_are_read():
    options = format_options.parse(
        {
            "Table": "shop.orders",
            "As_Of": "2026-01-31T12:00:00Z",
            "meta_columns": "TRUE",
            "storage_secrets": '{"secret_key": "s"}',
            "row_order": "ts, `n`",
        }
    )
    assert (options.table, options.as_of) == ("shop.orders", "20260131120000000")
    assert (options.meta_columns, options.storage_options) == (True, {"secret_key": "s"})
    assert (options.row_order, options.view, options.operation) == (
        ("ts", "`n`"),
        QueryView.SNAPSHOT,
        WriteOperation.UPSERT,
    )
    assert format_options.parse({"path": "a.b", "from": "earliest"}).view is QueryView.CHANGES


def test_a_cut_is_a_time():
    state = TableAtCut("shop.orders", "id", 3, "20260131120000000", 1, Tick.MILLISECOND)
    cut = Cut("WyIwIiwwXQ", caught_up=True, tables=[state])
    options = format_options.parse({"table": "shop.orders", "as_of": cut.to_json()})
    assert options.as_of == cut


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"asof": "latest"}, r"no option 'asof'; did you mean 'as_of'\?"),
        ({"qwertz": "1"}, r"no option 'qwertz'\. Its options are after, as_of, "),
        (
            {"operation": "upsrt"},
            "one of upsert, insert, bulk_insert, delete, not 'upsrt'; did you mean 'upsert'",
        ),
        ({"view": "read_optimised"}, "did you mean 'read_optimized'"),
        ({"view": "snapshot", "from": "earliest"}, "for the view changes, not for snapshot"),
        ({"as_of": "latest", "to": "latest"}, "give one or the other"),
        ({"as_of": "yesterday"}, "the option as_of: 'yesterday' is no time: give 17 or 20 digits"),
        ({"as_of": "{}"}, "the option as_of: this is not the JSON of a cut"),
        ({"meta_columns": "yes"}, "true or false, not 'yes'"),
        ({"pending_max": "-1"}, "a whole number, 0 or more, not '-1'"),
        ({"duplicates": "drop"}, "for the operation insert"),
        ({"storage_secrets": "top-secret"}, "not a JSON object of texts"),
        ({"table": "orders"}, "give namespace.table"),
        ({"table": "/data/shop.orders"}, "give namespace.table"),
        ({"path": "shop.items"}, "two tables are given"),
        ({"provider": "chronolake"}, "CREATE TABLE … USING chronolake makes a table only in a catalog"),
    ],
)
def test_wrong_options_are_refused_with_advice(given: dict[str, str], message: str):
    with pytest.raises(errors.InvalidOption, match=message) as refused:
        format_options.parse({"table": "shop.orders"} | given)
    assert "top-secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_missing_table_is_refused_with_advice():
    with pytest.raises(errors.InvalidOption, match="no table is given"):
        format_options.parse({})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("versionAsOf", "use as_of, with a completion time."),
        ("timestampAsOf", "use as_of."),
        ("startingVersion", "use from, with a completion time."),
        ("startingTimestamp", "use from."),
        ("maxFilesPerTrigger", "use max_files."),
        ("mergeSchema", "use merge_schema."),
        ("replaceWhere", r'use .mode\("overwrite"\) with the option partitions set to dynamic'),
        ("hoodie.datasource.write.operation", "use operation."),
    ],
)
def test_an_option_of_another_format_is_refused_with_the_option_of_this_one(name: str, advice: str) -> None:
    with pytest.raises(errors.InvalidOption, match=f"no option '{name.lower()}': .*{advice}"):
        format_options.parse({"table": "shop.orders", name: "1"})


@pytest.mark.parametrize(
    ("use", "listed", "left_out"),
    [
        (Use.READ, "as_of", "operation"),
        (Use.READ_STREAM, "max_files", "as_of"),
        (Use.WRITE, "operation", "pending_max"),
        (Use.WRITE_STREAM, "pending_max", "max_files"),
    ],
)
def test_an_unknown_option_is_refused_with_the_options_of_its_use(use: Use, listed: str, left_out: str) -> None:
    with pytest.raises(errors.InvalidOption, match=rf"\b{listed}\b") as refused:
        format_options.parse({"table": "shop.orders", "qwertz": "1"}, use)
    assert left_out not in str(refused.value)
