"""Calls of adoption."""

from __future__ import annotations

from chronolake.calls.base import Call, post
from chronolake_model.adoption import AdoptedTable, AdoptionCheck, AdoptTable


def adopt(body: AdoptTable) -> Call[AdoptedTable]:
    """Adopt a table that Hudi has written."""
    return post("/v1/tables/adopt", AdoptedTable, body)


def check(body: AdoptTable) -> Call[AdoptionCheck]:
    """Ask whether a table could be adopted."""
    return post("/v1/tables/adopt/dry-run", AdoptionCheck, body, is_query=True)
