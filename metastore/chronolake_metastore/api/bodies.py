"""The bound on request bodies: how many bytes of them a server holds at a time, of all clients and of one.

A body counts from its first byte until its request is answered: while it is read and decoded, and while its
command waits in the queue. If the client says how long a body is, one that does not fit is refused unread.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from chronolake_metastore import errors

SMALL_BYTES_MAX: Final = 1024 * 1024
"""A body with a stated length up to this counts as small. Large bodies cannot block small ones."""


def bounded(app: ASGIApp, bytes_max: int) -> ASGIApp:
    """``app``, which holds ``bytes_max`` of small bodies at a time, and as many of large ones.

    One address holds half of either at most. A request beyond that is answered 503 (``overloaded``).
    """
    small, large = Budget("small", bytes_max), Budget("large", bytes_max)

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        length = _length_of(scope)
        budget = small if length is not None and length <= SMALL_BYTES_MAX else large
        body = _Body(budget, _address_of(scope), length, receive)
        try:
            await app(scope, body.receive, send)
        finally:
            body.release()

    return admitted


class Budget:
    """Bytes that bodies of one kind hold, in all and by address."""

    def __init__(self, name: str, bytes_max: int) -> None:
        self._name = name
        self._bytes_max = bytes_max
        self._held = 0
        self._held_by: Counter[str] = Counter()

    def refuse_beyond(self, address: str, size_bytes: int) -> None:
        """Raise ``Overloaded`` unless ``size_bytes`` bytes of the address fit."""
        if self._held_by[address] + size_bytes > self._per_address_max:
            raise errors.Overloaded(
                f"{self._name} requests of {address} under way have {self._held_by[address]} bytes already, "
                f"and one address may have {self._per_address_max}; send this one again later"
            )
        if self._held + size_bytes > self._bytes_max:
            raise errors.Overloaded(
                f"{self._name} requests under way have {self._held} bytes already, of {self._bytes_max}; send "
                "this one again later"
            )

    def reserve(self, address: str, size_bytes: int) -> None:
        """Hold ``size_bytes`` bytes; raises ``Overloaded``."""
        self.refuse_beyond(address, size_bytes)
        self._held += size_bytes
        self._held_by[address] += size_bytes

    def release(self, address: str, held: int) -> None:
        """Return the bytes ``held`` for ``address``."""
        self._held -= held
        self._held_by[address] -= held
        if not self._held_by[address]:
            del self._held_by[address]

    @property
    def _per_address_max(self) -> int:
        return self._bytes_max // 2


class _Body:
    """The body of one request, as it comes."""

    def __init__(self, budget: Budget, address: str, length: int | None, receive: Receive) -> None:
        self._budget = budget
        self._address = address
        self._length = length
        self._receive = receive
        self._held = 0
        self._has_begun = False

    async def receive(self) -> Any:
        """The next part of the request; raises ``Overloaded``, before the first part if possible."""
        if not self._has_begun and self._length is not None:
            self._budget.refuse_beyond(self._address, self._length)
        self._has_begun = True
        message = await self._receive()
        if message["type"] == "http.request" and (part := len(message.get("body", b""))):
            self._budget.reserve(self._address, part)
            self._held += part
        return message

    def release(self) -> None:
        """The request is answered."""
        if self._held:
            self._budget.release(self._address, self._held)
            self._held = 0


def _address_of(scope: HTTPScope) -> str:
    client = scope["client"]
    return "unknown" if client is None else client[0]


def _length_of(scope: HTTPScope) -> int | None:
    """The length that the client says; none for a body in chunks."""
    for name, length in scope["headers"]:
        if name == b"content-length":
            return int(length) if length.isdigit() else None
        if name == b"transfer-encoding":
            return None
    return 0
