"""Clients that follow the feed, by pages or by a stream; they break off, and go on from a cursor they kept."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
from typing_extensions import override

from tests.history.recorder import Parameters, Recorder
from tests.history.records import Place, Stretch

PAGE_MAX = 200
STREAMED_MAX = 400
"""Events after which a follower leaves a stream."""
PAUSE_SECONDS = 0.05
BREAK_SHARE = 0.03
"""Turns after which a follower forgets some of its events."""
FORGOTTEN_MAX = 300
PATIENCE_SECONDS = 10.0
"""How long nothing may come, once nothing more is written, until a follower believes that nothing will."""


@dataclass
class Follower:
    """Follows the feed of all tables, or of one by its id, page by page, each from any of the servers."""

    name: str
    recorder: Recorder
    table_id: str | None = None
    _given: list[tuple[Place, str]] = field(default_factory=list, init=False)
    """Each event with the cursor after it, as far as this follower remembers them."""

    def __post_init__(self) -> None:
        self._stretch = Stretch(self.name, self.table_id)
        self.recorder.history.stretches.append(self._stretch)

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow until stopped."""
        while not stopping.is_set():
            if not await self._turn():
                await asyncio.sleep(PAUSE_SECONDS)
            elif self.recorder.rng.random() < BREAK_SHARE:
                self._break_off()

    async def finish(self, until: Place) -> None:
        """Follow until an event was given, or until nothing comes any more."""
        self._stretch.until = until
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and all(place != until for place, _ in self._given):
            if await self._turn():
                deadline = time.monotonic() + PATIENCE_SECONDS
            else:
                await asyncio.sleep(PAUSE_SECONDS)

    def _break_off(self) -> None:
        kept = max(0, len(self._given) - self.recorder.rng.randint(0, FORGOTTEN_MAX))
        del self._given[kept:]
        after = self._given[-1][0] if self._given else None
        self._stretch = Stretch(self.name, self.table_id, after)
        self.recorder.history.stretches.append(self._stretch)

    async def _turn(self) -> bool:
        """Ask once; whether anything came."""
        limit = self.recorder.rng.randint(1, PAGE_MAX)
        page = await self.recorder.get("/v1/events", self._place() | {"limit": limit}, self.table_id)
        if page is None:
            return False
        for event in page["events"]:
            self._take(event)
        return bool(page["events"])

    def _place(self) -> Parameters:
        place: Parameters = {} if self.table_id is None else {"table": ""}
        return place | ({"after": self._given[-1][1]} if self._given else {})

    def _take(self, event: dict[str, Any]) -> None:
        place = (event["table_id"], event["version"], event["hash"])
        self._stretch.places.append(place)
        self._given.append((place, event["cursor"]))


class StreamFollower(Follower):
    """Follows the feed as server-sent events, and leaves each stream after a while, or when it breaks."""

    @override
    async def _turn(self) -> bool:
        wanted = self.recorder.rng.randint(1, STREAMED_MAX)
        taken = 0
        async with aclosing(self.recorder.stream("/v1/events/stream", self._place(), self.table_id)) as lines:
            async for line in lines:
                if line.startswith("data:"):
                    self._take(msgspec.json.decode(line.removeprefix("data:")))
                    taken += 1
                if taken == wanted:
                    break
        return taken > 0
