"""Flink jobs as processes, which can be killed; and a gateway that makes trouble with acknowledgements."""

from __future__ import annotations

import random
import signal
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import httpx
import msgspec
from typing_extensions import override

from chronolake_model.problems import ProblemCode, problem
from tests.client.gateway import Gateway
from tests.processes import SECONDS_MAX, wait_until

Jobs: TypeAlias = "Callable[..., FlinkJob]"
"""Starts a job at the URL of a server, with options of the job."""


class FlinkJob:
    """A job on a local Flink in a process of its own."""

    def __init__(self, command: list[str], log: Path, faults: Path) -> None:
        self._log = log
        self._faults = faults
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def ends(self) -> None:
        """Wait until the job has written everything."""
        code = self._process.wait(SECONDS_MAX)
        assert code == 0, self.log()[-10_000:]

    def kill(self) -> None:
        """kill -9 of the JVM, with the job manager and all tasks."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop the process, as a machine that does not answer any more."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the process go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill_task(self, task: int) -> None:
        """Let one task fail at its next row."""
        order = self._faults / f"kill-{task}"
        order.touch()
        wait_until(lambda: not order.exists() or self._process.poll() is not None)
        assert self._process.poll() is None, "the job has ended before: give it more rows"

    def log(self) -> str:
        """The log of the process."""
        return self._log.read_text(encoding="utf-8")


class AcknowledgementsGateway(Gateway):
    """Refuses the next ``refusals`` acknowledgements; loses and repeats others and their answers at random."""

    def __init__(self, target: str, seed: int) -> None:
        super().__init__(target)
        self.refusals = 0
        self.lost = 0
        self.repeated = 0
        self._random = random.Random(seed)

    @override
    def send_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        if not ("/streams/" in path and path.endswith("/complete")):
            return super().send_on(method, path, body, headers)
        if self.refusals:
            self.refusals -= 1
            refusal = problem(ProblemCode.CHECKPOINT_INCOMPLETE, "the test refuses it", path, {})
            return httpx.Response(409, content=msgspec.json.encode(refusal))
        match self._random.randrange(6):
            case 0:
                self.lost += 1
                return httpx.Response(503, content=b"the request is lost")
            case 1:
                self.lost += 1
                super().send_on(method, path, body, headers)
                return httpx.Response(502, content=b"the answer is lost")
            case 2:
                self.repeated += 1
                super().send_on(method, path, body, headers)
                # A repetition by another client: with a key of its own.
                again = headers | {"Idempotency-Key": str(uuid.uuid4())}
                return super().send_on(method, path, body, again)
            case _:
                return super().send_on(method, path, body, headers)
