"""A text has one meaning: ``read(filter=…)``, ``read().where(…)`` and ``delete(…)`` select the same rows.

Or one of them refuses the text.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.errors import ChronolakeError
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import conditional_deletes
from tests.spark.python_only import python_only
from tests.spark.test_session_settings import under

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
Ids = list[int]
_ROWS: Final = r"""
    (0L, 'a\\b', 'x', 1, 9007199254740992L, '0.1', '0.1', '0.1', 1.50, '2024-01-01', '2024-01-01 05:00:00',
        true),
    (1L, 'a\tb', 'y', 10, 9007199254740993L, '0.5', '0.5', '0.10000000000000000001', 10, '2023-12-31',
        '2024-01-01 00:00:00', false),
    (2L, 'it\'s', 'a.b', 16777217, 10L, '16777216', 'NaN', '10', 0.10, '1500-01-01', '1500-01-01 00:00:00',
        true),
    (3L, 'a\\\\b', '', -1, 1L, 'Infinity', '-0.0', '100000', 100, '2024-01-02', '2023-12-31 20:00:00', null),
    (4L, null, null, null, null, null, null, null, null, null, null, false),
    (5L, 'odd', 'odd', 0, 0L, 'NaN', '16777217', '0', 0, '9999-12-31', '2024-01-01 03:00:00', true),
    (6L, 'a', 'a%', 2, 2L, '1', '1', '1', 1, '1970-01-01', '1970-01-01 00:00:00', false)
"""
_SELECT: Final = f"""
    SELECT id, s, odd AS `o"dd`, n, b, float(f) f, double(d) d, cast(p AS decimal(38,20)) p,
        cast(q AS decimal(10,2)) q, date(day) day, cast(concat(at, 'Z') AS timestamp_ltz) at,
        cast(at AS timestamp_ntz) local, ok
    FROM VALUES {_ROWS} AS t(id, s, odd, n, b, f, d, p, q, day, at, ok)
"""
_NUMBERS: Final = (
    *(
        "0",
        "1",
        "10",
        "1.0",
        "1.5",
        "1.50",
        "0.1",
        "0.10000000000000000001",
        "1e0",
        "1e1",
        "1e-1",
        "1e20",
        "-0.0",
    ),
    *("-1", "16777217", "9007199254740993", "9007199254740993.0", "9007199254740993e0", "'1'", "'0.1'"),
)
_TIMES: Final = (
    "'2024-01-01'",
    "'2024-01-01 05:00:00'",
    "'2024-01-01T05:00:00'",
    "'2024-01-01T05:00:00Z'",
    "'2024-01-01T05:00:00+02:00'",
    "'1500-01-01T00:00:00Z'",
    "'1500-01-01'",
    "date'2024-01-01'",
)
_TEXTS: Final = st.one_of(
    st.sampled_from(
        [r"'a\\b'", r"'a\b'", r"'a\tb'", "'it''s'", r"'it\'s'", "'a%'", "'odd'", "'${spark.app.name}'"]
    ),
    st.text("ab\\'\"tn%_", max_size=4).map(lambda text: f"'{text}'"),
)
_LITERALS: Final[Mapping[str, st.SearchStrategy[str]]] = {
    **dict.fromkeys(("s", '"o""dd"', '`o"dd`'), _TEXTS),
    **dict.fromkeys(("n", "b", "p", "q"), st.sampled_from(_NUMBERS)),
    **dict.fromkeys(("f", "d"), st.sampled_from([*_NUMBERS, "'NaN'", "'Infinity'"])),
    **dict.fromkeys(("day", "at", "local"), st.sampled_from(_TIMES)),
    "ok": st.sampled_from(["true", "false", "'true'", "1"]),
}
_SESSIONS: Final[Sequence[dict[str, str]]] = (
    {},
    {"spark.sql.session.timeZone": "America/New_York"},
    {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"},
    {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
    {"spark.sql.legacy.consecutiveStringLiterals.enabled": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
)


def _tests(column: str) -> st.SearchStrategy[str]:
    literal = _LITERALS[column]
    compared = st.tuples(st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]), literal).map(" ".join)
    several = st.lists(literal, min_size=1, max_size=3).map(lambda values: f"in ({', '.join(values)})")
    others = st.sampled_from(["is null", "is not null", "= null", "like 'a%'", "starts with 'a'"])
    test = st.one_of(compared, compared, several, several.map(lambda values: f"not {values}"), others)
    return test.map(lambda text: f"{column} {text}")


def texts() -> st.SearchStrategy[str]:
    """Conditions as people type them: filters, SQL, and what is neither."""
    part = st.sampled_from(sorted(_LITERALS)).flatmap(_tests)
    return st.recursive(
        part,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join), inner.map("not ({})".format)
        ),
        max_leaves=3,
    )


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Records, of which a filter's literals tell some from others."""
    return spark.sql(_SELECT)


@pytest.fixture(scope="module")
def table(new_table: NewTable, rows: DataFrame) -> SparkTable:
    """A table with several files, so that a filter prunes some."""
    made = new_table(rows, "id", buckets=4)
    made.insert(rows)
    return made


def _read(table: SparkTable, text: str) -> DataFrame | None:
    try:
        return table.read(filter=text)
    except (ValueError, ChronolakeError):
        return None


def _where(rows: DataFrame, text: str) -> DataFrame | None:
    try:
        return rows.where(text)
    except PySparkException:
        return None


def _deleted(spark: SparkSession, table: SparkTable, text: str) -> DataFrame | None:
    """The keys that ``delete`` would delete."""
    try:
        keys = conditional_deletes.keys_where(spark, table.metastore, text)
    except errors.SchemaMismatch:
        return None
    assert callable(keys)
    as_of = table.metastore.snapshot().as_of
    assert as_of is not None
    return keys(as_of)


def _ids(frames: Mapping[Any, DataFrame | None]) -> dict[Any, Ids | str | None]:
    """The ids of each frame, None for none; what fails when it is evaluated has the failure."""
    given = {key: frame.select("id") for key, frame in frames.items() if frame is not None}
    numbered = dict(enumerate(given))
    selected: defaultdict[Any, list[int]] = defaultdict(list)
    try:
        tagged = [given[key].select("id", sf.lit(number).alias("number")) for number, key in numbered.items()]
        for row in functools.reduce(DataFrame.union, tagged).collect():
            selected[numbered[row.number]].append(row.id)
    except PySparkException:
        if len(given) == 1:
            return {key: "fails" for key in frames}
        return {key: _ids({key: frame})[key] for key, frame in frames.items() if frame is not None}
    return {key: sorted(selected[key]) if frame is not None else None for key, frame in frames.items()}


def check(spark: SparkSession, table: SparkTable, wanted: Sequence[str]) -> None:
    """Compare what the three select by each text."""
    stored = table.read()
    ways: dict[str, Callable[[str], DataFrame | None]] = {
        "read": lambda text: _read(table, text),
        "where": lambda text: _where(stored, text),
        "delete": lambda text: _deleted(spark, table, text),
    }
    ids = _ids({(text, way): frame_of(text) for text in wanted for way, frame_of in ways.items()})
    by_text = {text: {way: ids.get((text, way)) for way in ways} for text in wanted}
    # A text that only one takes has one meaning. To delete is never to do something else than where.
    differing = {
        text: got
        for text, got in by_text.items()
        if got["delete"] != got["where"]
        or (None not in (got["read"], got["where"]) and got["read"] != got["where"])
    }
    assert differing == {}


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=st.lists(texts(), min_size=15, max_size=15, unique=True), session=st.sampled_from(_SESSIONS))
def test_a_text_selects_the_same_rows_in_filters_where_and_deletes(
    spark: SparkSession, table: SparkTable, wanted: list[str], session: dict[str, str]
) -> None:
    with under(spark, session):
        check(spark, table, wanted)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=st.lists(texts(), min_size=30, max_size=30, unique=True), session=st.sampled_from(_SESSIONS))
def test_many_texts_select_the_same_rows(
    spark: SparkSession, table: SparkTable, wanted: list[str], session: dict[str, str]
) -> None:
    with under(spark, session):
        check(spark, table, wanted)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"s = 'a\\b'", "a backslash within a text escapes"),
        (r"s <> 'a\\b'", "a backslash"),
        (r"s not in ('a\tb')", "a backslash"),
        ('"o""dd" = \'odd\'', "write the name of a column in backquotes"),
        ("s = '${spark.app.name}'", "by a variable"),
        ("p = '0.1'", "compares these values in another type"),
    ],
)
def test_a_text_with_another_meaning_in_sql_is_no_filter(
    table: SparkTable, spark: SparkSession, text: str, reason: str
) -> None:
    for read in (table.read, functools.partial(table.changes, "earliest"), table.explain):
        with pytest.raises(errors.AmbiguousFilter, match=reason):
            read(filter=text)
    check(spark, table, [text])


def test_a_text_of_both_languages_is_a_filter(table: SparkTable) -> None:
    both = [
        "s = 'it''s'",
        "`o\"dd` = 'odd'",
        "f = 0.1",
        "q >= 1.50",
        "q < 10",
        "day < '2024-01-01'",
        "d = 'NaN'",
    ]
    kept = [
        "at >= '2024-01-01T03:00:00Z'",
        "n in (1, 2) and not ok = true or b is not null",
        "s starts with 'a'",
    ]

    for text in [*both, *kept]:
        table.read(filter=text)


def test_a_source_without_a_session_refuses_such_a_text(
    spark: SparkSession, table: SparkTable, client: chronolake.Client
) -> None:
    reader = spark.read.format("chronolake").option("filter", r"s = 'a\b'")

    with python_only(spark):
        rows = reader.options(table=table.name, url=client.url).load()

    with pytest.raises(PySparkException, match="means other rows in Spark's SQL"):
        rows.collect()


@pytest.mark.parametrize(
    ("text", "left"),
    [(r"s = 'a\\b'", [1]), (r"s <> 'a\\b'", [0]), (r"s not in ('a\\b')", [0]), (r"s = 'a\b'", [0, 1])],
)
def test_a_delete_deletes_what_where_finds(
    spark: SparkSession, new_table: NewTable, text: str, left: list[int]
) -> None:
    rows = spark.createDataFrame([(0, "a\\b"), (1, "a\\\\b")], "id long, s string")
    table = new_table(rows, "id", buckets=2)
    table.insert(rows)

    table.delete(text)

    assert sorted(row.id for row in table.read().collect()) == left
