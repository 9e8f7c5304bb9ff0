"""Roles and their rights, and the patterns of names on which they are granted."""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

import msgspec

from chronolake_model.names import decoder_pattern

SUBJECT_CHARS_MAX: Final = 400
PATTERN_CHARS_MAX: Final = 257
GRANTS_PER_SUBJECT_MAX: Final = 1_000
GRANTS_PER_NAMESPACE_MAX: Final = 100
"""The roles of a subject within one namespace: its admin must not use up the roles that others can grant."""
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}"
NAMES_PATTERN: Final = rf"^(\*|{_NAME}\*?|{_NAME}\.(\*|{_NAME}\*?))$"
SUBJECT_PATTERN: Final = r"^(token:[a-z2-7]{10}|oidc:[^:\s]+:[^\x00-\x1f\x7f]+)$"
_NAMES = re.compile(decoder_pattern(NAMES_PATTERN), re.ASCII)
_SUBJECT = re.compile(decoder_pattern(SUBJECT_PATTERN))


class Right(enum.StrEnum):
    """A right on a table, or on the catalog for what names no table."""

    READ = "read"
    WRITE = "write"
    """To begin, complete and roll back instants, with their markers, streams and savepoints."""
    MAINTAIN = "maintain"
    """To delete files and to publish."""
    DEFINE = "define"
    """To create, change and drop tables and namespaces."""
    GRANT = "grant"
    """To grant roles and to revoke them."""
    ADMINISTER = "administer"
    """The metastore itself: no role has it. Only the server's workers do that, and the static admin may."""


class Role(enum.StrEnum):
    """A role of a subject. Each has the rights of those before it."""

    READER = "reader"
    """To read."""
    WRITER = "writer"
    """And to write."""
    MAINTAINER = "maintainer"
    """And to delete files, publish, and run table services."""
    ADMIN = "admin"
    """And to create, change and drop tables and namespaces, and to grant roles."""


_ADDED: Final = {
    Role.READER: (Right.READ,),
    Role.WRITER: (Right.WRITE,),
    Role.MAINTAINER: (Right.MAINTAIN,),
    Role.ADMIN: (Right.DEFINE, Right.GRANT),
}
ROLES: Final[tuple[Role, ...]] = tuple(Role)
"""In the order of their rights."""
RIGHTS: Final[dict[Role, frozenset[Right]]] = {
    role: frozenset(right for lower in ROLES[: number + 1] for right in _ADDED[lower])
    for number, role in enumerate(ROLES)
}
"""The rights of each role. No role has ``Right.ADMINISTER``."""


class Scope(msgspec.Struct, frozen=True):
    """The names that a pattern fits: the table ``text``, or all names that begin with ``text``.

    A namespace counts as the name of its tables up to the dot.
    """

    text: str
    is_table: bool = False

    @property
    def pattern(self) -> str:
        """The pattern in its normal form."""
        if self.is_table:
            return self.text
        return self.text[:-1] if self.text.endswith(".") else f"{self.text}*"


@functools.lru_cache(maxsize=16_384)
def scope_of(pattern: str) -> Scope:
    """The scope of a pattern; raises ``ValueError``.

    ``*`` is everything, ``shop`` a namespace with its tables, ``shop.orders`` one table. A star at the end
    stands for the rest of a name.
    """
    if len(pattern) > PATTERN_CHARS_MAX or not _NAMES.match(pattern):
        raise ValueError(
            f"{pattern[:300]!r} is no pattern: * (everything), shop (a namespace with its tables), shop.orders "
            "(one table), or one of these with a star at the end (shop.raw_*)"
        )
    if pattern.endswith("*"):
        return Scope(pattern[:-1])
    return Scope(pattern, is_table=True) if "." in pattern else Scope(f"{pattern}.")


def refuse_unknown_subject(subject: str) -> None:
    """Raise ``ValueError`` unless a text has the form of a subject that can hold roles."""
    if len(subject) > SUBJECT_CHARS_MAX or not _SUBJECT.match(subject):
        raise ValueError(
            f"{subject[:300]!r} is no subject: token:<id of the token>, or oidc:<alias of the issuer>:<sub>; "
            "chronolake whoami shows callers their subject"
        )
