"""Clients that write: they begin, renew, complete and roll back instants; some fall silent or come too late."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chronolake_model.file_names import bucket_file_id
from tests.history.recorder import Recorder
from tests.history.records import Answer, Command, Group, Kind
from tests.server.rest import Json, log_stat, write_stat

LEASE_SECONDS = 5
SHORT_LEASE_SECONDS = 1
BUCKETS_MAX = 3
"""File groups that one instant writes into."""
NOT_MINE = "somebody else"
NAMES_MAX = 5
"""Attempts of a command whose table was renamed meanwhile."""
BY_NAME_ALONE = 0.1
"""The share of instants that are begun in any table of the name."""


@dataclass(frozen=True)
class Target:
    """A table that is written to, with its first name. On a merge-on-read table all writes append log files."""

    name: str
    buckets: int
    table_id: str = ""
    tick: str = "1ms"
    is_merge_on_read: bool = False


class Fate(enum.Enum):
    """A writer's plan for an instant."""

    COMPLETE = enum.auto()
    ROLL_BACK = enum.auto()
    ABANDON = enum.auto()
    """Never to be heard of again: its lease ends."""
    DAWDLE = enum.auto()
    """To complete about when its lease ends."""
    ARGUE = enum.auto()
    """To complete and to roll back at once, so that one of the two is refused."""


_FATES = {Fate.COMPLETE: 70, Fate.ROLL_BACK: 8, Fate.ABANDON: 6, Fate.DAWDLE: 6, Fate.ARGUE: 10}


@dataclass(frozen=True)
class Begun:
    """An instant of a writer. ``table_id`` is the id that the writer requires with each command, if any.

    Without one, the name may be that of another table than the target by now.
    """

    target: Target
    requested_time: str
    begun_by: str
    table_id: str | None


@dataclass
class Writer:
    """One client, which has one instant at a time. ``name`` is also the prefix of its keys."""

    name: str
    recorder: Recorder
    targets: Sequence[Target]
    _commands: int = field(default=0, init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Write until stopped."""
        while not stopping.is_set():
            await self._instant(self.recorder.rng.choice(self.targets))

    async def _instant(self, target: Target) -> None:
        fate = self.recorder.rng.choices(list(_FATES), list(_FATES.values()))[0]
        is_short = fate in (Fate.ABANDON, Fate.DAWDLE)
        at_once = self.recorder.rng.random() < 0.7
        instant = await self._begin(target, at_once, SHORT_LEASE_SECONDS if is_short else LEASE_SECONDS)
        if instant is None or (not at_once and not _succeeded(await self._inflight(instant))):
            return
        match fate:
            case Fate.COMPLETE:
                if self.recorder.rng.random() < 0.3:
                    await self._send(Kind.HEARTBEAT, instant, {})
                await self._complete_or_give_up(instant)
            case Fate.ROLL_BACK:
                if self.recorder.rng.random() < 0.3:
                    await self._roll_back(instant, NOT_MINE)
                await self._roll_back(instant, self.name)
            case Fate.ABANDON:
                pass
            case Fate.DAWDLE:
                await asyncio.sleep(self.recorder.rng.uniform(0.8, 2.0) * SHORT_LEASE_SECONDS)
                await self._complete_or_give_up(instant)
            case Fate.ARGUE:
                await asyncio.gather(self._complete(instant), self._roll_back(instant, self.name))

    async def _begin(self, target: Target, at_once: bool, lease_seconds: int) -> Begun | None:
        table_id = None if self.recorder.rng.random() < BY_NAME_ALONE else target.table_id
        body = {
            "writer": self.name,
            "action": "deltacommit" if target.is_merge_on_read else "commit",
            "inflight": at_once,
            "lease_seconds": lease_seconds,
        }
        command, answer = await self._follow(Command("", "", Kind.BEGIN, table_id=table_id), target, body)
        if answer is None or not answer.is_success:
            return None
        return Begun(target, json.loads(answer.body)["requested_time"], command.key, table_id)

    async def _inflight(self, instant: Begun) -> Answer | None:
        return await self._send(Kind.INFLIGHT, instant, None)

    async def _complete_or_give_up(self, instant: Begun) -> None:
        answer = await self._complete(instant)
        if answer is not None and answer.status == 409:
            await self._roll_back(instant, self.name)

    async def _complete(self, instant: Begun) -> Answer | None:
        target = instant.target
        buckets = self.recorder.rng.sample(range(target.buckets), self.recorder.rng.randint(1, BUCKETS_MAX))
        stat = log_stat if target.is_merge_on_read else write_stat
        groups = frozenset(("", bucket_file_id(bucket)) for bucket in buckets)
        body = {"write_stats": [stat(instant.requested_time, bucket) for bucket in buckets]}
        return await self._send(Kind.COMPLETE, instant, body, groups)

    async def _roll_back(self, instant: Begun, writer: str) -> Answer | None:
        return await self._send(Kind.ROLL_BACK, instant, {"writer": writer, "reason": "changed my mind"})

    async def _send(
        self, kind: Kind, instant: Begun, body: Json | None, groups: frozenset[Group] = frozenset()
    ) -> Answer | None:
        command = Command(
            "", "", kind, instant.requested_time, groups, table_id=instant.table_id, begun_by=instant.begun_by
        )
        return (await self._follow(command, instant.target, body))[1]

    async def _follow(
        self, command: Command, target: Target, body: Json | None
    ) -> tuple[Command, Answer | None]:
        """Send a command by the name of the target, and by its next name where the table was renamed."""
        answer = None
        for _ in range(NAMES_MAX):
            self._commands += 1
            key, name = f"{self.name}-{self._commands}", self.recorder.names[target.table_id]
            command = replace(command, key=key, table=name, attempts=[])
            answer = await self.recorder.command(command, body)
            if answer is None or not self.recorder.learn(target.table_id, answer):
                break
        return command, answer


def _succeeded(answer: Answer | None) -> bool:
    return answer is not None and answer.is_success
