"""/v1/transactions"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.instants import completion
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import transactions
from chronolake_model import operations
from chronolake_model.instants import CompletedTogether, CompleteTogether


@route(operations.timeline.COMPLETE_TOGETHER)
async def complete_together(
    data: JSONBody[CompleteTogether], keyed_caller: NamedDependency[Caller]
) -> Response[CompletedTogether]:
    """Publish instants of one or several tables, all or none, at one position in the order of the log."""
    members = [
        completion(
            member.table, time_in_body(f"instants[{index}].requested_time", member.requested_time), member
        )
        for index, member in enumerate(data.instants)
    ]
    return await keyed_caller.execute(transactions.CompleteTogether(members))
