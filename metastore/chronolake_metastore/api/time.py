"""/v1/time"""

from __future__ import annotations

from litestar.di import NamedDependency

from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.routes import route
from chronolake_metastore.notes import metastore
from chronolake_model import operations
from chronolake_model.instants import TimeInterval


@route(operations.catalog.GET_TIME)
async def get_time(caller: NamedDependency[Caller]) -> TimeInterval:
    """An interval that contains the present time, for every table and every server."""
    return await caller.note(metastore.return_time)
