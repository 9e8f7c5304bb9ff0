"""Subjects: who calls. A subject is an opaque stable text; names of people are not part of it."""

from __future__ import annotations

import enum
import functools
from typing import Final
from urllib.parse import quote

import msgspec

from chronolake_model.times import Micros


class Reason(enum.StrEnum):
    """Why a caller is unknown."""

    NO_TOKEN = "no token"
    NOT_BEARER = "not one header Authorization with a bearer token"
    UNKNOWN_TOKEN = "unknown token"
    WRONG_SECRET = "wrong secret"
    EXPIRED = "expired"
    REVOKED = "revoked"
    UNKNOWN_ISSUER = "unknown issuer"
    UNKNOWN_KEY = "unknown key of the issuer"
    WRONG_SIGNATURE = "wrong signature"
    WRONG_CLAIMS = "wrong claims"


class Subject(msgspec.Struct, frozen=True):
    """A caller, as the server knows it.

    ``name`` is ``token:<id>``, ``oidc:<alias of the issuer>:<sub>``, ``admin``, ``server`` or ``anonymous``.
    """

    name: str
    may_act_for_others: bool = False
    """Whether the log may name another actor after this subject."""
    token_id: str | None = None
    """The id of the token of ours by which the caller was identified."""
    until: Micros | None = None
    """The end of the token of another issuer by which the caller was identified."""

    @property
    def is_unlimited(self) -> bool:
        """Whether the subject may do everything, whatever roles there are."""
        return self.name in (ADMIN.name, SERVER.name)


ANONYMOUS: Final = Subject("anonymous")
"""An unknown caller. It may do everything while access is off, and nothing while it is on."""
KEY_SEPARATOR: Final = "\u00bb"
"""Between the subject and its idempotency key in a request id. Keys are ASCII, so it is the last one there."""
ADMIN: Final = Subject("admin", may_act_for_others=True)
"""The static admin of the configuration."""
SERVER: Final = Subject("server")
"""The server's own workers, and commands of ``chronolake-metastore``."""


@functools.lru_cache(maxsize=4_096)
def actor_of(subject: Subject, on_behalf_of: str | None) -> str:
    """The actor that the log names. A slash in the name of the subject is percent-encoded."""
    name = quote(subject.name, safe=":@")
    return name if on_behalf_of is None else f"{name}/{on_behalf_of}"


def bounded_name(subject: Subject, address: str | None) -> str:
    """The name by which bounds count a caller: its subject, or its address if it was not identified.

    The address is that of the connection: any client can write a header that names another one.
    """
    return (address or "unknown") if subject == ANONYMOUS else subject.name


def request_id_of(subject: Subject, key: str) -> str:
    """The request id of a command: the key of its caller, which belongs to the subject."""
    return key if subject == ANONYMOUS else f"{subject.name}{KEY_SEPARATOR}{key}"


def key_in(request_id: str) -> str:
    """The key that the caller of a command gave it."""
    return request_id.rpartition(KEY_SEPARATOR)[2]
