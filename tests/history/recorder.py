"""Sends a client's requests to any server that answers, and records the answers and their moments."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import httpx

from tests.history.records import Answer, Attempt, Command, History, Kind, Resolution
from tests.server.rest import Json, keyed

TIMEOUT_SECONDS = 10.0
IMPATIENT_SECONDS = 0.02
SILENT_SECONDS_MAX = 1.0
"""How long a stream may be silent until it is left."""
LOST_PAUSE_SECONDS = 0.2
RETRY_PAUSE_SECONDS = 0.05
RETRY_PAUSE_SECONDS_MAX = 0.8
ATTEMPTS_MAX = 100
"""Enough for servers that take a while to come back; after this number of attempts a client gives up."""
READS_MAX = 3
"""Attempts of a query whose table was renamed meanwhile."""
TABLE_ID_HEADER = "Chronolake-Table-Id"
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
    """Attempts without an answer after which the client never learns the outcome of its command."""


@dataclass
class Recorder:
    """The connection of one client. Moments are of this process's monotonic clock.

    ``names`` are the names of tables as far as the client knows them, by the tables' ids.
    """

    urls: Sequence[str]
    rng: random.Random
    habits: Habits
    history: History
    names: dict[str, str] = field(default_factory=dict)

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
        """Look up the outcome of a command that is in the log, but whose answers were lost."""
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

    async def get(self, path: str, parameters: Parameters, table_id: str | None = None) -> Json | None:
        """The answer to a query; None when no server answers.

        ``{table}`` in the path, or a parameter ``table``, is the name of the table with this id.
        """
        for _ in range(READS_MAX):
            name, called = self.names.get(table_id or "", ""), time.monotonic_ns()
            url = self.rng.choice(self.urls) + path.format(table=name)
            named, headers = _named(parameters, name), _headers(table_id)
            try:
                response = await self._http.get(url, params=named, headers=headers)
            except httpx.TransportError:
                await self._lost()
                return None
            if not self._is_renamed(response, name, table_id, called):
                break
        else:
            return None
        if response.status_code != 200:
            self._unexpected(response)
            return None
        answer: Json = response.json()
        return answer

    async def look(self, name: str) -> None:
        """Request the table of a name, and record the answer."""
        called = time.monotonic_ns()
        try:
            response = await self._http.get(f"{self.rng.choice(self.urls)}/v1/tables/{name}")
        except httpx.TransportError:
            await self._lost()
            return
        if response.status_code == 200:
            shown = response.json()
            resolved = (shown["table_id"], True, called, time.monotonic_ns(), shown["properties"])
            self.history.resolutions.append(Resolution(shown["name"], *resolved))
        elif not self._is_renamed(response, name, None, called):
            self._unexpected(response)

    async def stream(
        self, path: str, parameters: Parameters, table_id: str | None = None
    ) -> AsyncGenerator[str, None]:
        """The lines of an answer that does not end by itself, until it breaks or falls silent."""
        name, called = self.names.get(table_id or "", ""), time.monotonic_ns()
        url = self.rng.choice(self.urls) + path
        named, headers = _named(parameters, name), _headers(table_id)
        streaming = self._http.stream("GET", url, params=named, headers=headers, timeout=SILENT_SECONDS_MAX)
        try:
            async with streaming as response:
                if response.status_code == 200:
                    async for line in response.aiter_lines():
                        yield line
                else:
                    await response.aread()
                    if not self._is_renamed(response, name, table_id, called):
                        self._unexpected(response)
        except httpx.TransportError:
            await self._lost()

    def learn(self, table_id: str, answer: Answer) -> bool:
        """Take the present name of a table from a refusal. Returns whether the refusal has one."""
        if answer.status != 404:
            return False
        name = json.loads(answer.body)["context"].get("renamed_to")
        if name is not None:
            self.names[table_id] = name
        return name is not None

    def _is_renamed(self, response: httpx.Response, name: str, table_id: str | None, called: int) -> bool:
        """Record the resolution of a query's name. Returns whether the table has another name."""
        is_missing = response.status_code == 404 and response.json().get("code") == "table-not-found"
        if is_missing or (response.status_code == 200 and table_id is not None):
            resolution = Resolution(name, table_id, not is_missing, called, time.monotonic_ns())
            self.history.resolutions.append(resolution)
        if is_missing and table_id is not None:
            self.learn(table_id, Answer(response.status_code, response.content))
        return is_missing

    async def _lost(self) -> None:
        # An immediate retry takes the processor from the servers that are about to come back.
        self.history.unanswered += 1
        await asyncio.sleep(LOST_PAUSE_SECONDS)

    async def _attempt(self, command: Command, body: Json | None) -> None:
        server = self.rng.randrange(len(self.urls))
        timeout = IMPATIENT_SECONDS if self.rng.random() < self.habits.impatient else TIMEOUT_SECONDS
        attempt = Attempt(server, called=time.monotonic_ns())
        command.attempts.append(attempt)
        try:
            response = await self._http.request(
                "PATCH" if command.kind is Kind.ALTER else "POST",
                self.urls[server] + _path(command),
                json=body,
                headers=keyed(command.key) | _headers(command.table_id),
                timeout=timeout,
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
    table = f"/v1/tables/{command.table}"
    match command.kind:
        case Kind.ALTER:
            return table
        case Kind.BEGIN:
            return f"{table}/instants"
        case _:
            return f"{table}/instants/{command.instant}/{command.kind}"


def _headers(table_id: str | None) -> dict[str, str]:
    return {} if table_id is None else {TABLE_ID_HEADER: table_id}


def _named(parameters: Parameters, name: str) -> Parameters:
    return parameters | {"table": name} if "table" in parameters else parameters
