"""Values come back from PostgreSQL unchanged: binary arrays of any elements, and times however far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model.times import MICROS_MAX
from tests.examples import examples

_BELOW_2_TO_THE_63 = 2**63 - 1
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_COLUMNS = st.one_of(
    st.tuples(st.just("smallint"), st.lists(st.none() | st.integers(-(2**15), 2**15 - 1))),
    st.tuples(st.just("integer"), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))),
    st.tuples(st.just("bigint"), st.lists(st.none() | st.integers(-(2**63), _BELOW_2_TO_THE_63))),
    st.tuples(st.just("boolean"), st.lists(st.none() | st.booleans())),
    st.tuples(st.just("text"), st.lists(st.none() | _TEXTS)),
    st.tuples(st.just("bytea"), st.lists(st.none() | st.binary())),
    st.tuples(st.just("uuid"), st.lists(st.none() | st.uuids())),
)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(column=_COLUMNS)
def test_a_column_survives_a_round_trip(dsn: str, column: tuple[str, Sequence[object]]) -> None:
    type_name, values = column
    assert asyncio.run(_sent_and_read_back(dsn, type_name, values)) == values


@pytest.mark.parametrize("values", [[], [None, None]])
def test_a_column_without_values_has_the_type_that_its_sql_names(dsn: str, values: list[object]) -> None:
    assert asyncio.run(_sent_and_read_back(dsn, "uuid", values)) == values


async def _sent_and_read_back(dsn: str, type_name: str, values: Sequence[object]) -> list[object]:
    database = Database(Settings(dsn=dsn))
    session = Session(database)
    try:
        async with session.begin() as tx:
            rows = await tx.query(
                f"SELECT unnest(%(sent)s::{type_name}[])",
                {"sent": values},
            )
        return [row[0] for row in rows]
    finally:
        await session.close()
        await database.close()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_1 = -62_135_596_800_000_000
TIMES = st.lists(st.integers(YEAR_1, MICROS_MAX), min_size=1, max_size=100)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
@given(times=TIMES)
@example(times=[YEAR_1, -1, 0, 1, 2**53, 2**53 + 1, MICROS_MAX - 1, MICROS_MAX])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_moment_is_that_of_its_microseconds(dsn: str, zone: str, times: list[int]) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT set_config('TimeZone', %s, true)", [zone])
        rows = connection.execute(
            "SELECT chronolake.micros(moment), (moment AT TIME ZONE 'UTC')::text"
            " FROM unnest(%s::bigint[]) AS given (us), chronolake.moment(us) AS moment",
            [times],
        ).fetchall()
    assert [us for us, _ in rows] == times
    expected = [(EPOCH + timedelta(microseconds=us)).replace(tzinfo=None) for us in times]
    assert [datetime.fromisoformat(text) for _, text in rows] == expected
