"""Running the server: the checks before it listens, the loop, the signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import http.client
import json
import signal
import socket
import ssl
from typing import Any, Final

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import identification
from chronolake_metastore.app import create_app, served
from chronolake_metastore.cli import encryption
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings, is_open_to_network, warnings_of
from chronolake_metastore.store.postgres import migrations

EMBEDDED_SECONDS: Final = 1.0
"""How often to look whether the embedded PostgreSQL runs."""

REQUEST_CONNECTIONS: Final = 1_024
"""Connections beside those of all followers. The HTTP server accepts no more of them; the others wait."""

_CONNECTION_BUFFER_BYTES = 64 * 1024
"""Buffer of a connection, for bytes not yet read or written. The headers of a request must fit into it."""

_LISTENER_SECONDS: Final = 2.0
_INDEX_BYTES_MAX: Final = 10_000
_CHRONOLAKE: Final = "a Chronolake server"

_log = telemetry.logger(__name__)


def refuse_anonymous_network(settings: Settings) -> None:
    """Raise ``ConfigurationError`` when other machines could reach a server whose access is off."""
    if is_open_to_network(settings) and not settings.allow_anonymous:
        raise errors.ConfigurationError(
            f"{settings.host} can be reached from other machines, and access is off; use --access on, listen "
            "at 127.0.0.1, or use --allow-anonymous if the network protects the port"
        )


def run(settings: Settings, embedded: EmbeddedPostgres | None = None) -> None:
    """Serve until SIGTERM or SIGINT; an ``embedded`` PostgreSQL that ends meanwhile is started again.

    Raises ``ConfigurationError`` or ``DatabaseUnavailable`` at the start.
    """
    # Again: another server may have started while the database was made.
    refuse_taken_port(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, embedded))


def migrate(dsn: str) -> None:
    """Migrate; what PostgreSQL warns of meanwhile goes into the log. Raises ``ConfigurationError``."""
    for warning in migrations.upgrade(dsn).warnings:
        _log.warning("PostgreSQL warns", warning=warning)


async def _serve(settings: Settings, embedded: EmbeddedPostgres | None) -> None:
    await readiness.check_at_start(settings)
    app = create_app(settings)
    # The objects that exist now stay. Collecting garbage among them again and again would delay all requests.
    gc.collect()
    gc.freeze()
    # And a group of commands makes thousands of objects, hardly any of which refer to each other in a circle.
    gc.set_threshold(20_000, 20, 20)
    server = Server(
        served(app, settings),
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        backlog=1024,
        # Without it the bound is the backlog: half of the followers would keep all other clients out.
        backpressure=settings.followers_max + REQUEST_CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(max_buffer_size=_CONNECTION_BUFFER_BYTES),
        websockets=False,
        log_access=False,
        log_enabled=False,
        **encryption.options(settings),
    )

    def stop() -> None:
        # The server waits for requests to end, and streams end only when the followers are closed.
        app.end_streams()
        server.stop()

    loop = asyncio.get_running_loop()
    for stopping in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stopping, stop)
    for warning in warnings_of(settings):
        _log.warning(warning)
    _log.info(
        "serving",
        url=f"{encryption.scheme(settings)}://{settings.host}:{settings.port}",
        openapi="/openapi.json",
    )
    async with asyncio.TaskGroup() as tasks:
        keeper = tasks.create_task(_keep_running(embedded)) if embedded is not None else None
        await server.serve()
        if keeper is not None:
            keeper.cancel()
    _log.info("stopped")


async def _keep_running(embedded: EmbeddedPostgres) -> None:
    """Start an embedded PostgreSQL again each time that it has ended, until cancelled."""
    while True:
        await asyncio.sleep(EMBEDDED_SECONDS)
        try:
            if await asyncio.to_thread(embedded.keep_running):
                _log.warning("the embedded PostgreSQL had ended; it was started again")
        except errors.ConfigurationError as exc:
            _log.error("the embedded PostgreSQL has ended and does not start; trying again", reason=str(exc))


def refuse_taken_port(settings: Settings) -> None:
    """Raise ``ConfigurationError`` when another process listens at the port."""
    # granian shares ports (SO_REUSEPORT): a second server by mistake would go unnoticed.
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as exc:
            listening = f"; {_listener(settings)} listens there" if exc.errno == errno.EADDRINUSE else ""
            raise errors.ConfigurationError(
                f"cannot listen at {settings.host}:{settings.port} ({exc.strerror}{listening}); choose another "
                "port with --port"
            ) from exc


def _listener(settings: Settings) -> str:
    """The program that has the port: a Chronolake server says so at ``/``."""
    any_certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    any_certificate.check_hostname, any_certificate.verify_mode = False, ssl.CERT_NONE
    host, port = settings.host, settings.port
    plain = http.client.HTTPConnection(host, port, timeout=_LISTENER_SECONDS)
    encrypted = http.client.HTTPSConnection(host, port, timeout=_LISTENER_SECONDS, context=any_certificate)
    return _CHRONOLAKE if _is_chronolake(plain) or _is_chronolake(encrypted) else "another program"


def _is_chronolake(connection: http.client.HTTPConnection) -> bool:
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/")
            answer = connection.getresponse()
            if answer.getheader("WWW-Authenticate") == identification.CHALLENGE:
                return True
            index = json.loads(answer.read(_INDEX_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException):
        return False
    return isinstance(index, dict) and index.get("name") == "chronolake"


def as_json(document: dict[str, Any]) -> str:
    """The document as indented JSON."""
    return json.dumps(document, indent=2, sort_keys=True)
