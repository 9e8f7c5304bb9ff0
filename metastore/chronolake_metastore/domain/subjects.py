"""Subjects: who calls. A subject is an opaque stable text; names of people are not part of it."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """A caller, as the server knows it.

    ``name`` is ``token:<id>``, ``oidc:<alias of the issuer>:<sub>``, ``admin``, ``server`` or ``anonymous``.
    """

    name: str
    may_act_for_others: bool = False
    """Whether the log may name another actor after this subject."""


ANONYMOUS: Final = Subject("anonymous")
"""An unknown caller. It may do everything while access is off, and nothing while it is on."""
ADMIN: Final = Subject("admin", may_act_for_others=True)
"""The static admin of the configuration."""
SERVER: Final = Subject("server")
"""The server's own workers, and commands of ``chronolake-metastore``."""


def actor_of(subject: Subject, on_behalf_of: str | None) -> str:
    """The actor that the log names. A slash in the name of the subject is percent-encoded."""
    name = quote(subject.name, safe=":@")
    return name if on_behalf_of is None else f"{name}/{on_behalf_of}"
