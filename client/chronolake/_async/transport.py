"""Sends calls to the server, and retries after temporary failures: lost connections, restarts, full queues."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import httpx

from chronolake import _http, errors
from chronolake._concurrency import awaiting as concurrency
from chronolake._http import RENAMES_MAX, Endpoint, LineSplitter, Retries
from chronolake._vending import VendedKeys
from chronolake.calls.base import Call, CursorPage

_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")
_Page = TypeVar("_Page", bound=CursorPage)
_Entry = TypeVar("_Entry")


class AsyncTransport:
    """Sends calls. Tasks of one event loop may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.keys = VendedKeys(endpoint)
        self._table_headers: dict[str, str] = {}
        self._http = httpx.AsyncClient(
            base_url=endpoint.url,
            timeout=endpoint.timeout_seconds,
            headers=_http.client_headers(endpoint),
            auth=endpoint.token,
            verify=endpoint.trusted,
            trust_env=not endpoint.is_plain_loopback,
        )

    def for_table(self, table_id: str) -> AsyncTransport:
        """A transport for calls to one table: they follow renames, and never reach another table."""
        transport = copy.copy(self)
        transport._table_headers = _http.table_headers(table_id)
        return transport

    async def send(
        self, call: Call[_Answer], *, key: str | None = None, retry_seconds: float | None = None
    ) -> _Answer:
        """The answer to ``call``; raises a ``ChronolakeError`` when there is none.

        ``key`` is the idempotency key of a command, a new one unless given; ``retry_seconds`` is the
        endpoint's unless given, and 0 tries once.
        """

        async def send(call: Call[Any], key: str) -> _Answer:
            headers = _http.headers_of(call, key)
            answer: _Answer = _http.answer_of(call, await self._respond(call, headers, retry_seconds))
            return answer

        return await self._following(call, send, key or _http.new_key())

    async def send_for_arrow(self, call: Call[Any]) -> bytes:
        """The answer to ``call`` as an Arrow IPC stream."""

        async def send(call: Call[Any], _: str) -> bytes:
            return (await self._respond(call, _http.arrow_headers_of(call))).content

        return await self._following(call, send)

    async def _following(
        self, call: Call[Any], send: Callable[[Call[Any], str], Awaitable[_Result]], key: str = ""
    ) -> _Result:
        """The result of ``send``. If the table was renamed, the call is sent again under its present name."""
        for _ in range(RENAMES_MAX):
            try:
                return await send(call, key)
            except errors.NotFound as refused:
                followed = _http.followed(call, key, refused)
                if followed is None:
                    raise
                call, key = followed
        return await send(call, key)

    async def _respond(
        self, call: Call[Any], headers: dict[str, str], retry_seconds: float | None = None
    ) -> httpx.Response:
        with _http.failures_with_key(headers):
            return await self._retried(
                lambda: self._http.request(
                    call.method,
                    call.path,
                    params=call.query,
                    content=call.body,
                    headers=headers | self._table_headers,
                ),
                retry_seconds,
            )

    async def _retried(
        self, send: Callable[[], Awaitable[httpx.Response]], retry_seconds: float | None = None
    ) -> httpx.Response:
        """The first successful response of ``send``."""
        # A POST is retried as safely as a GET: all tries of a command carry the same idempotency key, and the
        # server gives each of them the answer to the first.
        retries = Retries(self.endpoint, retry_seconds)
        while True:
            try:
                with _http.connection_failures(self.endpoint):
                    response = await send()
                self.endpoint.answered()
                return _http.successful(response)
            except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
                pause = retries.pause_after(failure)
                if pause is None:
                    raise
            await concurrency.sleep(pause)

    async def pages(self, call: Call[_Page]) -> concurrency.Stream[_Page]:
        """All pages of a list, each fetched when it is needed."""
        page = await self.send(call)
        yield page
        while page.next_cursor is not None:
            page = await self.send(call.page_at(page.next_cursor))
            yield page

    async def all_pages(self, call: Call[_Page]) -> list[_Page]:
        """All pages of a list."""
        return [page async for page in self.pages(call)]

    async def entries(
        self, call: Call[_Page], entries_of: Callable[[_Page], Sequence[_Entry]], limit: int | None = None
    ) -> AsyncIterator[_Entry]:
        """The entries of all pages of a list, ``limit`` at most; a page is fetched when it is needed."""
        remaining = sys.maxsize if limit is None else limit
        if remaining <= 0:
            return
        # The iteration may end early, so the generator is closed here and not by the garbage collector.
        async with contextlib.aclosing(self.pages(call)) as pages:
            async for page in pages:
                for entry in entries_of(page)[:remaining]:
                    yield entry
                remaining -= len(entries_of(page))
                if remaining <= 0:
                    return

    async def lines(self, call: Call[Any]) -> concurrency.Stream[str]:
        """The lines of an event stream, as they come. It is not retried."""
        with _http.connection_failures(self.endpoint):
            async with self._http.stream(
                call.method,
                call.path,
                params=call.query,
                headers=self._table_headers,
                timeout=_http.stream_timeout(self.endpoint),
            ) as response:
                self.endpoint.answered()
                if not _http.is_event_stream(response):
                    await response.aread()
                    raise _http.not_event_stream(response)
                splitter = LineSplitter()
                async for text in response.aiter_text():
                    for line in splitter.lines_in(text):
                        yield line

    @contextlib.asynccontextmanager
    async def chunks(self, call: Call[Any]) -> concurrency.Stream[AsyncIterator[bytes]]:
        """The bytes of an answer as an Arrow IPC stream, as they come. Retried until the answer begins."""

        async def begin(call: Call[Any], _: str) -> httpx.Response:
            return await self._retried(lambda: self._begin(call))

        response = await self._following(call, begin)
        try:
            with _http.connection_failures(self.endpoint):
                yield response.aiter_bytes()
        finally:
            await response.aclose()

    async def _begin(self, call: Call[Any]) -> httpx.Response:
        """The response to a call for Arrow. The body of an error is read, so that it can be decoded."""
        request = self._http.build_request(**_http.arrow_request(call, self.endpoint))
        request.headers.update(self._table_headers)
        response = await self._http.send(request, stream=True)
        if not response.is_success:
            await response.aread()
        return response

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
