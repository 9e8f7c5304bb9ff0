"""The steady clock: whatever the wall clock does, durations are right within a bound.

Several servers watch it, each with delays of its own; they start, freeze and stop, and the wall clock jumps.
"""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings, strategies as st

from chronolake_metastore.domain.steady_clock import (
    AHEAD_MAX_US,
    TOLERANCE_US,
    WATCH_SECONDS_MAX,
    Reading,
    Sample,
    observe,
)
from chronolake_model.times import MICROS_PER_SECOND, Micros
from tests.examples import examples

START: Final = 1_800_000_000 * MICROS_PER_SECOND
DAY: Final = 86_400.0
INTERVAL: Final = 1.0
DELAY_MAX: Final = 0.2

_DELAYS: Final = st.floats(0.0, DELAY_MAX / 2)
_JUMPS: Final = st.sampled_from([0.0, 0.0, 0.0, 0.4, -0.4, 2.5, -2.5, 3_600.0, -3_600.0, DAY, -DAY])
_SERVERS: Final = 3
_STEPS: Final = st.lists(
    st.tuples(st.integers(0, _SERVERS - 1), _DELAYS, _DELAYS, _JUMPS, st.booleans()), min_size=1, max_size=60
)


class Database:
    """The row of the steady clock, and a wall clock that can be set; ``passed`` is the true time."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wall_ahead = 0.0
        self.last_time, self.wall_offset = Micros(START), 0

    def reading(self) -> Reading:
        wall = START + round((self.passed + self.wall_ahead) * MICROS_PER_SECOND)
        return Reading(Micros(wall), self.last_time, self.wall_offset)

    def steady(self) -> float:
        """The value of ``steady_us()``, in seconds since the start."""
        reading = self.reading()
        ahead = reading.wall - reading.wall_offset - reading.last_time
        return (reading.last_time + min(max(ahead, 0), AHEAD_MAX_US) - START) / MICROS_PER_SECOND


class Server:
    """A server that watches. Its monotonic clock began at another time than those of others."""

    def __init__(self, database: Database, number: int) -> None:
        self._database, self._began = database, 1_000.0 * number
        self.last: Sample | None = None

    def look(self, delay_there: float, delay_back: float) -> None:
        database = self._database
        sent = self._began + database.passed
        database.passed += delay_there
        reading = database.reading()
        database.passed += delay_back
        sample, record = observe(self.last, reading, sent, self._began + database.passed)
        if record is not None:
            database.last_time, database.wall_offset = record.last_time, record.wall_offset
        self.last = sample


@settings(max_examples=examples(200))
@given(steps=_STEPS)
def test_each_jump_changes_a_duration_by_a_bound_of_seconds_and_not_by_its_length(
    steps: list[tuple[int, float, float, float, bool]],
) -> None:
    database = Database()
    servers = [Server(database, number) for number in range(_SERVERS)]
    for server in servers:
        server.look(0.0, 0.0)
    jumps = 0
    for number, there, back, jump, restarts in steps:
        database.passed += INTERVAL
        database.wall_ahead += jump
        jumps += jump != 0.0
        if restarts:
            servers[number] = Server(database, number)
        for server in servers:
            server.look(there, back)
        error = database.steady() - database.passed
        bound = (jumps + 1) * (INTERVAL + 2 * _SERVERS * DELAY_MAX + TOLERANCE_US / MICROS_PER_SECOND)
        assert abs(error) <= bound


@given(jump=_JUMPS.filter(bool))
def test_a_jump_that_no_server_has_seen_yet_ends_a_lease_two_seconds_early_at_most(jump: float) -> None:
    database = Database()
    Server(database, 0).look(0.0, 0.0)

    database.wall_ahead += jump

    assert -1.0 <= database.steady() - database.passed <= AHEAD_MAX_US / MICROS_PER_SECOND


def test_while_the_wall_clock_goes_right_the_steady_clock_follows_it_exactly() -> None:
    database = Database()
    server = Server(database, 0)
    for _ in range(100):
        server.look(0.1, 0.1)
        database.passed += INTERVAL

    assert database.wall_offset == 0
    assert round(database.steady() - database.passed, 6) == 0


def test_time_in_which_no_server_watched_does_not_count() -> None:
    database = Database()
    server = Server(database, 0)
    server.look(0.0, 0.0)
    database.passed += WATCH_SECONDS_MAX * 100

    server.look(0.0, 0.0)

    assert database.steady() == AHEAD_MAX_US / MICROS_PER_SECOND
