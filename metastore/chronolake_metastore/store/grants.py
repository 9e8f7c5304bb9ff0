"""The roles of subjects as a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from chronolake_metastore.domain.grants import StoredGrant, key_of
from chronolake_metastore.domain.rights import HeldRole, Rights
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Statement, read
from chronolake_model.roles import GRANTS_PER_SUBJECT_MAX, Role, Scope, scope_of
from chronolake_model.times import Micros

_FIND: Final = statements.load("grants/find")
_PAGE: Final = statements.load("grants/page")
_SAVE: Final = statements.load("grants/save")
_DELETE: Final = """
    DELETE FROM role_grant
    WHERE (subject, key) IN (SELECT * FROM unnest(%(subject)s::text[], %(key)s::text[]))
"""
_DELETE_OF_TABLES: Final = "DELETE FROM role_grant WHERE table_id = ANY (%(table_ids)s::uuid[])"


def find(subject: str) -> Query[list[StoredGrant]]:
    """The grants of a subject, in the order of their keys."""
    parameters = {"subject": subject, "limit": GRANTS_PER_SUBJECT_MAX}
    return Query(_FIND, parameters, lambda rows: [_grant(row) for row in rows])


async def rights_of(connection: Connection, subject: str) -> Rights:
    """All rights of a subject."""
    grants = await read(connection, find(subject))
    return Rights(
        tuple(
            HeldRole(grant.role, None, grant.pattern, grant.table_id)
            if grant.table_id is not None
            else HeldRole(grant.role, scope_of(grant.pattern).text)
            for grant in grants
        )
    )


async def page(
    connection: Connection,
    of_subject: str | None,
    rights: Rights,
    reader: str,
    after: tuple[str, str],
    limit: int,
) -> list[tuple[str, StoredGrant]]:
    """Grants after ``after`` (subject, key), in that order, each with its key.

    Those of ``reader`` itself, and those that ``rights`` may grant.
    """
    granting = [role for role in rights.held if role.role is Role.ADMIN]
    parameters = {
        "subject": of_subject,
        "reader": reader,
        "all": rights.is_unlimited,
        "prefixes": [role.prefix for role in granting if role.prefix is not None],
        "table_ids": [role.table_id for role in granting if role.table_id is not None],
        "after_subject": after[0],
        "after_key": after[1],
        "limit": limit,
    }
    rows = await connection.execute(_PAGE, parameters)
    return [(row[0], _grant(tuple(row)[1:])) for row in rows]


def save(grants: Sequence[StoredGrant]) -> Statement:
    """Save grants, each in place of the one with its key."""
    return _SAVE, {
        "subject": [grant.subject for grant in grants],
        "key": [key_of(grant.pattern, grant.table_id) for grant in grants],
        "prefix": [None if grant.table_id else scope_of(grant.pattern).text for grant in grants],
        "table_id": [grant.table_id for grant in grants],
        "role": [grant.role.value for grant in grants],
        "granted_at": [grant.granted_at for grant in grants],
        "granted_by": [grant.granted_by for grant in grants],
    }


def delete(keys: Iterable[tuple[str, str]]) -> Statement:
    """Delete grants, which (subject, key) name."""
    named = sorted(keys)
    return _DELETE, {"subject": [subject for subject, _ in named], "key": [key for _, key in named]}


def delete_of_tables(table_ids: Iterable[UUID]) -> Statement:
    """Delete the grants on tables that were dropped."""
    return _DELETE_OF_TABLES, {"table_ids": sorted(table_ids)}


async def get_rights(database: Database, subject: str) -> Rights:
    """As ``rights_of``, on a connection for identifying callers."""
    async with database.identifying() as connection:
        return await rights_of(connection, subject)


def _grant(row: tuple[Any, ...]) -> StoredGrant:
    subject, role, prefix, table, table_id, granted_at, granted_by = row
    return StoredGrant(
        subject=subject,
        role=Role(role),
        pattern=table if prefix is None else Scope(prefix).pattern,
        table_id=table_id,
        granted_at=Micros(granted_at),
        granted_by=granted_by,
    )
