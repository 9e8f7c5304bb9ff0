from __future__ import annotations

import httpx


def test_a_server_that_is_ready_says_so(server_url: str) -> None:
    assert httpx.get(f"{server_url}/ready").json() == {"status": "ok"}
