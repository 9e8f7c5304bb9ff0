"""Roles of subjects, and questions about rights."""

from __future__ import annotations

from typing import Final

from chronolake_model.access import Allowed, CanI, Grant, GrantPage, GrantRole, RevokeRole, WhoAmI
from chronolake_model.operations.declaring import command, question, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.roles import Right

GRANT_ROLE: Final = command(
    "POST",
    "/v1/grants",
    "Grant a role",
    Code.TABLE_NOT_FOUND,
    tag="Access",
    body=GrantRole,
    answer=Grant,
    right=Right.GRANT,
    creates=True,
)
REVOKE_ROLE: Final = command(
    "POST",
    "/v1/grants/revoke",
    "Revoke a role",
    Code.TABLE_NOT_FOUND,
    tag="Access",
    body=RevokeRole,
    answer=type(None),
    right=Right.GRANT,
)
LIST_GRANTS: Final = read("/v1/grants", "List grants", Code.INVALID_CURSOR, tag="Access", answer=GrantPage)
WHO_AM_I: Final = read("/v1/whoami", "Who is the caller?", tag="Access", answer=WhoAmI)
CAN_I: Final = question("/v1/can-i", "May the caller do this?", tag="Access", body=CanI, answer=Allowed)
