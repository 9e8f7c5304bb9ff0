"""An identity provider on loopback, which gives tokens to one client, signed for a real server."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote_plus

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey
from typing_extensions import override

from chronolake import ClientCredentials
from tests.fix_secrets import ADMIN_TOKEN, CLIENT_SECRET

CLIENT_ID: Final = "etl"
AUDIENCE: Final = "chronolake"
KEY: Final = ECKey.generate_key("P-256", {"kid": "ec"})


class IdentityProvider:
    """It has one client. ``answer`` replaces what its token URL answers, and ``opened`` holds answers back."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.given: list[str] = []
        self.answer: tuple[int, bytes] | None = None
        self.expires_in: Any = 3_600
        self.takes_basic = True
        self.opened = threading.Event()
        self.opened.set()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.respond(*provider.answered(dict(parse_qsl(body)), self.headers.get("Authorization")))

            def do_GET(self) -> None:
                self.respond(200, json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())

            def respond(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answered(self, form: dict[str, str], authorization: str | None) -> tuple[int, bytes]:
        """The status and the body of an answer to a request for a token."""
        self.asked.append(form)
        assert self.opened.wait(10)
        if self.answer is not None:
            return self.answer
        given = (form.get("client_id"), form.get("client_secret"))
        if self.takes_basic and authorization is not None:
            name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            given = (unquote_plus(name), unquote_plus(secret))
        if given != (CLIENT_ID, CLIENT_SECRET):
            refusal = {"error": "invalid_client", "error_description": "unknown client"}
            return 401, json.dumps(refusal).encode()
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": CLIENT_ID, "jti": str(len(self.asked))}
        token = jwt.encode({"alg": "ES256", "kid": KEY.kid}, claims | {"exp": int(time.time()) + 3_600}, KEY)
        self.given.append(token)
        answer = {"access_token": token, "token_type": "bearer", "expires_in": self.expires_in}
        return 200, json.dumps(answer).encode()

    def credentials(self, folder: Path, **changed: str) -> ClientCredentials:
        """The credentials of the client, with its secret in a file of the folder."""
        file = folder / "client-secret"
        file.write_text(f"{CLIENT_SECRET}\n")
        file.chmod(0o600)
        own = {"client_id": CLIENT_ID, "client_secret_file": str(file), "token_url": f"{self.url}/token"}
        return ClientCredentials(**{**own, **changed})

    def flags(self, folder: Path) -> list[str]:
        """The flags of a server that accepts its tokens, and the token of an admin."""
        admin = folder / "admin-token"
        admin.write_text(ADMIN_TOKEN)
        admin.chmod(0o600)
        files = ("--admin-token-file", str(admin), "--oidc-file", str(self._oidc_file(folder)))
        return ["--access", "on", *files]

    def grant(self, server_url: str) -> None:
        """Give the client all rights on all tables."""
        body = {"subject": f"oidc:corp:{CLIENT_ID}", "role": "admin", "on": "*"}
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        httpx.post(f"{server_url}/v1/grants", json=body, headers=headers).raise_for_status()

    def _oidc_file(self, folder: Path) -> Path:
        file = folder / "issuers.toml"
        file.write_text(
            f'[issuers.corp]\nissuer = "{self.url}"\naudience = "{AUDIENCE}"\njwks_uri = "{self.url}/keys"\n'
        )
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.opened.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
