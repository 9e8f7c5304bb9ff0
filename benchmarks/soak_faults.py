"""The processes of the soak, and the faults that they meet: each is killed with -9 and started again."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]

from benchmarks import running
from tests import processes
from tests.fix_server import ServerProcess

WORKER = "a Python worker"
_CALM_SECONDS = (5.0, 20.0)
_DOWN_SECONDS_MAX = 1.0
_COMMAND = "from chronolake_start import client; client()"


class Program:
    """A process that can be killed and started again; its output is in ``<name>.log``.

    It is at work when a sign, by default in its log, has come once more since its start.
    """

    def __init__(
        self, name: str, folder: Path, arguments: Sequence[str], sign: str, seen_in: Path | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._arguments = arguments
        self._sign = sign
        self._seen_in = seen_in or self.log
        self._signs = 0
        self._process: subprocess.Popen[bytes] | None = None

    def is_at_work(self) -> bool:
        """Whether it has shown the sign since its start."""
        return self._count() > self._signs

    def _count(self) -> int:
        return self._seen_in.read_text().count(self._sign) if self._seen_in.exists() else 0

    def start(self) -> None:
        """Start it."""
        self._signs = self._count()
        with self.log.open("ab") as log:
            command = [sys.executable, *self._arguments]
            # With the repository as its working directory, so that it finds benchmarks and tests.
            self._process = subprocess.Popen(command, cwd=running.HERE.parent, stdout=log, stderr=log)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """kill -9, with all that it has started."""
        processes.kill(self.process)

    def kill_worker(self) -> bool:
        """Kill -9 one Python worker of its Spark session, if there is any."""
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                # The workers are children of a daemon with the same command line.
                if _is_daemon(each) and _is_daemon(each.parent()):
                    each.kill()
                    return True
        return False


def _is_daemon(process: psutil.Process) -> bool:
    # Java has the name of the daemon among its settings.
    return process.name().startswith("python") and "daemon" in " ".join(process.cmdline())


def services(name: str, folder: Path, url: str, engine: str) -> Program:
    """A process of ``chronolake services run``."""
    arguments = ("-c", _COMMAND, "services", "run", "--url", url, "--engine", engine)
    return Program(name, folder, arguments, "Serving")


class Faults:
    """Kills in a thread of its own: one of the programs, a Python worker of one, or the server."""

    def __init__(self, seed: int, programs: Sequence[Program], server: ServerProcess) -> None:
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []
        """Programs that ended by themselves."""
        self._rng = random.Random(seed)
        self._programs = programs
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        victims = [*(program.name for program in self._programs), WORKER, "server"]
        left: list[str] = []
        while not self._is_over.wait(self._rng.uniform(*_CALM_SECONDS)):
            left = left or self._rng.sample(victims, len(victims))
            self._start_ended()
            victim = left.pop()
            if self._kill(victim):
                self.kills[victim] += 1
            else:
                left.insert(0, victim)

    def _start_ended(self) -> None:
        for program in self._programs:
            if (code := program.process.poll()) is not None:
                self.ended.append(f"{program.name} ended with {code}")
                program.start()

    def _kill(self, victim: str) -> bool:
        if victim == "server":
            self._server.kill()
            time.sleep(self._rng.uniform(0, _DOWN_SECONDS_MAX))
            self._server.start()
            return True
        if victim == WORKER:
            return any(program.kill_worker() for program in self._programs)
        [program] = [program for program in self._programs if program.name == victim]
        if not program.is_at_work():
            return False  # On a busy machine Spark takes its time to start.
        program.kill()
        program.start()
        return True
