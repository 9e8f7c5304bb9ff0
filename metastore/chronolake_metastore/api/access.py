"""/v1/grants, /v1/whoami and /v1/can-i"""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import grants, rights
from chronolake_metastore.queries import grants as queries
from chronolake_model import operations
from chronolake_model.access import Allowed, CanI, Grant, GrantPage, GrantRole, RevokeRole, WhoAmI
from chronolake_model.roles import SUBJECT_CHARS_MAX


@route(operations.access.GRANT_ROLE)
async def grant_role(data: JSONBody[GrantRole], keyed_caller: NamedDependency[Caller]) -> Response[Grant]:
    """Grant a role on a pattern of names, or on a table. The subject need not exist yet."""
    return await keyed_caller.execute(grants.GrantRole(**asdict(data)))


@route(operations.access.REVOKE_ROLE)
async def revoke_role(data: JSONBody[RevokeRole], keyed_caller: NamedDependency[Caller]) -> Response[None]:
    """Revoke a role. It is a success if the subject has none there."""
    return await keyed_caller.execute(grants.RevokeRole(**asdict(data)))


@route(operations.access.LIST_GRANTS)
async def list_grants(
    caller: NamedDependency[Caller],
    subject: Annotated[
        str | None, QueryParameter(description="Only those of this subject.", max_length=SUBJECT_CHARS_MAX)
    ] = None,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> GrantPage:
    """The caller's own grants, and all on names that it may grant roles on, page by page."""
    return await caller.read(queries.page, subject, limit, cursor)


@route(operations.access.WHO_AM_I)
async def who_am_i(caller: NamedDependency[Caller]) -> WhoAmI:
    """The caller, and its grants."""
    return await caller.read(queries.who_am_i)


@route(operations.access.CAN_I)
async def can_i(data: JSONBody[CanI], caller: NamedDependency[Caller]) -> Allowed:
    """Whether the caller has rights. The answer does not tell whether the names exist."""
    scopes = [rights.scopes_of([check.on])[0] for check in data.checks]
    checks = [(check.right, scope) for check, scope in zip(data.checks, scopes, strict=True)]
    return Allowed(await caller.read(queries.can_i, checks))
