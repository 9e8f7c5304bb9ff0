"""A load of many writers, and a reader that checks them: their requests, and the answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.server.rest import TIMEOUT_SECONDS, Json, keyed, new_key, write_stat

PARTITIONS = ("day=1", "day=2", "day=3")
"""Each cycle writes one file into each: three files that are published together or not at all."""
RETRY_PAUSE_SECONDS = 0.05
CYCLES_MIN = 3
REPLAY_EVERY = 4
SNAPSHOT_PAGE = 50

Group = tuple[str, str]
"""A file group: partition path and file id."""


@dataclass
class Cycle:
    """One instant of one writer, as the writer saw it."""

    bucket: int
    requested_time: str
    completion_time: str
    acknowledged_before: str
    """The latest completion time that any writer had received when this instant was first requested."""


@dataclass
class Seen:
    """One snapshot that the reader took: the instant that each file group's base file was written by."""

    as_of: str
    groups: dict[Group, str]


@dataclass
class Load:
    """Writers and a reader over several servers of one database. Each tries the next server after no answer."""

    urls: Sequence[str]
    table: str
    answers: dict[str, Json] = field(default_factory=dict)
    """The answer to each idempotency key."""
    cycles: list[Cycle] = field(default_factory=list)
    snapshots: list[Seen] = field(default_factory=list)
    followed_timeline: list[str] = field(default_factory=list)
    """Requested times in the order of completion, as the reader found them page by page."""
    followed_changes: list[str] = field(default_factory=list)
    retries: int = 0
    stopping: bool = False

    def __post_init__(self) -> None:
        self._acknowledged = ""
        self._progress = asyncio.Condition()
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT_SECONDS, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None)
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def wait_for_cycles(self, cycles: int) -> None:
        """Wait until ``cycles`` further cycles are complete."""
        wanted = len(self.cycles) + cycles
        async with self._progress:
            await self._progress.wait_for(lambda: len(self.cycles) >= wanted)

    async def write(self, bucket: int) -> None:
        """Begin and complete instants in a bucket of one's own until stopped."""
        for number in itertools.count():
            if self.stopping and number >= CYCLES_MIN:
                return
            await self._cycle(bucket, at_once=bool(number % 2), replay=number % REPLAY_EVERY == 0)

    async def read(self) -> None:
        """Take snapshots, follow the timeline and follow the changes, until stopped and once more."""
        last = False
        while not last:
            last = self.stopping_is_over()
            await self._snapshot()
            await self._follow_timeline()
            await self._follow_changes()

    def stopping_is_over(self) -> bool:
        """Whether the writers have stopped, so that nothing new can come."""
        return self.stopping and self._writers_left == 0

    async def run_writers(self, writers: int) -> None:
        """Run this number of writers until all have stopped."""
        self._writers_left = writers
        async with asyncio.TaskGroup() as tasks:
            for bucket in range(writers):
                tasks.create_task(self._write_and_leave(bucket))

    async def _write_and_leave(self, bucket: int) -> None:
        await self.write(bucket)
        self._writers_left -= 1

    async def _cycle(self, bucket: int, *, at_once: bool, replay: bool) -> None:
        acknowledged_before = self._acknowledged
        begun = await self._post("instants", {"writer": f"writer {bucket}", "inflight": at_once}, bucket)
        requested_time = begun["requested_time"]
        if not at_once:
            await self._post(f"instants/{requested_time}/inflight", None, bucket)
        stats = [write_stat(requested_time, bucket, partition) for partition in PARTITIONS]
        completed = await self._post(
            f"instants/{requested_time}/complete", {"write_stats": stats}, bucket, replay=replay
        )
        completion_time = completed["completion_time"]
        self._acknowledged = max(self._acknowledged, completion_time)
        async with self._progress:
            self.cycles.append(Cycle(bucket, requested_time, completion_time, acknowledged_before))
            self._progress.notify_all()

    async def _post(self, below: str, body: Json | None, first: int, *, replay: bool = False) -> Json:
        key = new_key()
        path = f"/v1/tables/{self.table}/{below}"
        response = await self._send("POST", path, first, json=body, headers=keyed(key))
        answer: Json = response.json()
        self.answers[key] = answer
        if replay:
            again = await self._send("POST", path, first + 1, json=body, headers=keyed(key))
            assert again.content == response.content
        return answer

    async def _get(self, below: str, **parameters: str | int) -> Json:
        response = await self._send("GET", f"/v1/tables/{self.table}/{below}", 0, params=parameters)
        answer: Json = response.json()
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        first: int,
        *,
        json: Json | None = None,
        headers: dict[str, str] | None = None,
        params: dict[str, str | int] | None = None,
    ) -> httpx.Response:
        """Send until there is an answer, to one server after the other; always the same request."""
        for attempt in itertools.count(first):
            url = self.urls[attempt % len(self.urls)] + path
            try:
                response = await self._http.request(method, url, json=json, headers=headers, params=params)
            except httpx.TransportError:
                pass
            else:
                if response.status_code != 503:
                    assert response.status_code in (200, 201), response.text
                    return response
            self.retries += 1
            await asyncio.sleep(RETRY_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    async def _snapshot(self) -> None:
        page = await self._get("snapshot", limit=SNAPSHOT_PAGE)
        as_of = page["as_of"]
        slices = page["slices"]
        while page["next_cursor"] is not None:
            page = await self._get("snapshot", limit=SNAPSHOT_PAGE, cursor=page["next_cursor"])
            assert page["as_of"] == as_of
            slices += page["slices"]
        groups = {
            (file_slice["partition_path"], file_slice["file_id"]): file_slice["base_instant_time"]
            for file_slice in slices
        }
        assert len(groups) == len(slices)
        self.snapshots.append(Seen(as_of or "", groups))

    async def _follow_timeline(self) -> None:
        page = await self._get("instants", order_by="completion_time", **self._from)
        self._take_in(page["instants"])
        while page["next_cursor"] is not None:
            page = await self._get("instants", order_by="completion_time", cursor=page["next_cursor"])
            self._take_in(page["instants"])

    def _take_in(self, instants: list[Json]) -> None:
        self.followed_timeline += [instant["requested_time"] for instant in instants]
        if instants:
            self._from = {"completed_from": instants[-1]["completion_time"]}

    async def _follow_changes(self) -> None:
        changes = await self._get("changes", **self._changed_from)
        self.followed_changes += [instant["requested_time"] for instant in changes["instants"]]
        if changes["to"] is not None:
            self._changed_from = {"from": changes["to"]}

    _writers_left: int = 1
    _from: dict[str, str | int] = field(default_factory=dict)
    _changed_from: dict[str, str | int] = field(default_factory=dict)
