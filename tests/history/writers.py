"""Clients that write: they begin, renew, complete and roll back instants; some fall silent or come too late."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from chronolake_model.file_names import bucket_file_id
from tests.history.recorder import Recorder
from tests.history.records import Answer, Command, Group, Kind
from tests.server.rest import Json, log_stat, write_stat

LEASE_SECONDS = 5
SHORT_LEASE_SECONDS = 1
BUCKETS_MAX = 3
"""File groups that one instant writes into."""
NOT_MINE = "somebody else"


@dataclass(frozen=True)
class Target:
    """A table that is written to. On a merge-on-read table all writes append log files."""

    name: str
    buckets: int
    tick: str = "1ms"
    is_merge_on_read: bool = False


class Fate(enum.Enum):
    """What a writer means to do with an instant."""

    COMPLETE = enum.auto()
    ROLL_BACK = enum.auto()
    ABANDON = enum.auto()
    """Never to be heard of again: its lease ends."""
    DAWDLE = enum.auto()
    """To complete about when its lease ends."""
    ARGUE = enum.auto()
    """To complete and to roll back at once, so that one of the two is refused."""


_FATES = {Fate.COMPLETE: 70, Fate.ROLL_BACK: 8, Fate.ABANDON: 6, Fate.DAWDLE: 6, Fate.ARGUE: 10}


@dataclass
class Writer:
    """One client, which has one instant after the other. ``name`` is also what its keys begin with."""

    name: str
    recorder: Recorder
    targets: Sequence[Target]
    _commands: int = field(default=0, init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Write until told to stop."""
        while not stopping.is_set():
            await self._instant(self.recorder.rng.choice(self.targets))

    async def _instant(self, target: Target) -> None:
        fate = self.recorder.rng.choices(list(_FATES), list(_FATES.values()))[0]
        is_short = fate in (Fate.ABANDON, Fate.DAWDLE)
        at_once = self.recorder.rng.random() < 0.7
        instant = await self._begin(target, at_once, SHORT_LEASE_SECONDS if is_short else LEASE_SECONDS)
        if instant is None or (not at_once and not _succeeded(await self._inflight(target, instant))):
            return
        match fate:
            case Fate.COMPLETE:
                if self.recorder.rng.random() < 0.3:
                    await self._send(Kind.HEARTBEAT, target, instant, {})
                await self._complete_or_give_up(target, instant)
            case Fate.ROLL_BACK:
                if self.recorder.rng.random() < 0.3:
                    await self._roll_back(target, instant, NOT_MINE)
                await self._roll_back(target, instant, self.name)
            case Fate.ABANDON:
                pass
            case Fate.DAWDLE:
                await asyncio.sleep(self.recorder.rng.uniform(0.8, 2.0) * SHORT_LEASE_SECONDS)
                await self._complete_or_give_up(target, instant)
            case Fate.ARGUE:
                await asyncio.gather(
                    self._complete(target, instant), self._roll_back(target, instant, self.name)
                )

    async def _begin(self, target: Target, at_once: bool, lease_seconds: int) -> str | None:
        answer = await self._send(
            Kind.BEGIN,
            target,
            None,
            {
                "writer": self.name,
                "action": "deltacommit" if target.is_merge_on_read else "commit",
                "inflight": at_once,
                "lease_seconds": lease_seconds,
            },
        )
        if answer is None or not answer.is_success:
            return None
        requested_time: str = json.loads(answer.body)["requested_time"]
        return requested_time

    async def _inflight(self, target: Target, instant: str) -> Answer | None:
        return await self._send(Kind.INFLIGHT, target, instant, None)

    async def _complete_or_give_up(self, target: Target, instant: str) -> None:
        answer = await self._complete(target, instant)
        if answer is not None and answer.status == 409:
            await self._roll_back(target, instant, self.name)

    async def _complete(self, target: Target, instant: str) -> Answer | None:
        buckets = self.recorder.rng.sample(range(target.buckets), self.recorder.rng.randint(1, BUCKETS_MAX))
        stat = log_stat if target.is_merge_on_read else write_stat
        groups = frozenset(("", bucket_file_id(bucket)) for bucket in buckets)
        body = {"write_stats": [stat(instant, bucket) for bucket in buckets]}
        return await self._send(Kind.COMPLETE, target, instant, body, groups)

    async def _roll_back(self, target: Target, instant: str, writer: str) -> Answer | None:
        return await self._send(
            Kind.ROLL_BACK, target, instant, {"writer": writer, "reason": "changed my mind"}
        )

    async def _send(
        self,
        kind: Kind,
        target: Target,
        instant: str | None,
        body: Json | None,
        groups: frozenset[Group] = frozenset(),
    ) -> Answer | None:
        self._commands += 1
        command = Command(f"{self.name}-{self._commands}", target.name, kind, instant, groups)
        return await self.recorder.command(command, body)


def _succeeded(answer: Answer | None) -> bool:
    return answer is not None and answer.is_success
