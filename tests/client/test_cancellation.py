"""A task that is cancelled in the middle of ``complete``: published files stay published."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import chronolake
from chronolake import MarkersType, State
from chronolake._location import StoredMarkers
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import stat_of

WAIT_SECONDS = 20.0


class Writer:
    """Writes one file through a table, in a task that a test cancels."""

    def __init__(self, url: str, table: str, markers: MarkersType) -> None:
        self._url = url
        self._table = table
        self._markers = markers
        self.write: chronolake.AsyncWrite | None = None
        self.notes: list[str] = []

    async def run(self) -> None:
        async with chronolake.connect_async(self._url) as client:
            table = await client.table(self._table)
            self.write = await table.begin(markers=self._markers)
            try:
                async with self.write:
                    await self.write.complete([stat_of(self.write, 0)])
            except asyncio.CancelledError as exc:
                self.notes = getattr(exc, "__notes__", [])
                raise

    async def run_and_cancel(self, reached: threading.Event, go_on: threading.Event) -> chronolake.Instant:
        """Cancel the task once ``reached`` is set; gives the instant as the writer knows it then."""
        task = asyncio.create_task(self.run())
        assert await asyncio.to_thread(reached.wait, WAIT_SECONDS)
        task.cancel()
        go_on.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert self.write is not None
        return self.write.instant


def test_a_writer_that_is_cancelled_after_its_completion_knows_that_it_has_completed(
    server_url: str, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def delete_all(_markers: StoredMarkers) -> int:
        reached.set()
        assert go_on.wait(WAIT_SECONDS)
        return 0

    monkeypatch.setattr(StoredMarkers, "delete_all", delete_all)
    writer = Writer(server_url, table.name, MarkersType.DIRECT)

    known = asyncio.run(writer.run_and_cancel(reached, go_on))

    assert (known.state, writer.notes) == (State.COMPLETED, [])
    assert table.instant(known.requested_time) == known


def test_a_writer_cancelled_before_the_answer_does_not_undo_its_completion(
    gateway: Gateway, table: chronolake.Table
) -> None:
    writer = Writer(gateway.url, table.name, MarkersType.SERVER)
    gateway.faults.extend([None, Fault.HOLD_ANSWER])

    known = asyncio.run(writer.run_and_cancel(gateway.held, gateway.go_on))

    assert table.instant(known.requested_time).state is State.COMPLETED
    assert len(table.snapshot().slices) == 1
    assert "was not rolled back" in writer.notes[0]
