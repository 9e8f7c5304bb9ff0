"""The context of a request: who asks, from where, and for which table."""

from __future__ import annotations

from uuid import UUID

import msgspec


class Context(msgspec.Struct, frozen=True):
    """The caller of a command, a note or a read. It is the first argument of everything that a caller asks for.

    ``actor`` is the caller's name, which is not verified. ``request_id`` distinguishes commands, and is the
    idempotency key where the caller has sent one. ``address`` is where the connection comes from, if known.
    """

    actor: str
    request_id: str
    address: str | None = None
    path: str = ""
    """The path of the request, which its refusal names."""
    table_id: UUID | None = None
    """The id that the first table of the request must have."""
