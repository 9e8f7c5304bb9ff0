"""Grants: which subject has which role on which names (docs/decisions/0100-rights.md). No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import Event, RoleGranted, RoleRevoked
from chronolake_metastore.domain.tables import Table
from chronolake_model import roles
from chronolake_model.roles import GRANTS_PER_NAMESPACE_MAX, GRANTS_PER_SUBJECT_MAX, Role, Scope
from chronolake_model.times import Micros


class GrantRole(Command, frozen=True):
    """Grant a role on a pattern, which replaces the role that the subject has there."""

    subject: str
    role: Role
    on: str


class RevokeRole(Command, frozen=True):
    """Revoke the role that was granted on a pattern."""

    subject: str
    on: str


AnyGrantCommand: TypeAlias = GrantRole | RevokeRole


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A role of a subject on the names of ``pattern``, or on a table.

    The ``pattern`` of a table is its name.
    """

    subject: str
    role: Role
    pattern: str
    table_id: UUID | None = None
    granted_at: Micros
    granted_by: str


def key_of(pattern: str, table_id: UUID | None) -> str:
    """The text by which a subject has one role at most. A name has no colon."""
    return pattern if table_id is None else f"table:{table_id}"


def scope_of(command: AnyGrantCommand) -> Scope:
    """The scope of a command; raises ``InvalidRequest``."""
    try:
        roles.refuse_unknown_subject(command.subject)
        return roles.scope_of(command.on)
    except ValueError as exc:
        raise errors.InvalidRequest(str(exc)) from exc


def present(
    existing: Sequence[StoredGrant], command: AnyGrantCommand, table: Table | None
) -> StoredGrant | None:
    """The role that the subject of a command has there. ``existing`` are the grants of the subject."""
    key = key_of(scope_of(command).pattern, None if table is None else table.table_id)
    return next((grant for grant in existing if key_of(grant.pattern, grant.table_id) == key), None)


def grant(existing: Sequence[StoredGrant], command: GrantRole, table: Table | None) -> RoleGranted | None:
    """The event; None if the subject has the role there. Raises ``InvalidRequest`` for too many roles."""
    before = present(existing, command, table)
    if before is not None and before.role is command.role:
        return None
    if before is None:
        _refuse_too_many(existing, command)
    return RoleGranted(
        subject=command.subject,
        role=command.role,
        pattern=scope_of(command).pattern,
        table_id=None if table is None else table.table_id,
    )


def _refuse_too_many(existing: Sequence[StoredGrant], command: GrantRole) -> None:
    namespace = _namespace_of(command.on)
    within = sum(_namespace_of(grant.pattern) == namespace for grant in existing)
    if len(existing) >= GRANTS_PER_SUBJECT_MAX:
        has, where = GRANTS_PER_SUBJECT_MAX, ""
    elif within >= GRANTS_PER_NAMESPACE_MAX:
        has, where = GRANTS_PER_NAMESPACE_MAX, f" within {namespace!r}"
    else:
        return
    raise errors.InvalidRequest(
        f"{command.subject} has {has:,} roles{where}, the most that a subject may have there; grant roles on "
        "patterns instead"
    )


def _namespace_of(pattern: str) -> str:
    """The namespace of a pattern; one without a dot, such as ``team_*``, counts as its own."""
    return pattern.partition(".")[0]


def revoke(existing: Sequence[StoredGrant], command: RevokeRole, table: Table | None) -> RoleRevoked | None:
    """The event; None if the subject has no role there."""
    if present(existing, command, table) is None:
        return None
    return RoleRevoked(
        subject=command.subject,
        pattern=scope_of(command).pattern,
        table_id=None if table is None else table.table_id,
    )


def evolve(granted: RoleGranted, event: Event) -> StoredGrant:
    """The grant that an event made."""
    return StoredGrant(
        subject=granted.subject,
        role=granted.role,
        pattern=granted.pattern,
        table_id=granted.table_id,
        granted_at=event.time,
        granted_by=event.actor,
    )
