"""The slots of large answers: how many run at a time, for all callers and for one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings

STREAMS_MAX: Final = 8
"""Large answers at a time; a request for one more waits for a slot."""
WAIT_SECONDS_MAX: Final = 10.0


class StreamSlots:
    """The slots of one server. A slot is taken and given back in one step, so that none is lost."""

    def __init__(self, settings: Settings) -> None:
        self.stall_seconds = settings.follower_stall_seconds
        """How long the client of a large answer may read nothing."""
        self._per_client_max = settings.arrow_streams_per_client_max
        # The request must be refused here before its time limit ends.
        self._wait_seconds = min(WAIT_SECONDS_MAX, settings.answer_seconds / 2)
        self._used = 0
        self._used_by: Counter[str] = Counter()
        self._given_back = asyncio.Event()

    async def take(self, caller: str) -> None:
        """Take a slot when one is free. Raises ``TooManyStreams`` or ``Overloaded`` after a while.

        The caller gives it back with ``give_back``. When it is cancelled, it has taken none.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                while self._is_full or self._is_full_for(caller):
                    self._given_back.clear()
                    await self._given_back.wait()
        except TimeoutError:
            raise self._refusal(caller) from None
        self._used += 1
        self._used_by[caller] += 1

    def give_back(self, caller: str) -> None:
        """A large answer to ``caller`` has ended."""
        assert self._used_by[caller] > 0
        self._used -= 1
        self._used_by[caller] -= 1
        if not self._used_by[caller]:
            del self._used_by[caller]
        # All waiters try, in the order of their arrival, because the first may not be allowed to take the slot.
        self._given_back.set()

    @property
    def _is_full(self) -> bool:
        return self._used >= STREAMS_MAX

    def _is_full_for(self, caller: str) -> bool:
        return self._used_by[caller] >= self._per_client_max

    def _refusal(self, caller: str) -> errors.Unavailable:
        if self._is_full_for(caller):
            return errors.TooManyStreams(
                f"{caller} already reads {self._per_client_max} Arrow streams of this server, the most that "
                "one caller may; read them to their end, or close some",
                streams_max=self._per_client_max,
            )
        return errors.Overloaded(
            f"this server already sends {STREAMS_MAX} Arrow streams, the most that it does at a time; send the "
            "request again later, or to another server",
            streams_max=STREAMS_MAX,
        )
