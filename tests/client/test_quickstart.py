"""``chronolake quickstart``: its sample tables, and the server that it runs."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import chronolake
from chronolake.cli import quickstart
from tests.client.conftest import Cli

PROGRAM = (sys.executable, "-c", "from chronolake_start import client; client()", "quickstart")
SECONDS_MAX = 120


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_the_sample_tables_have_rows_and_a_history(client: chronolake.Client, cli: Cli, tmp_path: Path) -> None:
    quickstart.make_tables(client, tmp_path)
    orders, stock = client.table(quickstart.ORDERS), client.table(quickstart.STOCK)
    states = [instant.state for instant in orders.instants() if instant.action is chronolake.Action.COMMIT]

    assert states.count(chronolake.State.COMPLETED) == quickstart.COMMITS
    assert states.count(chronolake.State.ROLLED_BACK) == 2
    assert [version.change for version in orders.record_history(60)] == ["insert", "update"]
    assert len(orders.to_arrow()) == 525
    assert [len(slice.log_files) for slice in stock.snapshot().slices] == [2]
    assert (len(stock.to_arrow()), orders.check().findings) == (20, [])
    quickstart.make_tables(client, tmp_path)
    assert len(list(orders.instants())) == len(states) + 2


def test_a_port_that_is_taken_is_refused(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refused = cli("quickstart", "--port", str(listening.getsockname()[1]))
    assert (refused.code, "give another one by --port" in refused.err) == (1, True)


@pytest.mark.slow
def test_the_server_of_the_quickstart_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--folder", str(tmp_path), "--port", str(port), "--json")
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"{\n"
        with chronolake.connect(f"http://127.0.0.1:{port}") as client:
            assert len(client.table(quickstart.STOCK).to_arrow()) == 20
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    socket.create_server(("127.0.0.1", port)).close()
