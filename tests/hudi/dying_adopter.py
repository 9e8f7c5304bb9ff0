"""A process whose children adopt or release tables, and kill themselves before an operation.

Each line of the input is a ``Request``; each line of the output is the outcome of the child that it made:
``killed``, ``done``, or the reasons of a refusal. Operations are requests and changes on the disk. As
``tests.server.publication.dying_publisher``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

import chronolake
from chronolake._sync.transport import Transport
from chronolake.hudi import adopting, releasing
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.hudi.releasing import CannotRelease
from tests.server.publication.dying_publisher import Death

KILLED: Final = "killed"
DONE: Final = "done"
_ROOT: Final = Path(__file__).parents[2]


class Request(msgspec.Struct, frozen=True):
    """Adopt the table in ``folder``, or release it, and die before the operation ``kill_at``, from 1."""

    url: str
    table: str
    folder: str
    kill_at: int
    reuse_base_path: bool = False
    releases: bool = False


class Adopters:
    """Runs requests, one after the other."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.hudi.dying_adopter"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def outcome(self, request: Request) -> str:
        """The result of a run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request).decode() + "\n")
        self._process.stdin.flush()
        outcome: str = msgspec.json.decode(self._process.stdout.readline(), type=str)
        return outcome


def _run(request: Request) -> str:
    death = Death(request.kill_at)
    Transport.send = death.before(Transport.send)  # type: ignore[method-assign]
    sys.addaudithook(death.audit)
    with chronolake.connect(request.url, retry_seconds=10) as client:
        try:
            if request.releases:
                # It does not wait for the lease of the publisher that was killed.
                releasing.WAIT_SECONDS = 0.0  # type: ignore[misc]
                releasing.release(client, request.table)
            else:
                options = Options(
                    name=request.table,
                    base_path=request.folder,
                    roll_back_pending=True,
                    reuse_base_path=request.reuse_base_path,
                )
                adopting.adopt(client, options)
        except (CannotAdopt, CannotRelease) as exc:
            return str(exc)
    return DONE


def main() -> None:
    """Answer requests until the input ends."""
    sys.dont_write_bytecode = True
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, msgspec.json.encode(_run(request)))
            except BaseException as exc:  # the edge of the process
                os.write(writer, msgspec.json.encode(f"{type(exc).__name__}: {exc}"))
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        outcome = os.read(reader, 65_536).decode()
        os.close(reader)
        code = os.waitstatus_to_exitcode(status)
        outcome = f'"{KILLED}"' if code == -signal.SIGKILL else outcome
        print(outcome or f'"exit code {code}"', flush=True)


if __name__ == "__main__":
    main()
