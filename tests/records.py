"""A table of every type, its records, the files that hold them, and filters: the inputs of the pruning tests.

The reader here is the naive one: it evaluates a filter on each record, as SQL does.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st

from chronolake_metastore.domain import tables
from chronolake_metastore.domain.column_stats import Range
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.pruning import Stats
from chronolake_model.filters import And, Compare, ComparisonOperator, Filter, In, IsNull, Not, Or, StartsWith
from chronolake_model.tables import NewField
from chronolake_model.times import Micros

Record = Mapping[str, Any]

TYPES: Final = {
    "id": "bigint",
    "open": "boolean",
    "weight": "double",
    "price": "decimal(10, 2)",
    "name": "string",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "tags": "array<string>",
    "country": "string",
    "shard": "int",
    "month": "date",
    "hour": "timestamp",
    "minute": "timestamp_ntz",
    "rate": "decimal(4,1)",
    "late": "boolean",
}
FIELD_IDS: Final = {name: field_id for field_id, name in enumerate(TYPES, start=1)}
PARTITIONS: Final = ("country", "shard", "month", "hour", "minute", "rate", "late")
TABLE: Final = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders",
            base_path="/lake",
            schema=[NewField(name, type_) for name, type_ in TYPES.items()],
            record_key_fields=["id"],
            partition_fields=list(PARTITIONS),
        )
    ),
    UUID(int=7),
    Micros(0),
)
_STRINGS: Final = ("", "a", "ab", "aé", "b", "b\uffff", "b\U00010000", "%41", "x/y=z")
_DATES: Final = (date(1, 1, 1), date(1969, 12, 31), date(2026, 2, 28), date(9999, 12, 31))
_INTEGERS: Final = (-(2**63), -1, 0, 1, 2, 2**53 + 1)
_DECIMALS: Final = tuple(map(Decimal, ("-1.50", "0.00", "1.00", "2.5", "100.0")))
_TIMES: Final = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 2, 28, 12, tzinfo=UTC),
    datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=UTC),
)
_LOCAL_TIMES: Final = tuple(time.replace(tzinfo=None) for time in _TIMES)
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "id": _INTEGERS,
    "open": (False, True),
    "weight": (-math.inf, -1.5, -0.0, 0.0, 0.1, 2.0, math.inf, math.nan),
    "price": _DECIMALS,
    "name": _STRINGS,
    "day": _DATES,
    "at": _TIMES,
    "local": _LOCAL_TIMES,
    "tags": (["a"], []),
    "country": (*_STRINGS, "__HIVE_DEFAULT_PARTITION__"),
    "shard": (-1, 0, 1, 7),
    "month": _DATES,
    "hour": _TIMES,
    "minute": _LOCAL_TIMES,
    "rate": _DECIMALS,
    "late": (False, True),
}
_SPECIAL: Final = "".join(map(chr, range(32))) + "\x7f\"#%'*/:=?\\{}[]^"


def records() -> st.SearchStrategy[Record]:
    """Records of any values, nulls among them."""
    return st.integers(0, 2**32).map(lambda seed: record(random.Random(seed)))


def record(chance: random.Random) -> Record:
    """A record of any values."""
    return {name: chance.choice((None, *VALUES[name])) for name in TYPES}


@functools.cache
def filters(columns: Sequence[str] = tuple(TYPES)) -> st.SearchStrategy[Filter]:
    """Filters on some of the columns, three or four deep."""
    return st.recursive(st.sampled_from(columns).flatmap(_leaves), _combined, max_leaves=4)


@functools.cache
def _leaves(column: str) -> st.SearchStrategy[Filter]:
    nulls = st.just(IsNull(column))
    if column == "tags":
        return nulls
    value = st.sampled_from(VALUES[column]).map(literal)
    operator = st.sampled_from(ComparisonOperator)
    kinds: list[st.SearchStrategy[Filter]] = [
        nulls,
        st.builds(Compare, st.just(column), operator, value),
        st.builds(In, st.just(column), st.lists(value, min_size=1, max_size=3)),
    ]
    if TYPES[column] == "string":
        kinds.append(st.builds(StartsWith, st.just(column), value))
    return st.one_of(kinds)


def _combined(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


def literal(value: Any) -> Any:
    """The value as a request writes it."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return str(value)
        case datetime() if value.tzinfo is not None:
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            return value


# ---------------------------------------------------------------------------------- the naive reader


def matches(wanted: Filter, record: Record) -> bool:
    """Whether SQL would select the record."""
    return _truth(wanted, record) is True


def _truth(wanted: Filter, record: Record) -> bool | None:  # noqa: PLR0911  # a case for each filter
    match wanted:
        case And():
            return _all([_truth(part, record) for part in wanted.filters])
        case Or():
            return _negated(_all([_negated(_truth(part, record)) for part in wanted.filters]))
        case Not():
            return _negated(_truth(wanted.filter, record))
        case IsNull():
            return record[wanted.column] is None
        case _ if record[wanted.column] is None:
            return None
        case StartsWith():
            return bool(record[wanted.column].encode().startswith(wanted.prefix.encode()))
        case In():
            value = _sortable(literal(record[wanted.column]), wanted.column)
            return any(value == _sortable(item, wanted.column) for item in wanted.values)
        case Compare():
            value = _sortable(literal(record[wanted.column]), wanted.column)
            return _compared(value, wanted.operator, _sortable(wanted.value, wanted.column))


def _all(truths: Sequence[bool | None]) -> bool | None:
    if False in truths:
        return False
    return None if None in truths else True


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _compared(value: Any, operator: ComparisonOperator, other: Any) -> bool:
    sign = int(value > other) - int(value < other)
    return {"=": sign == 0, "!=": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[
        operator
    ]


def _sortable(written: Any, column: str) -> Any:
    """A literal as something that sorts as Spark sorts the column."""
    match TYPES[column]:
        case "double":
            return (written == "NaN", 0.0 if written == "NaN" else float(written))
        case "string":
            return written.encode()
        case type_ if type_.startswith("decimal"):
            return Decimal(written)
        case "timestamp" | "timestamp_ntz":
            return (written.rstrip("Z") + ".")[:19] + (written.rstrip("Z")[20:] or "0").ljust(6, "0")
        case _:
            return written


# ---------------------------------------------------------------------------------- files


def partition_path(record: Record) -> str:
    """The partition that Spark would write the record to."""
    return "/".join(f"{name}={_folder(record[name])}" for name in PARTITIONS)


def _folder(value: Any) -> str:
    match value:
        case None | "":
            return "__HIVE_DEFAULT_PARTITION__"
        case bool():
            text = str(value).lower()
        case datetime() if value.tzinfo is not None:
            text = str((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
        case datetime():
            text = value.isoformat(" ")
        case _:
            text = str(value)
    return "".join(f"%{ord(char):02X}" if char in _SPECIAL else char for char in text)


def stats(rows: Sequence[Record]) -> Stats:
    """The exact stats of a file with these records."""
    return Stats(len(rows), {FIELD_IDS[name]: _range([row[name] for row in rows], name) for name in TYPES})


def _range(values: Sequence[Any], column: str) -> Range:
    there = [value for value in values if value is not None]
    nulls = len(values) - len(there)
    if not there or column == "tags":
        return Range(nulls=nulls)
    ordered = sorted(there, key=lambda value: _sortable(literal(value), column))
    return Range(ordered[0], ordered[-1], nulls)


def vaguer(known: Stats) -> st.SearchStrategy[Stats]:
    """The same stats with some left out."""
    return st.integers(0, 2**32).map(lambda seed: vague(known, random.Random(seed)))


def vague(known: Stats, chance: random.Random) -> Stats:
    """The same stats with bounds moved outwards, and any optional part left out."""
    ranges = {}
    for field_id, exact in known.ranges.items():
        least, greatest = exact.least, exact.greatest
        if isinstance(least, str) and isinstance(greatest, str):
            least, greatest = chance.choice([(least, greatest), (least[:1], greatest + "a")])
        if chance.random() < 0.9:
            ranges[field_id] = Range(
                chance.choice([least, least, least, None]),
                chance.choice([greatest, greatest, greatest, None]),
                chance.choice([exact.nulls, exact.nulls, None]),
            )
    return Stats(known.records, ranges)


def merged(rows: Sequence[Record]) -> st.SearchStrategy[Record]:
    """A record with each value from one of the rows."""
    return st.integers(0, 2**32).map(lambda seed: _merged(rows, random.Random(seed)))


def _merged(rows: Sequence[Record], chance: random.Random) -> Record:
    return {name: chance.choice(rows)[name] for name in TYPES}
