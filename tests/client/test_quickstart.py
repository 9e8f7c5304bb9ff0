"""``chronolake quickstart``: its sample tables, and the server that it runs."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
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


@pytest.fixture
def client(client: chronolake.Client) -> Iterator[chronolake.Client]:
    """The samples have the same names in all tests."""
    yield client
    for table in client.tables("quickstart"):
        client.drop_table(table.name)


def test_the_sample_tables_have_rows_and_a_history(client: chronolake.Client, tmp_path: Path) -> None:
    quickstart.make_tables(client, tmp_path)
    orders, stock = client.table(quickstart.ORDERS), client.table(quickstart.STOCK)
    states = [instant.state for instant in orders.instants() if instant.action is chronolake.Action.COMMIT]

    assert states.count(chronolake.State.COMPLETED) == quickstart.COMMITS
    assert states.count(chronolake.State.ROLLED_BACK) == 2
    assert [version.change for version in orders.record_history(60)] == ["insert", "update"]
    assert len(orders.to_arrow()) == 525
    assert (len(stock.to_arrow()), orders.check().findings) == (20, [])
    quickstart.make_tables(client, tmp_path)
    assert len(list(orders.instants())) == len(states) + 2


def test_a_stream_has_made_the_newest_commits_of_the_merge_on_read_table(
    client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "COMMITS", 1)
    quickstart.make_tables(client, tmp_path)
    stock = client.table(quickstart.STOCK)
    [stream] = stock.streams()
    commits = [instant for instant in stock.instants() if instant.stream is not None]
    log_files = quickstart.UPSERTS - 1 + quickstart.CHECKPOINTS

    assert (stream.is_open, stream.acknowledged_checkpoint) == (False, quickstart.CHECKPOINTS)
    assert [commit.stream.checkpoint for commit in commits if commit.stream] == [-1, 1, 2]
    assert [len(slice.log_files) for slice in stock.snapshot().slices] == [log_files]
    assert [version.writer for version in stock.record_history("article 3")][-1] == "a streaming job"
    assert stock.check().findings == []


def test_tables_of_an_interrupted_run_are_made_again(
    client: chronolake.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "COMMITS", 2)

    def interrupt(number: int) -> list[dict[str, object]]:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted, pytest.raises(KeyboardInterrupt):
        interrupted.setattr(quickstart, "_orders_of", interrupt)
        quickstart.make_tables(client, tmp_path)
    quickstart.make_tables(client, tmp_path)
    orders = client.table(quickstart.ORDERS)
    assert (len(orders.to_arrow()), orders.check().findings) == (75, [])


def test_a_server_that_ends_by_itself_is_a_failure_and_the_hints_show_rows(
    client: chronolake.Client, cli: Cli, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def dead_server(folder: Path, port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
        with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as process:
            yield server_url, process

    monkeypatch.setattr(quickstart, "_server", dead_server)
    monkeypatch.setattr(quickstart, "COMMITS", 2)
    ended = cli("quickstart", "--folder", str(tmp_path), "--port", str(free_port()))
    hint = re.search(r"head quickstart.orders --as-of (\S+)", ended.out)
    range_ = re.search(r"diff quickstart.stock (\S+) latest", ended.out)
    assert hint is not None
    assert range_ is not None
    assert (ended.code, "exit code 3" in ended.err) == (1, True)
    assert len(client.table(quickstart.ORDERS).to_arrow(hint[1])) == 50
    assert len(client.table(quickstart.STOCK).differences_to_arrow(range_[1])) == 5


def test_a_port_that_is_taken_is_refused_and_a_server_on_it_is_named(cli: Cli, server_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refused = cli("quickstart", "--port", str(listening.getsockname()[1]))
    of_server = cli("quickstart", "--port", server_url.rpartition(":")[2])

    assert (refused.code, "give another one by --port" in refused.err) == (1, True)
    assert "another program listens there" in refused.err
    assert (of_server.code, "a Chronolake server listens there" in of_server.err) == (1, True)


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
