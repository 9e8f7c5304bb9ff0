"""The coordinator over servers that are killed: each request goes to one that answers, under the same key."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import msgspec

from chronolake_model import streams as wire
from tests.fix_server import ServerProcess
from tests.server import rest
from tests.streams.engine import Refused

STREAM = "job"
PATIENCE_SECONDS = 60.0
KILL_WITHIN = 40


class OverRest:
    """One stream of one table. Now and then a server is killed during a request, and started again.

    A kill comes after at most ``KILL_WITHIN`` requests, and further ones after at most four times as many.
    """

    def __init__(self, servers: Sequence[ServerProcess], seed: int) -> None:
        self._servers = servers
        self._clients = [rest.connect(server.url) for server in servers]
        self._random = random.Random(seed)
        self._requests_before_kill = self._random.randrange(KILL_WITHIN)
        self.kills = 0
        self.table = rest.make_table(self._clients[0], type="merge_on_read").name

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def open(self, key: str, body: wire.OpenStream) -> wire.Stream:
        return msgspec.json.decode(self._stream("open", key, body), type=wire.Stream)

    def instant(self, key: str, body: wire.RequestInstant) -> str:
        answer = self._stream("instants", key, body)
        return msgspec.json.decode(answer, type=wire.StreamInstant).requested_time

    def mark(self, requested_time: str, file_name: str) -> None:
        marker = {"partition_path": "", "file_name": file_name, "kind": "APPEND"}
        self._post(f"instants/{requested_time}/markers", {"markers": [marker]}, None)

    def report(self, key: str, body: wire.ReportWriteMetadata) -> None:
        self._stream("write-metadata", key, body)

    def complete(self, key: str, body: wire.CompleteCheckpoints) -> None:
        self._stream("complete", key, body)

    def restart(self, key: str, body: wire.RestartTask) -> int:
        return msgspec.json.decode(self._stream("restart-task", key, body), type=wire.RestartedTask).attempt

    def delete(self, requested_time: str, file_names: list[str]) -> None:
        files = [{"partition_path": "", "file_name": name} for name in file_names]
        body = {"files": files, "writer": self._get(f"instants/{requested_time}")["writer"]}
        answer = msgspec.json.decode(self._post(f"instants/{requested_time}/deletable", body, None))
        assert answer["refused"] == []
        self._post(f"instants/{requested_time}/deletions", body, None)

    def visible(self) -> list[tuple[int, str, list[str]]]:
        completed = {"state": "completed", "action": "deltacommit", "order_by": "completion_time"}
        page = self._get("instants", limit=1_000, **completed)
        by_instant: dict[str, list[str]] = {}
        for file_slice in self._get("snapshot", limit=10_000)["slices"]:
            for log in file_slice["log_files"]:
                by_instant.setdefault(log["requested_time"], []).append(log["path"].rpartition("/")[2])
        return [
            (instant["stream"]["checkpoint"], instant["requested_time"], by_instant[instant["requested_time"]])
            for instant in page["instants"]
        ]

    def listed(self) -> set[str]:
        names: set[str] = set()
        for instant in self._get("instants", state="rolled_back", limit=1_000)["instants"]:
            page = self._get(f"instants/{instant['requested_time']}/markers", limit=1_000)
            names |= {marker["file_name"] for marker in page["markers"]}
        return names

    def _stream(self, below: str, key: str, body: msgspec.Struct) -> bytes:
        return self._post(f"streams/{STREAM}/{below}", msgspec.to_builtins(body), f"{self.table}-{key}")

    def _post(self, below: str, body: Any, key: str | None) -> bytes:
        headers = {} if key is None else rest.keyed(key)
        if self._requests_before_kill:
            self._requests_before_kill -= 1
            return self._answered("POST", below, json=body, headers=headers)
        self._requests_before_kill = self._random.randrange(4 * KILL_WITHIN)
        with self._one_dying():
            return self._answered("POST", below, json=body, headers=headers)

    def _get(self, below: str, **parameters: Any) -> Any:
        return msgspec.json.decode(self._answered("GET", below, params=parameters))

    def _answered(self, method: str, below: str, **request: Any) -> bytes:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            client = self._random.choice(self._clients)
            try:
                answer = client.request(method, f"/v1/tables/{self.table}/{below}", **request)
            except httpx.TransportError:
                assert time.monotonic() < deadline
                continue
            if answer.status_code < 400:
                return answer.content
            problem = answer.json()
            assert answer.status_code < 500, problem
            raise Refused(problem["code"], problem.get("context"))

    @contextlib.contextmanager
    def _one_dying(self) -> Iterator[None]:
        """Kill a server with -9 a moment after the block has begun, and start it again at its end."""
        server = self._random.choice(self._servers)
        killing = threading.Timer(self._random.uniform(0, 0.01), server.kill)
        killing.start()
        self.kills += 1
        try:
            yield
        finally:
            killing.join()
            server.start()
