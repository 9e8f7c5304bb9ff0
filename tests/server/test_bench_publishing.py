"""The benchmark of publication measures what it says, in small."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from benchmarks import lakes, publishing, running
from tests.fix_server import ServerProcess
from tests.published import PUBLISHES


@pytest.fixture
def client(
    new_server: Callable[..., ServerProcess], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx.Client]:
    """A client of a server that publishes, which the benchmark takes for its own."""
    server = new_server(dsn, *PUBLISHES)
    monkeypatch.setattr(running, "PORT", server.port)
    monkeypatch.setattr(running, "URL", server.url)
    for name, small in {
        "COMMITS": 1,
        "LONG_COMMITS": 1,
        "ADOPTED_COMMITS": 20,
        "SECONDS": 0.2,
        "ROUNDS": 1,
    }.items():
        monkeypatch.setattr(publishing, name, small)
    monkeypatch.setattr(publishing, "WRITE_SECONDS", 0.1)
    with httpx.Client(base_url=server.url) as client:
        client.post("/v1/namespaces", json={"name": "bench"}).raise_for_status()
        yield client


def test_every_case_of_the_benchmark_gives_its_figures(client: httpx.Client, dsn: str) -> None:
    rows = list(publishing.cases(dsn, client, (lakes.local(),), "abcde"))

    assert [row.name[:3] for row in rows] == ["(a)"] * 3 + ["(b)"] * 3 + ["(c)"] * 3 + ["(d)"] * 3 + ["(e)"]
