"""No marker is created after the end of its instant, and none is forgotten, over two servers (promise 5)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
import pytest

from tests import examples
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, marker, write_stat

ROUNDS = 12 if examples.ALL else 4
"""Four are both ends of an instant at both servers."""
TASKS = 16
REQUESTS_MAX = 12
"""Requests of a task during the end of the instant; completing must succeed in spite of them."""
MARKED_BEFORE = 40
"""Markers that were acknowledged when the instant is ended."""
DEADLINE_SECONDS = 120.0
# Deferred: at the very end of the transaction that ends an instant, which markers it has by then.
SEEN_AT_THE_END = """
    CREATE TABLE seen_at_the_end (requested_time timestamptz, partition_path text, file_name text);
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chronolake.seen_at_the_end
        SELECT m.requested_time, m.partition_path, m.file_name FROM chronolake.marker m
        WHERE m.table_id = NEW.table_id AND m.requested_time = NEW.requested_time;
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER instant_seen AFTER UPDATE ON instant DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.state IN ('completed', 'rolled_back')) EXECUTE FUNCTION see();
"""


@dataclass
class Race:
    """The answers that the tasks received."""

    urls: Sequence[str]
    table: str
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    refusals: set[tuple[str, int]] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)

    async def run(self, http: httpx.AsyncClient, number: int) -> None:
        """One instant: marked by all tasks while it is ended, by completion or by a rollback in turns."""
        begun = await self._post(http, number, "", {"writer": "w"})
        instant: str = begun.json()["requested_time"]
        self._enough, self._ended = asyncio.Event(), asyncio.Event()
        await self._post(http, number, f"/{instant}/markers", {"markers": [marker(instant)]})
        async with asyncio.TaskGroup() as tasks:
            for task in range(TASKS):
                tasks.create_task(self._mark(http, instant, task))
            await self._enough.wait()
            if number % 2:
                await self._roll_back(http, instant, number // 2)
            else:
                await self._reconcile(
                    http, instant, instant, number // 2, {"write_stats": [write_stat(instant)]}
                )
                self._ended.set()

    async def _roll_back(self, http: httpx.AsyncClient, instant: str, server: int) -> None:
        answer = await self._post(http, server, f"/{instant}/rollback", {"writer": "w", "reason": "race"})
        assert answer.status_code == 200, answer.text
        self._ended.set()
        await self._reconcile(http, instant, answer.json()["rolled_back_by"], server, {})

    async def _reconcile(
        self, http: httpx.AsyncClient, marked: str, ending: str, server: int, body: Json
    ) -> None:
        """Report the markers that are not published, and complete; repeat until that succeeds."""
        published = [stat["file_name"] for stat in body.get("write_stats", [])]
        while True:
            answer = await self._post(http, server, f"/{ending}/complete", body)
            if answer.status_code == 200:
                return
            assert answer.json()["code"] == "unreconciled-markers", answer.text
            listed = await http.get(
                f"{self.urls[0]}/v1/tables/{self.table}/instants/{marked}/markers", params={"limit": 10_000}
            )
            files = [
                {"partition_path": "", "file_name": stored_marker["file_name"]}
                for stored_marker in listed.json()["markers"]
                if stored_marker["file_name"] not in published
            ]
            reported = await self._post(http, server + 1, f"/{ending}/deletions", {"files": files})
            assert reported.status_code == 201, reported.text

    async def _mark(self, http: httpx.AsyncClient, instant: str, task: int) -> None:
        """Create markers, in lists now and then, until one is refused; after some only once it has to be."""
        before = len(self.acknowledged)
        for number in itertools.count():
            if number > REQUESTS_MAX:
                await self._ended.wait()
            size = 50 if number % 7 == 3 else 1
            files = [
                marker(instant)["file_name"].replace("0-0-0_", f"{task}-{number}-{attempt + 1}_")
                for attempt in range(size)
            ]
            body = {"markers": [marker(instant) | {"file_name": name} for name in files]}
            answer = await self._post(http, task + number, f"/{instant}/markers", body)
            if answer.status_code != 200:
                self.refusals.add((answer.json()["code"], answer.status_code))
                return
            self.outcomes.update(answer.json()["outcomes"])
            self.acknowledged.update((instant, name) for name in files)
            if len(self.acknowledged) - before > MARKED_BEFORE:
                self._enough.set()

    async def _post(self, http: httpx.AsyncClient, server: int, below: str, body: Json) -> httpx.Response:
        url = self.urls[server % len(self.urls)]
        return await http.post(f"{url}/v1/tables/{self.table}/instants{below}", json=body)


@pytest.fixture(scope="module")
def race(shared_dsn: str, shared_servers: tuple[ServerProcess, ServerProcess]) -> Race:
    database.query_nothing(shared_dsn, SEEN_AT_THE_END)
    with rest.connect(shared_servers[0].url) as http:
        table = rest.make_table(http)
    race = Race([server.url for server in shared_servers], table.name)
    asyncio.run(_run(race))
    return race


async def _run(race: Race) -> None:
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        httpx.AsyncClient(timeout=rest.TIMEOUT_SECONDS, verify=False) as http,
    ):
        for number in range(ROUNDS):
            await race.run(http, number)


def rows(dsn: str, name: str) -> set[tuple[str, str]]:
    """Instants and file names of a table of them."""
    answer = database.query(dsn, f"SELECT instant_time(requested_time, 1000) AS instant, file_name FROM {name}")
    return {(row["instant"], row["file_name"]) for row in answer}


def test_the_markers_of_an_ended_instant_are_the_acknowledged_ones(race: Race, shared_dsn: str) -> None:
    seen = rows(shared_dsn, "seen_at_the_end")

    assert race.acknowledged - seen - rows(shared_dsn, "deleted_file") == set()
    assert rows(shared_dsn, "marker") - seen == set()


def test_every_file_that_was_marked_is_published_or_reported_as_deleted(race: Race, shared_dsn: str) -> None:
    assert race.acknowledged - rows(shared_dsn, "deleted_file") == set()
    assert len(rows(shared_dsn, "file")) == ROUNDS / 2
    assert rows(shared_dsn, "marker") == set()


def test_every_task_was_stopped_by_the_end_of_its_instant(race: Race) -> None:
    assert race.refusals == {("illegal-transition", 409), ("instant-rolled-back", 410)}


def test_markers_requested_once_were_all_new(race: Race) -> None:
    assert race.outcomes == {"created"}
    assert len(race.acknowledged) > ROUNDS * MARKED_BEFORE
