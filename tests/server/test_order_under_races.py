"""Promises 1 to 4 of docs/architecture.md, under races and killed servers.

64 writers and a reader work over two servers of one database. While they do, each server is killed and
started again, and twice every connection to the database is cut. It runs once; each test checks its result.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise

import pytest

from chronolake_model.file_names import bucket_file_id
from tests import examples
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.server import database, rest
from tests.server.load import PARTITIONS, Group, Load

WRITERS = 64 if examples.ALL else 32
BETWEEN_TROUBLES = WRITERS // 2
"""Cycles that complete between one fault and the next: they show that the load continues."""
DEADLINE_SECONDS = 240.0


@dataclass
class Race:
    """The result of the load: the records of its clients, and the log."""

    dsn: str
    load: Load
    log: list[database.Row]

    @property
    def completions(self) -> list[database.Row]:
        """The events that published instants, in the order of the log."""
        return [event for event in self.log if event["type"] == "InstantCompleted"]


@pytest.fixture(scope="module")
def race(shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess]) -> Race:
    with rest.connect(shared_servers[0].url) as http:
        table = rest.make_table(http, partition_fields=["day"], index={"type": "bucket", "buckets": WRITERS})
    load = asyncio.run(_run(shared_dsn, shared_servers, table.name))
    return Race(shared_dsn, load, database.events(shared_dsn, table.name))


async def _run(dsn: str, servers: tuple[ServerProcess, ServerProcess], table: str) -> Load:
    load = Load([server.url for server in servers], table)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run_writers(WRITERS))
            tasks.create_task(load.read())
            for server in servers:
                await load.wait_for_cycles(BETWEEN_TROUBLES)
                await asyncio.to_thread(server.kill)
                await load.wait_for_cycles(BETWEEN_TROUBLES)
                await asyncio.to_thread(server.start)
                await load.wait_for_cycles(BETWEEN_TROUBLES)
                assert await asyncio.to_thread(database.sever, dsn) > 0
            await load.wait_for_cycles(BETWEEN_TROUBLES)
            load.stopping = True
    finally:
        await load.close()
    return load


def content_as_of(race: Race, as_of: str) -> dict[Group, str]:
    """The snapshot that the log says: per file group, the last instant completed at or before ``as_of``."""
    bucket_of = {cycle.requested_time: cycle.bucket for cycle in race.load.cycles}
    groups: dict[Group, str] = {}
    for event in race.completions:
        if event["time_text"] <= as_of:
            bucket = bucket_file_id(bucket_of[event["instant_text"]])
            groups |= {(partition, bucket): event["instant_text"] for partition in PARTITIONS}
    return groups


def test_times_increase_strictly_in_the_order_of_the_log(race: Race) -> None:
    assert all(earlier["time"] < later["time"] for earlier, later in pairwise(race.log))


def test_each_instant_completes_later_than_it_was_requested(race: Race) -> None:
    assert all(event["time"] > event["instant"] for event in race.completions)


def test_an_instant_begun_after_an_acknowledged_completion_is_later_than_it(race: Race) -> None:
    assert all(cycle.requested_time > cycle.acknowledged_before for cycle in race.load.cycles)


def test_versions_are_dense(race: Race) -> None:
    assert [event["version"] for event in race.log] == list(range(1, len(race.log) + 1))


def test_the_troubles_were_felt(race: Race) -> None:
    assert race.load.retries > 0


def test_every_acknowledged_command_is_in_the_log_exactly_once_and_nothing_else_is(race: Race) -> None:
    assert sorted(event["request_id"] for event in race.log[1:]) == sorted(race.load.answers)


def test_no_acknowledged_answer_differs_from_the_log(race: Race) -> None:
    answered = {
        key: (answer["version"], answer["requested_time"], answer["completion_time"])
        for key, answer in race.load.answers.items()
    }
    logged = {
        event["request_id"]: (
            event["version"],
            event["instant_text"],
            event["time_text"] if event["type"] == "InstantCompleted" else None,
        )
        for event in race.log[1:]
    }

    assert answered == logged


def test_every_writer_got_through(race: Race) -> None:
    assert {cycle.bucket for cycle in race.load.cycles} == set(range(WRITERS))


def test_the_reader_saw_every_instant_whole_or_not_at_all(race: Race) -> None:
    for seen in race.load.snapshots:
        shown = {group: seen.groups.get(group) for group in content_as_of(race, "9")}
        for (_, file_id), instant in shown.items():
            assert [shown[partition, file_id] for partition in PARTITIONS] == [instant] * len(PARTITIONS)


def test_each_snapshot_shows_exactly_the_instants_completed_by_its_time(race: Race) -> None:
    assert len(race.load.snapshots) > 2
    for seen in race.load.snapshots:
        assert seen.groups == content_as_of(race, seen.as_of)


def test_snapshots_never_go_back(race: Race) -> None:
    for earlier, later in pairwise(race.load.snapshots):
        assert earlier.as_of <= later.as_of
        assert all(later.groups[group] >= instant for group, instant in earlier.groups.items())


def test_a_follower_of_the_timeline_by_completion_time_misses_nothing(race: Race) -> None:
    assert race.load.followed_timeline == [event["instant_text"] for event in race.completions]


def test_a_follower_of_the_changes_misses_nothing(race: Race) -> None:
    assert race.load.followed_changes == [event["instant_text"] for event in race.completions]


def test_the_projections_rebuilt_from_the_log_are_the_same_row_for_row(race: Race) -> None:
    before = database.contents(race.dsn, *database.PROJECTIONS)

    run("rebuild", "--dsn", race.dsn).check_returncode()

    assert database.contents(race.dsn, *database.PROJECTIONS) == before
