"""Which values are keys of a lookup."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal

import pytest

from chronolake_spark import errors
from chronolake_spark.index import lookups
from tests.spark.definitions import definition

AT = datetime.datetime.fromisoformat("2026-01-31T10:00:00")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("bigint", 1.5),
        ("bigint", Decimal("1.5")),
        ("bigint", True),
        ("tinyint", 300),
        ("decimal(5,2)", 1.5),
        ("date", 1),
        ("date", AT),
        ("timestamp", AT.date()),
        ("timestamp_ntz", AT.replace(tzinfo=datetime.UTC)),
        ("string", "\ud800"),
        ("string", 5),
    ],
)
def test_a_value_that_is_no_key_is_refused(type_: str, value: object) -> None:
    with pytest.raises(errors.SchemaMismatch, match="a value of id"):
        lookups.wanted_keys(definition({"id": type_}), [value])


def test_values_of_each_type_are_keys() -> None:
    values = {
        "bigint": 1,
        "decimal(5,2)": 2,
        "date": AT.date(),
        "timestamp": AT.replace(tzinfo=datetime.UTC),
        "timestamp_ntz": AT,
        "string": "x",
        "boolean": True,
    }
    for type_, value in values.items():
        assert len(lookups.wanted_keys(definition({"id": type_}), [value]).tags) == 1
    # A time before the first of Python is a key, but no filter.
    before = datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    assert lookups.wanted_keys(definition({"id": "timestamp"}), [before]).filter is None


def test_a_time_without_a_zone_is_local_as_in_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        given = lookups.wanted_keys(definition({"id": "timestamp"}), [AT]).tags
        same = AT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
        assert given == lookups.wanted_keys(definition({"id": "timestamp"}), [same]).tags
    finally:
        monkeypatch.undo()
        time.tzset()
