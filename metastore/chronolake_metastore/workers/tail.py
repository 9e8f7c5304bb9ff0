"""The tail of the log: one reader per process, which puts new events into the ring that all followers read.

It follows the order across tables and never passes an open transaction, so no event is skipped. Without
followers it does nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.queries import following
from chronolake_metastore.queries.following import FeedPosition
from chronolake_metastore.workers.worker import Resources, Worker
from chronolake_model.backoff import Backoff

NAME: Final = "tail"
POLL_SECONDS: Final = 0.5
"""The longest pause before the tail reads the log again; a command of this server wakes it at once."""
HELD_BACK: Final = Backoff(first_seconds=0.02, max_seconds=POLL_SECONDS)
"""The pause while an open transaction holds events back."""
REST_SECONDS: Final = 0.02
"""The pause between two reads, so that one read serves commands in quick succession."""
RETRY_SECONDS: Final = 1.0
EVENTS_MAX: Final = 500

_log = telemetry.logger(__name__)


class Tail:
    """The tail of one server process."""

    def __init__(self, resources: Resources) -> None:
        self._database = resources.database
        self._followers = resources.followers
        self._notifier = resources.notifier
        self._failures = resources.metrics.worker_failures.labels(NAME)
        self._times_held_back = 0

    async def run(self) -> None:
        """Fill the ring until the server stops. While the database is unavailable, it is retried."""
        while not self._followers.is_closed:
            try:
                await self._follow()
            except errors.Unavailable as exc:
                is_logged = self._followers.database_is_away or isinstance(exc, errors.ConnectionLost)
                if not is_logged:
                    _log.warning(
                        "the tail of the log cannot be read", reason=exc.context.get("reason", exc.detail)
                    )
                self._followers.database_is_away = True
            except Exception:
                # The edge of a worker: a failure here must not end the server; the next run may succeed.
                self._failures.inc()
                _log.exception("the tail of the log failed")
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        while not self._followers.is_closed:
            if not self._followers.all:
                self._followers.ring.stop()
                await self._followers.wait_for_follower()
            if not self._followers.ring.is_running:
                # Before any stream reads from it: followers read earlier events from the database.
                self._followers.ring.start(await following.end(self._database))
            # It listens before it reads: a commit in between wakes it, so that it reads again at once.
            ringing = asyncio.ensure_future(self._notifier.wait(POLL_SECONDS))
            try:
                await asyncio.sleep(0)
                seconds = await self._read_new_events()
                await asyncio.sleep(REST_SECONDS)
                await asyncio.wait({ringing}, timeout=seconds)
            finally:
                ringing.cancel()

    async def _read_new_events(self) -> float:
        """Read new events; gives for how long to wait unless the notifier wakes it."""
        ring = self._followers.ring
        events = await following.page(
            self._database, FeedPosition(place=ring.head), EVENTS_MAX, following.TAIL_BYTES
        )
        self._followers.database_is_away = False
        if events:
            self._followers.publish(events)
            self._times_held_back = 0
            return 0.0
        if not await following.is_held_back(self._database):
            self._times_held_back = 0
            return POLL_SECONDS
        self._times_held_back += 1
        return HELD_BACK.pause_seconds(self._times_held_back - 1)


WORKER: Final = Worker(
    name=NAME,
    does="reads the end of the log for the streams of events",
    run=lambda resources: Tail(resources).run(),
    acts=False,
)
