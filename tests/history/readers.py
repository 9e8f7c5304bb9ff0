"""Clients that read: snapshots, timelines and changes of tables, and of the past; followers of the feed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.history.recorder import Parameters, Recorder
from tests.history.records import Place, Read, ShownFile, Stretch
from tests.server.rest import Json

PAGE_MAX = 200
WHOLE_PAGE = 1_000
IDLE_PAUSE_SECONDS = 0.05
BREAK_SHARE = 0.03
"""Pages after which a follower breaks off."""
FORGOTTEN_MAX = 300
"""Events that a follower that broke off may have to be given again."""
AT_THE_END_MAX = 200
"""Pages in a row that may have nothing, or not be answered, once nothing more is written."""
FROM_THE_BEGINNING = 0.05


@dataclass
class Reader:
    """Polls tables through any of the servers. A query that is not answered tells nothing, and is forgotten."""

    name: str
    recorder: Recorder
    tables: Sequence[str]
    _followed: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    _past: dict[str, list[str]] = field(default_factory=dict, init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Read until told to stop, with a pause: there are more writers than readers."""
        while not stopping.is_set():
            table = self.recorder.rng.choice(self.tables)
            looks = (self._snapshot, self._past_snapshot, self._timeline, self._changes)
            await self.recorder.rng.choice(looks)(table)
            await asyncio.sleep(IDLE_PAUSE_SECONDS)

    async def _snapshot(self, table: str) -> None:
        called = time.monotonic_ns()
        shown = await self._shown(table, {})
        if shown is not None:
            as_of, files = shown
            self._past.setdefault(table, []).append(as_of)
            self._record(table, called, as_of, files=files)

    async def _past_snapshot(self, table: str) -> None:
        past = [as_of for as_of in self._past.get(table, ()) if as_of]
        if past:
            called = time.monotonic_ns()
            as_of = self.recorder.rng.choice(past)
            shown = await self._shown(table, {"as_of": as_of})
            if shown is not None:
                self._record(table, called, as_of, files=shown[1], of_the_past=True)

    async def _shown(self, table: str, parameters: Parameters) -> tuple[str, frozenset[ShownFile]] | None:
        limit = self.recorder.rng.choice([3, WHOLE_PAGE])
        pages = await self._pages(f"/v1/tables/{table}/snapshot", parameters | {"limit": limit})
        if pages is None:
            return None
        files = [
            (file_slice["partition_path"], file_slice["file_id"], file["requested_time"])
            for page in pages
            for file_slice in page["slices"]
            for file in [file_slice["base_file"], *file_slice["log_files"]]
            if file is not None
        ]
        return pages[0]["as_of"] or "", frozenset(files)

    async def _timeline(self, table: str) -> None:
        after = self._after("instants", table)
        limit = self.recorder.rng.choice([10, WHOLE_PAGE])
        parameters: Parameters = {"order_by": "completion_time", "limit": limit}
        called = time.monotonic_ns()
        pages = await self._pages(
            f"/v1/tables/{table}/instants", parameters | ({"completed_from": after} if after else {})
        )
        if pages is not None:
            found = [instant for page in pages for instant in page["instants"]]
            upto = found[-1]["completion_time"] if found else after
            self._record(table, called, upto, after=after, instants=found)
            self._followed["instants", table] = upto

    async def _changes(self, table: str) -> None:
        after = self._after("changes", table)
        parameters: Parameters = {"limit": WHOLE_PAGE} | ({"from": after} if after else {})
        called = time.monotonic_ns()
        pages = await self._pages(f"/v1/tables/{table}/changes", parameters)
        if pages is not None:
            upto = pages[0]["to"] or after
            self._record(table, called, upto, after=after, instants=pages[0]["instants"])
            self._followed["changes", table] = upto

    def _after(self, kind: str, table: str) -> str:
        return "" if self.recorder.rng.random() < FROM_THE_BEGINNING else self._followed.get((kind, table), "")

    async def _pages(self, path: str, parameters: Parameters) -> list[Json] | None:
        pages: list[Json] = []
        while not pages or pages[-1]["next_cursor"] is not None:
            cursor = {"cursor": pages[-1]["next_cursor"]} if pages else {}
            page = await self.recorder.get(path, parameters | cursor)
            if page is None:
                return None
            pages.append(page)
        return pages

    def _record(
        self,
        table: str,
        called: int,
        upto: str,
        *,
        after: str = "",
        instants: list[Json] | None = None,
        files: frozenset[ShownFile] | None = None,
        of_the_past: bool = False,
    ) -> None:
        shown = (
            None
            if instants is None
            else tuple((instant["requested_time"], instant["completion_time"]) for instant in instants)
        )
        self.recorder.history.reads.append(
            Read(self.name, table, called, time.monotonic_ns(), upto, after, shown, files, of_the_past)
        )


@dataclass
class Follower:
    """Follows the feed of all tables, or of one, through any of the servers; breaks off, and goes on again."""

    name: str
    recorder: Recorder
    table: str | None
    _given: list[tuple[Place, str]] = field(default_factory=list, init=False)
    """Each event with the cursor behind it, as this follower remembers them."""

    def __post_init__(self) -> None:
        self._stretch = Stretch(self.name, self.table)
        self.recorder.history.stretches.append(self._stretch)

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow until told to stop."""
        while not stopping.is_set():
            if not await self._page():
                await asyncio.sleep(IDLE_PAUSE_SECONDS)
            elif self.recorder.rng.random() < BREAK_SHARE:
                self._break_off()

    async def finish(self, until: Place) -> None:
        """Follow until an event was given, or until nothing comes any more."""
        self._stretch.until = until
        nothing = 0
        while nothing < AT_THE_END_MAX and all(place != until for place, _ in self._given[-2 * PAGE_MAX :]):
            nothing = 0 if await self._page() else nothing + 1
            if nothing:
                await asyncio.sleep(IDLE_PAUSE_SECONDS)

    def _break_off(self) -> None:
        kept = max(0, len(self._given) - self.recorder.rng.randint(0, FORGOTTEN_MAX))
        del self._given[kept:]
        after = self._given[-1][0] if self._given else None
        self._stretch = Stretch(self.name, self.table, after)
        self.recorder.history.stretches.append(self._stretch)

    async def _page(self) -> bool:
        parameters: Parameters = {"limit": self.recorder.rng.randint(1, PAGE_MAX)}
        if self.table is not None:
            parameters["table"] = self.table
        if self._given:
            parameters["after"] = self._given[-1][1]
        page = await self.recorder.get("/v1/events", parameters)
        if page is None:
            return False
        for event in page["events"]:
            place = (event["table_id"], event["version"], event["hash"])
            self._stretch.places.append(place)
            self._given.append((place, event["cursor"]))
        return bool(page["events"])
