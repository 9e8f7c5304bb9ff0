"""A server with access on, its admin, and callers with tokens of their own.

No secret of them may be anywhere else (T50 of ``attacks.py``): here the answers are searched too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from chronolake_metastore.cli import main
from chronolake_model.roles import Role
from tests import fix_secrets
from tests.fix_secrets import ADMIN_TOKEN
from tests.fix_server import ServerProcess
from tests.server.rest import Json, succeeded


class AccessServer:
    """A server with access on. ``anonymous`` sends no token."""

    def __init__(self, dsn: str, folder: Path, *flags: str) -> None:
        self.dsn = dsn
        self._keys = folder / "keys"
        self._keys.write_bytes(base64.b64encode(b"k" * 32))
        fix_secrets.add(self._keys.read_text(), (b"k" * 32).hex())
        admin = folder / "admin"
        admin.write_text(ADMIN_TOKEN)
        self.process = ServerProcess(
            dsn,
            folder / "server.log",
            *("--access", "on", "--admin-token-file", str(admin), "--token-key-file", str(self._keys)),
            *flags,
        )
        self._clients: list[httpx.Client] = []

    def client(self, token: str | None) -> httpx.Client:
        """A client that sends a token."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        hooks = {"response": [_search_answer]}
        client = httpx.Client(base_url=self.process.url, headers=headers, timeout=60, event_hooks=hooks)
        self._clients.append(client)
        return client

    def caller(self, name: str, **roles: Role | str) -> Caller:
        """A caller with a new token, and roles on patterns of names that are Python's too."""
        made = self.run("token", "create", name, "--token-key-file", str(self._keys))
        fix_secrets.add(made["token"].removeprefix(f"clk_{made['id']}_"))
        caller = Caller(self, made["id"], made["token"])
        for pattern, role in roles.items():
            caller.grant(role, pattern)
        return caller

    @property
    def admin(self) -> httpx.Client:
        """The static admin."""
        return self.client(ADMIN_TOKEN)

    def run(self, *arguments: str) -> Any:
        """The document that a command of the operator prints."""
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            patched.setattr("chronolake_metastore.telemetry.configure", lambda *_: None)
            ended = CliRunner().invoke(main.app, [*arguments, "--json", "--dsn", self.dsn])
        assert ended.exit_code == 0, (ended.output, ended.exception)
        return json.loads(ended.stdout)

    def stop(self) -> None:
        """Stop the server, and close the clients."""
        for client in self._clients:
            client.close()
        self.process.stop()


def _search_answer(response: httpx.Response) -> None:
    is_json = "json" in response.headers.get("content-type", "")
    asks_for_keys = "X-Iceberg-Access-Delegation" in response.request.headers
    if is_json and not asks_for_keys and not response.url.path.endswith("/credentials"):
        fix_secrets.search(response.read().decode(), "an answer")


class Caller:
    """A caller with a token."""

    def __init__(self, server: AccessServer, token_id: str, token: str) -> None:
        self.server = server
        self.token_id = token_id
        self.token = token
        self.subject = f"token:{token_id}"
        self.http = server.client(token)

    def grant(self, role: Role | str, on: str) -> Json:
        """Grant a role to the caller, as the admin."""
        body = {"subject": self.subject, "role": role, "on": on}
        return succeeded(self.server.admin.post("/v1/grants", json=body))

    def revoke(self, on: str) -> None:
        """Revoke the role on a pattern, as the admin."""
        answer = self.server.admin.post("/v1/grants/revoke", json={"subject": self.subject, "on": on})
        assert answer.is_success, answer.text


@contextmanager
def running(dsn: str, folder: Path, *flags: str) -> Iterator[AccessServer]:
    """A server with access on."""
    server = AccessServer(dsn, folder, *flags)
    try:
        server.process.start()
        yield server
    finally:
        server.stop()
