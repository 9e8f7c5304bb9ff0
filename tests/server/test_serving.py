from __future__ import annotations

import httpx


def test_a_ready_server_reports_it(server_url: str) -> None:
    assert httpx.get(f"{server_url}/ready").json() == {"status": "ok"}
