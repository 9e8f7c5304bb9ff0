"""The faults of a round: servers die, freeze and come back, connections to the database are cut."""

from __future__ import annotations

import asyncio
import enum
import random
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fix_server import ServerProcess
from tests.server import database

CALM_SECONDS_MAX = 2.0
DOWN_SECONDS_MAX = 1.0
FROZEN_SECONDS_MAX = 2.0


class Trouble(enum.StrEnum):
    """One thing that goes wrong."""

    KILL_ONE = "servers killed one at a time"
    KILL_ALL = "times that all servers were killed"
    SEVER = "times that all connections were cut"
    FREEZE = "servers frozen"


@dataclass
class Nemesis:
    """Troubles the servers at random, each kind as often as the others; leaves them running."""

    servers: Sequence[ServerProcess]
    dsn: str
    rng: random.Random
    troubles: Counter[Trouble] = field(default_factory=Counter)

    async def run(self, troubles: Sequence[Trouble], stopping: asyncio.Event) -> None:
        """Inject faults until stopped, and until each kind was injected once."""
        left: list[Trouble] = []
        while troubles and not (stopping.is_set() and all(self.troubles[trouble] for trouble in troubles)):
            left = left or self.rng.sample(troubles, len(troubles))
            await asyncio.sleep(self.rng.uniform(0.2, CALM_SECONDS_MAX))
            await self._trouble(left.pop())

    async def _trouble(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.KILL_ONE:
                await self._kill([self.rng.choice(self.servers)])
            case Trouble.KILL_ALL:
                await self._kill(self.servers)
            case Trouble.SEVER:
                await asyncio.to_thread(database.sever, self.dsn)
            case Trouble.FREEZE:
                await self._freeze(self.rng.choice(self.servers))
        self.troubles[trouble] += 1

    async def _kill(self, servers: Sequence[ServerProcess]) -> None:
        for server in servers:
            await asyncio.to_thread(server.kill)
        await asyncio.sleep(self.rng.uniform(0.0, DOWN_SECONDS_MAX))
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in servers))

    async def _freeze(self, server: ServerProcess) -> None:
        server.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self.rng.uniform(0.2, FROZEN_SECONDS_MAX))
        finally:
            server.signal(signal.SIGCONT)
