"""/health and /ready"""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.di import NamedDependency

from chronolake_metastore.api import problems
from chronolake_metastore.queries import readiness
from chronolake_metastore.store.engine import Database

TAGS = ["Operations"]


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str = "ok"


@get("/health", summary="Is the process alive?", tags=TAGS)
async def get_health() -> Health:
    """Answers as long as the process does, whatever the database does."""
    return Health()


@get("/ready", summary="Can the server serve?", tags=TAGS, responses=problems.of_query())
async def get_ready(database: NamedDependency[Database]) -> Health:
    """Answers 200 when the database answers and has the schema that this server knows, else 503."""
    await readiness.check(database)
    return Health()
