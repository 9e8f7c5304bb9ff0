"""The context of a request: who asks, from where, and for which table."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

import msgspec

from chronolake_metastore.domain.results import AnyRecorded
from chronolake_metastore.domain.rights import UNLIMITED, Rights
from chronolake_metastore.domain.subjects import ANONYMOUS, Subject


class Dialect(Protocol):
    """A form of answers, of which the core knows only their bytes.

    The same value gives the same bytes in every release: a repeated request gets its first answer.
    """

    @property
    def name(self) -> str:
        """The name under which an outcome says how it was answered."""

    def render(self, recorded: AnyRecorded, request_id: str) -> bytes:
        """The body of the answer to a command; empty if it has none."""


class Context(msgspec.Struct, frozen=True):
    """The caller of a command, a note or a read. It is the first argument of everything that a caller asks for.

    ``actor`` is the name that the log has for the caller: the ``subject``, with the actor for whom it acts if
    it names one; what an unknown caller says; or the name of a worker.
    ``request_id`` distinguishes commands; for a caller it is made of its subject and its idempotency key
    (``subjects.request_id_of``). ``address`` is where the connection comes from, if known.
    """

    actor: str
    request_id: str
    address: str | None = None
    place: str = ""
    """Where the caller has sent the request, in the words of its dialect. Its refusal says it."""
    table_id: UUID | None = None
    """The id that the first table of the request must have."""
    dialect: Dialect | None = None
    """The form of the answer; none for a worker, which reads the result itself."""
    subject: Subject = ANONYMOUS
    """The caller that has the rights."""
    rights: Rights = UNLIMITED
    """The rights of the subject, for reads and notes. The rights for a command are read in its transaction."""
