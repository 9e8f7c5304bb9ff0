"""The publisher runs in a process of its own, which ends with its server and is started again when it fails."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import chronolake
from chronolake_metastore.workers import publisher_process
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.published import PUBLISHES, PublishedTable, row

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="the tests find child processes in /proc")


@pytest.fixture
def server(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    return new_server(dsn, *PUBLISHES)


@pytest.fixture
def table(server: ServerProcess, tmp_path: Path) -> Iterator[PublishedTable]:
    with chronolake.connect(server.url) as client:
        yield PublishedTable(client, tmp_path / "lake")


def test_it_has_a_lower_priority_than_its_server(server: ServerProcess) -> None:
    pid = process_of(server)
    # 19 is the lowest priority, which tests that themselves run at a low one reach.
    expected = min(19, os.getpriority(os.PRIO_PROCESS, server.pid) + publisher_process.NICENESS)

    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == expected)


def test_a_killed_publisher_is_started_again_and_continues(
    server: ServerProcess, table: PublishedTable
) -> None:
    table.write(row(1))
    table.published()
    killed = process_of(server)
    os.kill(killed, signal.SIGKILL)
    table.write(row(2), bucket=1)

    # Under the same name: it does not wait for the end of the lease.
    table.published()
    assert table.hudi_rows() == table.rows()
    assert process_of(server) != killed
    assert "it is started again" in server.log()


def test_the_server_counts_what_its_publisher_publishes(server: ServerProcess, table: PublishedTable) -> None:
    table.write(row(1))
    table.published()

    # The table, and its commit.
    wait_until(lambda: steps_of(server) == 2)
    os.kill(process_of(server), signal.SIGKILL)
    table.write(row(2), bucket=1)
    table.published()
    wait_until(lambda: steps_of(server) == 3)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_ends_with_its_server(server: ServerProcess, end: str) -> None:
    pid = process_of(server)

    getattr(server, end)()

    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def steps_of(server: ServerProcess) -> float:
    """The server's metric of published steps."""
    lines = httpx.get(f"{server.url}/metrics", verify=False).text.splitlines()
    return float(
        next(line for line in lines if line.startswith("chronolake_publication_steps_total")).split()[1]
    )


def process_of(server: ServerProcess) -> int:
    """The id of the process in which the server's publisher runs."""
    wait_until(lambda: bool(children_of(server.pid)))
    [pid] = children_of(server.pid)
    return pid


def children_of(pid: int) -> list[int]:
    """The processes of publishers whose parent is ``pid``."""
    children = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        # A process may end at any moment.
        with contextlib.suppress(OSError):
            state, parent, *_ = entry.read_text().rpartition(")")[2].split()
            command = entry.with_name("cmdline").read_bytes()
            if int(parent) == pid and state != "Z" and publisher_process.__name__.encode() in command:
                children.append(int(entry.parent.name))
    return children
