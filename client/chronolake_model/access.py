"""Bodies of the REST API for access: roles, grants, and questions about rights."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.roles import (
    NAMES_PATTERN,
    PATTERN_CHARS_MAX,
    SUBJECT_CHARS_MAX,
    SUBJECT_PATTERN,
    Right,
    Role,
    refuse_unknown_subject,
    scope_of,
)

CHECKS_MAX: Final = 100

Pattern = Annotated[
    str,
    Meta(
        extra_json_schema={"pattern": NAMES_PATTERN},
        max_length=PATTERN_CHARS_MAX,
        description=(
            "`*` is everything, `shop` a namespace with its tables, `shop.raw_*` the names that begin so, and "
            "`shop.orders` one table, which keeps the grant when it is renamed."
        ),
        examples=["shop"],
    ),
]
SubjectName = Annotated[
    str,
    Meta(
        extra_json_schema={"pattern": SUBJECT_PATTERN},
        max_length=SUBJECT_CHARS_MAX,
        description="`token:<id>` or `oidc:<alias>:<sub>`.",
        examples=["token:abcdefghij"],
    ),
]


class GrantRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Grant a role. A subject has one role on a pattern: another one replaces it."""

    subject: SubjectName
    role: Role
    on: Pattern

    def __post_init__(self) -> None:
        # Not a pattern of the decoder: its refusal would show the pattern alone.
        refuse_unknown_subject(self.subject)
        scope_of(self.on)


class RevokeRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke the role of a subject on a pattern, exactly as it was granted."""

    subject: SubjectName
    on: Pattern

    def __post_init__(self) -> None:
        refuse_unknown_subject(self.subject)
        scope_of(self.on)


class Grant(msgspec.Struct, frozen=True):
    """A role of a subject. ``on`` is a pattern, or the present name of the table ``table_id``."""

    subject: str
    role: Role
    on: str
    granted_at: datetime
    granted_by: str
    table_id: str | None = None


class GrantPage(msgspec.Struct, frozen=True):
    """A page of grants, in the order of their subjects."""

    grants: list[Grant]
    next_cursor: str | None


class WhoAmI(msgspec.Struct, frozen=True):
    """The caller. ``is_unlimited`` if it may do everything: the static admin, or access is off."""

    subject: str
    may_act_for_others: bool
    is_unlimited: bool
    grants: list[Grant]


class RightCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Does the caller have a right on all that a pattern fits?"""

    right: Right
    on: Pattern

    def __post_init__(self) -> None:
        scope_of(self.on)


class CanI(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for rights of the caller, many at once."""

    checks: Annotated[list[RightCheck], Meta(min_length=1, max_length=CHECKS_MAX)]


class Allowed(msgspec.Struct, frozen=True):
    """The answers, in the order of the checks."""

    allowed: list[bool]
