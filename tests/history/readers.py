"""Clients that read: snapshots, timelines, changes and names of tables, as they are and as they were."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.history.recorder import Parameters, Recorder
from tests.history.records import Read, ShownFile
from tests.server.rest import Json

SMALL_PAGE = 10
WHOLE_PAGE = 1_000
PAUSE_SECONDS = 0.02
FROM_THE_BEGINNING = 0.05
"""The share of reads that do not go on from the read before."""


@dataclass
class Reader:
    """Polls tables through any of the servers. A query that is not answered tells nothing, and is forgotten.

    ``tables`` are ids of tables, ``names`` the names that they may have.
    """

    name: str
    recorder: Recorder
    tables: Sequence[str]
    names: Sequence[str]
    _followed: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    _past: dict[str, list[str]] = field(default_factory=dict, init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Read until stopped, with a pause: there are more writers than readers."""
        while not stopping.is_set():
            table = self.recorder.rng.choice(self.tables)
            looks = (self._snapshot, self._past_snapshot, self._timeline, self._changes)
            await self.recorder.rng.choice(looks)(table)
            await self.recorder.look(self.recorder.rng.choice(self.names))
            await asyncio.sleep(PAUSE_SECONDS)

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
        limit = self.recorder.rng.choice([SMALL_PAGE, WHOLE_PAGE])
        pages = await self._pages(table, "snapshot", parameters | {"limit": limit})
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
        limit = self.recorder.rng.choice([SMALL_PAGE, WHOLE_PAGE])
        parameters: Parameters = {"order_by": "completion_time", "limit": limit}
        called = time.monotonic_ns()
        pages = await self._pages(table, "instants", parameters | ({"completed_from": after} if after else {}))
        if pages is not None:
            instants = [instant for page in pages for instant in page["instants"]]
            upto = instants[-1]["completion_time"] if instants else after
            self._record(table, called, upto, after=after, instants=instants)
            self._followed["instants", table] = upto

    async def _changes(self, table: str) -> None:
        after = self._after("changes", table)
        parameters: Parameters = {"limit": WHOLE_PAGE} | ({"from": after} if after else {})
        called = time.monotonic_ns()
        pages = await self._pages(table, "changes", parameters)
        if pages is not None:
            upto = pages[0]["to"] or after
            instants = [instant for page in pages for instant in page["instants"]]
            self._record(table, called, upto, after=after, instants=instants)
            self._followed["changes", table] = upto

    def _after(self, kind: str, table: str) -> str:
        return "" if self.recorder.rng.random() < FROM_THE_BEGINNING else self._followed.get((kind, table), "")

    async def _pages(self, table: str, noun: str, parameters: Parameters) -> list[Json] | None:
        pages: list[Json] = []
        while not pages or pages[-1]["next_cursor"] is not None:
            cursor = {"cursor": pages[-1]["next_cursor"]} if pages else {}
            page = await self.recorder.get(f"/v1/tables/{{table}}/{noun}", parameters | cursor, table)
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
