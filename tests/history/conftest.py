"""Servers for whole rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.fix_server import PROGRAM, ServerProcess

SERVERS = 3
REAPER = ("--reaper-seconds", "0.5")


@contextmanager
def serving(
    dsn: str, folder: Path, *, servers: int = SERVERS, program: Sequence[str] = PROGRAM
) -> Iterator[list[ServerProcess]]:
    """Servers over one database, which reap soon, until the block ends."""
    made = [
        ServerProcess(dsn, folder / f"server-{number}.log", *REAPER, program=program)
        for number in range(servers)
    ]
    with ExitStack() as stack:
        for server in made:
            stack.callback(server.stop)
        with ThreadPoolExecutor() as threads:
            list(threads.map(ServerProcess.start, made))
        yield made


@pytest.fixture(scope="module")
def servers(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Three servers over one database, for the rounds of a module."""
    with serving(shared_dsn, tmp_path_factory.mktemp("servers")) as started:
        yield started
