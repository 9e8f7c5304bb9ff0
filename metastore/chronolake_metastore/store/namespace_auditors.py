"""The logins of PostgreSQL that audit a namespace: rights in the database, which the log does not have."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database

ROLE: Final = "chronolake_namespace_auditor"
"""The role of all auditors of namespaces."""
LISTED_MAX: Final = 10_000
_ALLOW: Final = statements.load("namespace_auditors/allow")
_REVOKE: Final = "DELETE FROM namespace_auditor WHERE login = %(login)s::text AND namespace = %(namespace)s"
_LIST: Final = """
    SELECT login, namespace, pg_get_userbyid(login_oid) = login
    FROM namespace_auditor
    ORDER BY namespace, login
    LIMIT %(limit)s
"""


class NamespaceAuditor(msgspec.Struct, frozen=True):
    """A login that audits a namespace; not if the login was dropped or renamed since it was allowed."""

    login: str
    namespace: str
    is_known: bool


class AllowedAuditor(msgspec.Struct, frozen=True):
    """Whether the login was not allowed before, and the statement without which it cannot read the views."""

    is_changed: bool
    missing_grant: str | None


async def allow(database: Database, login: str, namespace: str) -> AllowedAuditor | None:
    """Let a login audit a namespace; None if PostgreSQL has no such login."""
    async with database.committing() as connection:
        rows = await connection.execute(_ALLOW, {"login": login, "namespace": namespace})
        row = rows.one_or_none()
    return None if row is None else AllowedAuditor(*row)


async def revoke(database: Database, login: str, namespace: str) -> bool:
    """Let a login no longer audit a namespace; gives whether it was allowed."""
    async with database.committing() as connection:
        rows = await connection.execute(_REVOKE, {"login": login, "namespace": namespace})
        return rows.changed > 0


async def listed(database: Database) -> list[NamespaceAuditor]:
    """The logins that audit namespaces, by namespace, ``LISTED_MAX`` at most."""
    async with database.reading() as connection:
        rows = await connection.execute(_LIST, {"limit": LISTED_MAX})
        return [NamespaceAuditor(*row) for row in rows]
