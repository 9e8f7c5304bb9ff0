"""Sends what a client asks to whichever server answers, and writes down what came of it, and when."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import TracebackType

import httpx

from tests.history.records import Answer, Attempt, Command, History, Kind
from tests.server.rest import Json, keyed

TIMEOUT_SECONDS = 10.0
IMPATIENT_SECONDS = 0.02
SILENT_SECONDS_MAX = 1.0
"""How long a stream may be silent until it is left."""
LOST_PAUSE_SECONDS = 0.2
RETRY_PAUSE_SECONDS = 0.05
RETRY_PAUSE_SECONDS_MAX = 0.8
ATTEMPTS_MAX = 100
"""Enough for servers that take a while to come back; whoever has tried so often gives up."""
_DECISIONS = frozenset({200, 201, 404, 409, 410, 422})
_NOT_NOW = frozenset({503})

Parameters = dict[str, str | int]


@dataclass(frozen=True)
class Habits:
    """How a client sends, each as the share of its commands or attempts."""

    impatient: float = 0.03
    """Attempts that wait only a moment for the answer."""
    doubled: float = 0.03
    """Commands that are sent to two servers at once."""
    sent_again: float = 0.1
    """Commands that are sent once more although they were answered."""
    given_up: float = 0.1
    """Attempts without an answer after which the client never learns what became of its command."""


@dataclass
class Recorder:
    """What one client sends through. Moments are of this process's monotonic clock."""

    urls: Sequence[str]
    rng: random.Random
    habits: Habits
    history: History

    async def __aenter__(self) -> Recorder:
        # One pool of connections per client: a pool takes longer for each request the more connections it has.
        self._http = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=False, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def command(self, command: Command, body: Json | None) -> Answer | None:
        """Send a command until it is answered, or given up; gives the first answer."""
        self.history.commands.append(command)
        if self.rng.random() < self.habits.doubled:
            await asyncio.gather(*(self._attempt(command, body) for _ in range(2)))
        pause = RETRY_PAUSE_SECONDS
        for _ in range(ATTEMPTS_MAX):
            if command.returned is not None:
                break
            await self._attempt(command, body)
            if command.returned is None:
                if self.rng.random() < self.habits.given_up:
                    self.history.given_up += 1
                    return None
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_PAUSE_SECONDS_MAX)
        if self.rng.random() < self.habits.sent_again:
            await self._attempt(command, body)
        return command.answers[0] if command.answers else None

    async def look_up(self, command: Command) -> None:
        """Ask what became of a command that is in the log, but whose answers were lost."""
        for _ in range(ATTEMPTS_MAX):
            attempt = Attempt(self.rng.randrange(len(self.urls)), called=time.monotonic_ns())
            try:
                response = await self._http.get(f"{self.urls[attempt.server]}/v1/outcomes/{command.key}")
            except httpx.TransportError:
                await self._lost()
                continue
            self.history.looked_up += 1
            if response.status_code == 404:
                self.history.forgotten.append(command)
            elif response.status_code == 200:
                outcome = response.json()
                attempt.returned = time.monotonic_ns()
                attempt.answer = Answer(outcome["status"], json.dumps(outcome["answer"]).encode())
                command.attempts.append(attempt)
            else:
                self._unexpected(response)
            return

    async def get(self, path: str, parameters: Parameters) -> Json | None:
        """What a server answers to a query; None when it does not."""
        url = self.rng.choice(self.urls) + path
        try:
            response = await self._http.get(url, params=parameters)
        except httpx.TransportError:
            await self._lost()
            return None
        if response.status_code != 200:
            self._unexpected(response)
            return None
        answer: Json = response.json()
        return answer

    async def stream(self, path: str, parameters: Parameters) -> AsyncGenerator[str, None]:
        """The lines of an answer that does not end by itself, until it breaks or falls silent."""
        url = self.rng.choice(self.urls) + path
        try:
            async with self._http.stream("GET", url, params=parameters, timeout=SILENT_SECONDS_MAX) as response:
                if response.status_code == 200:
                    async for line in response.aiter_lines():
                        yield line
                else:
                    await response.aread()
                    self._unexpected(response)
        except httpx.TransportError:
            await self._lost()

    async def _lost(self) -> None:
        # Whoever asks at once again takes the processor from the servers that are about to come back.
        self.history.unanswered += 1
        await asyncio.sleep(LOST_PAUSE_SECONDS)

    async def _attempt(self, command: Command, body: Json | None) -> None:
        server = self.rng.randrange(len(self.urls))
        timeout = IMPATIENT_SECONDS if self.rng.random() < self.habits.impatient else TIMEOUT_SECONDS
        attempt = Attempt(server, called=time.monotonic_ns())
        command.attempts.append(attempt)
        try:
            response = await self._http.post(
                self.urls[server] + _path(command), json=body, headers=keyed(command.key), timeout=timeout
            )
        except httpx.TransportError:
            self.history.unanswered += 1
            return
        if response.status_code not in _DECISIONS:
            self._unexpected(response)
            return
        attempt.returned = time.monotonic_ns()
        attempt.answer = Answer(response.status_code, response.content)

    def _unexpected(self, response: httpx.Response) -> None:
        self.history.unanswered += 1
        if response.status_code not in _NOT_NOW:
            request = response.request
            self.history.failures.append(
                f"{request.method} {request.url}: {response.status_code} {response.text}"
            )


def _path(command: Command) -> str:
    instants = f"/v1/tables/{command.table}/instants"
    return instants if command.kind is Kind.BEGIN else f"{instants}/{command.instant}/{command.kind}"
