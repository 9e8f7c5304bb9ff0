"""Times are stored to the microsecond, however far they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from chronolake_model.times import MICROS_MAX

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
