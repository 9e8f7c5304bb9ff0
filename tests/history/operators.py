"""Clients that change tables: they rename them, also to names of others, swap names, and change properties."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.history.recorder import Recorder
from tests.history.records import Answer, Command, Kind
from tests.server.rest import Json

PAUSE_SECONDS_MAX = 0.3
ATTEMPTS_MAX = 5
"""Attempts of a change whose table was renamed meanwhile."""
SWAP_SHARE = 0.5
RENAME_SHARE = 0.3


@dataclass
class Operator:
    """One client. ``tables`` are ids, ``names`` are names that they may have. Its keys begin with ``name``."""

    name: str
    recorder: Recorder
    tables: Sequence[str]
    names: Sequence[str]
    _commands: int = field(default=0, init=False)

    async def run(self, stopping: asyncio.Event) -> None:
        """Change tables until stopped."""
        rng = self.recorder.rng
        while not stopping.is_set():
            await asyncio.sleep(rng.uniform(0.0, PAUSE_SECONDS_MAX))
            chosen = rng.random()
            if chosen < SWAP_SHARE:
                await self._swap(*rng.sample(self.tables, 2))
            elif chosen < SWAP_SHARE + RENAME_SHARE:
                await self._alter(rng.choice(self.tables), {"name": rng.choice(self.names)})
            else:
                await self._alter(rng.choice(self.tables), {})

    async def _swap(self, table: str, other: str) -> None:
        """Give two tables each other's names, over a name that no table has had; stop where one is refused."""
        names = self.recorder.names[table], self.recorder.names[other]
        namespace = names[0].partition(".")[0]
        between = f"{namespace}.between_{self.name[:8]}_{self._commands}"
        for table_id, name in ((table, between), (other, names[0]), (table, names[1])):
            answer = await self._alter(table_id, {"name": name})
            if answer is None or not answer.is_success:
                return

    async def _alter(self, table_id: str, body: Json) -> Answer | None:
        """Change a table. Each change sets a property to a text of its own, so that each has an event."""
        answer = None
        for _ in range(ATTEMPTS_MAX):
            self._commands += 1
            key = f"{self.name}-{self._commands}"
            note, other = self.recorder.rng.sample(("note", "owner", "team"), 2)
            changed = body | {"set": {note: key}, "unset": [other]}
            command = Command(key, self.recorder.names[table_id], Kind.ALTER, table_id=table_id)
            answer = await self.recorder.command(command, changed)
            if answer is None or not self.recorder.learn(table_id, answer):
                break
        if answer is not None and answer.is_success:
            self.recorder.names[table_id] = json.loads(answer.body)["name"]
        return answer
