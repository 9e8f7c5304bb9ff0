"""The roles of subjects, and what the caller may do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.grants import StoredGrant
from chronolake_metastore.queries import cursors
from chronolake_metastore.store import grants as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read
from chronolake_model import access
from chronolake_model.roles import Right, Scope
from chronolake_model.times import to_datetime


class _GrantPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="g"):
    """The place after a grant, in the order of subjects."""

    subject: str
    key: str


async def page(
    ctx: Context, database: Database, subject: str | None, limit: int, cursor: str | None
) -> access.GrantPage:
    """Grants in the order of their subjects; raises ``InvalidCursor``.

    Those of the caller, and those on what the caller may grant roles on.
    """
    after = _GrantPlace("", "") if cursor is None else cursors.decode(cursor, _GrantPlace)
    async with database.reading() as connection:
        place = after.subject, after.key
        grants = await stored.page(connection, subject, ctx.rights, ctx.subject.name, place, limit + 1)
    of_page = grants[:limit]
    next_cursor = None
    if len(grants) > limit:
        key, last = of_page[-1]
        next_cursor = cursors.encode(_GrantPlace(last.subject, key))
    return access.GrantPage([document(grant) for _, grant in of_page], next_cursor)


async def who_am_i(ctx: Context, database: Database) -> access.WhoAmI:
    """The caller, with all of its grants."""
    async with database.reading() as connection:
        grants = await read(connection, stored.find(ctx.subject.name))
    return access.WhoAmI(
        subject=ctx.subject.name,
        may_act_for_others=ctx.subject.may_act_for_others,
        is_unlimited=ctx.rights.is_unlimited,
        grants=[document(grant) for grant in grants],
    )


async def can_i(ctx: Context, database: Database, checks: Sequence[tuple[Right, Scope]]) -> list[bool]:
    """Whether the caller has each right on all names of a scope."""
    return [ctx.rights.may(right, scope) for right, scope in checks]


def document(grant: StoredGrant) -> access.Grant:
    """The grant as the REST API shows it."""
    return access.Grant(
        subject=grant.subject,
        role=grant.role,
        on=grant.pattern,
        granted_at=to_datetime(grant.granted_at),
        granted_by=grant.granted_by,
        table_id=None if grant.table_id is None else str(grant.table_id),
    )
