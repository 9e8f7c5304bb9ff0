"""Runs a pure function in a process of its own, with a lower priority than the server.

A thread would hold the interpreter's lock while it decodes a large document, and all commands would wait.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from chronolake_metastore import errors

NICENESS: Final = 10
"""About a tenth of a processor for it, while the server and PostgreSQL want all of them."""
SECONDS_MAX: Final = 60.0
PROCESSES_MAX: Final = 2
"""At a time; further requests wait."""
_THREADS: Final = ThreadPoolExecutor(PROCESSES_MAX, "chronolake-low-priority")
ResultT = TypeVar("ResultT")


async def run(function: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """The result of a function of a module for these arguments; all are pickled.

    Raises ``Overloaded`` after ``SECONDS_MAX`` and if the process is killed, such as for want of memory, and
    ``RuntimeError`` if the function raises: its trace is on the standard error.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _run, function, arguments)


def _run(function: Callable[..., ResultT], arguments: Any) -> ResultT:
    # The system copies a file to the process without the interpreter, unlike a pipe.
    with tempfile.TemporaryFile() as file:
        pickle.dump((function, arguments), file)
        file.seek(0)
        command = [sys.executable, "-P", "-m", __name__]
        try:
            done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired as exc:
            raise errors.Overloaded(
                f"the request took more than {SECONDS_MAX:.0f} s beside the others; send it again later"
            ) from exc
    if -done.returncode in (signal.SIGKILL, signal.SIGTERM):
        raise errors.Overloaded("the process that worked on the request was killed; send it again later")
    if done.returncode:
        raise RuntimeError(f"the process of {function} ended with {done.returncode}")
    result: ResultT = pickle.loads(done.stdout)
    return result


def main() -> None:
    """Be the process: read a function and its arguments, write the result."""
    # Ctrl-C reaches it too, and would print a trace. It ends by itself, when the function is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    function, arguments = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(function(*arguments)))


if __name__ == "__main__":
    main()
