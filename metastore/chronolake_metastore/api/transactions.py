"""/v1/transactions"""

from __future__ import annotations

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.domain import transactions
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_model.instants import CompletedTogether, CompleteTogether
from chronolake_model.problems import ProblemCode


@post(
    "/transactions/complete",
    summary="Complete several instants together",
    status_code=200,
    tags=["Timeline"],
    responses=problems.of_command(
        ProblemCode.TABLE_NOT_FOUND,
        ProblemCode.INSTANT_NOT_FOUND,
        ProblemCode.ILLEGAL_TRANSITION,
        ProblemCode.LEASE_LIVE,
        ProblemCode.WRITE_CONFLICT,
        ProblemCode.INSTANT_ROLLED_BACK,
        ProblemCode.INVALID_WRITE_STAT,
        ProblemCode.INVALID_PLAN,
        ProblemCode.UNDELETED_FILES,
    ),
)
async def complete_together(
    data: JSONBody[CompleteTogether], keyed_caller: NamedDependency[Caller]
) -> Response[CompletedTogether]:
    """Publish instants of one or several tables, all or none, at one position in the order of the log."""
    members = [
        CompleteInstant(
            member.table, time_in_body(f"instants[{index}].requested_time", member.requested_time), member
        )
        for index, member in enumerate(data.instants)
    ]
    return await keyed_caller.execute(transactions.CompleteTogether(members))
