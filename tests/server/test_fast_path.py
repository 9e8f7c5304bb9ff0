"""The fast path of commands through HTTP answers what Litestar's path answers."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from litestar import Litestar

from chronolake_metastore import app as composition
from chronolake_metastore.api.application import takes_fast_path
from chronolake_metastore.settings import Settings

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nothing"
INSTANTS = "/v1/tables/shop.orders/instants"
COMPLETE = f"{INSTANTS}/20260101000000000/complete"
MARKERS = f"{INSTANTS}/20260101000000000/markers"
READERS = "/v1/tables/shop.orders/readers"
JSON = {"content-type": "application/json", "idempotency-key": "a"}
BEGIN = b'{"writer": "w"}'
REFUSED = [
    pytest.param(INSTANTS, b"{", JSON, id="no JSON"),
    pytest.param(INSTANTS, b"\xff", JSON, id="no UTF-8"),
    pytest.param(INSTANTS, b"[" * 1_900, JSON, id="nested too deeply"),
    pytest.param(INSTANTS, b'{"writer": 1}', JSON, id="wrong type"),
    pytest.param(INSTANTS, b'{"writer": "w", "lease": 1}', JSON, id="unknown field"),
    pytest.param(INSTANTS, b'{"writer": "w", "operation": "copy"}', JSON, id="unknown word"),
    pytest.param(INSTANTS, b'{"writer": "w", "writer": "v"}', JSON, id="a field twice"),
    pytest.param(INSTANTS, b'{"writer": "w\\u0000"}', JSON, id="NUL"),
    pytest.param(INSTANTS, BEGIN, {"idempotency-key": "a"}, id="no media type"),
    pytest.param(INSTANTS, BEGIN, JSON | {"content-type": "text/plain"}, id="another media type"),
    pytest.param(INSTANTS, BEGIN, JSON | {"content-type": "application/json; charset=latin-1"}, id="charset"),
    pytest.param(INSTANTS, BEGIN, JSON | {"content-encoding": "gzip"}, id="compressed"),
    pytest.param(INSTANTS, BEGIN, JSON | {"idempotency-key": "k" * 256}, id="key too long"),
    pytest.param(INSTANTS, BEGIN, JSON | {"chronolake-actor": " "}, id="blank actor"),
    pytest.param(INSTANTS, BEGIN, JSON | {"chronolake-table-id": "7"}, id="no table id"),
    pytest.param(INSTANTS, BEGIN + b" " * 3_000, JSON, id="too large"),
    pytest.param("/v1/tables/orders/instants", BEGIN, JSON, id="no namespace"),
    pytest.param(COMPLETE.replace("2026", "x"), b"{}", JSON, id="no time"),
    pytest.param(COMPLETE, b'{"write_stats": [{}]}', JSON, id="deep in the body"),
    pytest.param(MARKERS, b'{"writer": "w", "markers": 1}', JSON, id="markers"),
    pytest.param(MARKERS, b"", {}, id="no markers"),
    pytest.param(READERS, b'{"reader": 1}', JSON, id="a note"),
    pytest.param(READERS, b'{"reader": "r"}', JSON | {"chronolake-actor": " "}, id="blank actor of a note"),
    pytest.param(READERS, b'{"reader": "r"}', JSON | {"chronolake-table-id": "7"}, id="no table id of a note"),
    pytest.param(f"{INSTANTS}/7/conflicts", b"{}", JSON, id="a read"),
    pytest.param("/v1/namespaces", b'{"name": 1}', JSON, id="no table in the path"),
]


def test_requests_with_a_body_take_it() -> None:
    takers = {handler.name or handler.fn.__name__ for handler in composition.V1 if takes_fast_path(handler)}
    assert {"begin_instant", "complete_instant", "renew_lease", "create_markers"} <= takers
    assert {"begin_reading", "renew_reading", "find_conflicts", "find_deletable"} <= takers
    assert not {"list_instants", "get_snapshot", "drop_table"} & takers


@pytest.fixture(scope="module")
def ways() -> list[Litestar]:
    """The server with the fast path, and without it."""
    settings = Settings(dsn=NO_DATABASE, max_body_bytes=2_000)
    fast, other = composition.create_app(settings), composition.create_app(settings)
    other.fast_path = None
    return [fast, other]


@pytest.mark.parametrize(("path", "body", "headers"), REFUSED)
def test_it_refuses_in_the_words_of_the_other_path(
    ways: list[Litestar], path: str, body: bytes, headers: dict[str, str]
) -> None:
    fast, other = [asyncio.run(_post(way, path, body, headers)) for way in ways]

    assert 400 <= fast.status_code < 500
    assert fast.status_code == other.status_code
    assert fast.headers == other.headers
    assert fast.content == other.content
    assert json.loads(fast.content)["detail"]


async def _post(served: Litestar, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    transport = httpx.ASGITransport(app=served)  # type: ignore[arg-type]  # types of ASGI differ in names only
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.post(path, content=body, headers=headers)
