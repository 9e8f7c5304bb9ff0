"""Answers as one Arrow stream, instead of pages of JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from litestar import MediaType, Request
from litestar.response import Stream
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import stalled_clients
from chronolake_metastore.api.identification import bounded_caller
from chronolake_metastore.followers import BYTES_PER_SECOND_MIN, Client
from chronolake_model.files import ARROW

if TYPE_CHECKING:
    from chronolake_metastore.store.postgres.arrow import ArrowStream

CHUNK_BYTES: Final = 256 * 1024
"""The size of a chunk. The client has to read each chunk in time."""

_log = telemetry.logger(__name__)


def wants_arrow(request: Request[Any, Any, Any], cursor: str | None) -> bool:
    """Whether the request accepts Arrow; raises ``InvalidParameter``."""
    if request.accept.best_match([MediaType.JSON, ARROW]) != ARROW:
        return False
    if cursor is not None:
        raise errors.InvalidParameter("an Arrow stream is one answer, without pages", parameter="cursor")
    return True


def client_of(request: Request[Any, Any, Any]) -> Client:
    """The other end of the connection of ``request``."""
    host, port = request.scope["client"] or ("unknown", 0)
    return Client(host, int(port), bounded_caller(request.scope))


class Arrow(Stream):
    """``stream`` as an answer. It is opened when it is sent, and ends with the connection of its client."""

    def __init__(self, stream: ArrowStream) -> None:
        super().__init__((), headers={"Content-Type": ARROW})
        self._stream = stream

    @override
    def to_asgi_response(  # type: ignore[override]  # any ASGI application will do
        self, app: Any, request: Request[Any, Any, Any], **options: Any
    ) -> ASGIApp:
        """As of any stream, but without a slot before its turn or after its end."""
        answer = super().to_asgi_response(app, request, **options)
        client = client_of(request)

        async def answering(_: Scope, receive: Receive, send: Send) -> None:
            # No task group: a refusal has to arrive as it is where problems are made, and not in a group.
            sending = asyncio.ensure_future(self._send(answer, client, send))
            leaving = asyncio.ensure_future(_until_gone(receive))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.wait((sending, leaving))
            if not sending.cancelled():
                sending.result()

        return answering

    async def _send(self, answer: ASGIResponse, client: Client, send: Send) -> None:
        stall_seconds = self._stream.slots.stall_seconds

        async def send_in_time(message: Message, size: int = 0) -> None:
            async with asyncio.timeout(stall_seconds + size / BYTES_PER_SECOND_MIN):
                await send(message)

        async with self._stream.opened(client.caller) as messages:
            try:
                await answer.start_response(send_in_time)
                async for message in messages:
                    for start in range(0, len(message), CHUNK_BYTES):
                        chunk = message[start : start + CHUNK_BYTES]
                        await send_in_time(_body(chunk, is_followed=True), len(chunk))
                await send_in_time(_body(b"", is_followed=False))
            except TimeoutError:
                _log.warning("cut off a client that reads nothing of its Arrow stream", client=client.address)
                await asyncio.to_thread(stalled_clients.close_connection, client)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(chunk: bytes, *, is_followed: bool) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": is_followed}
