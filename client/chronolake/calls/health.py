"""The call for the health of tables."""

from __future__ import annotations

from chronolake.calls.base import Call, query
from chronolake_model.health import HEALTH_LIMIT_MAX, HealthPage


def first() -> Call[HealthPage]:
    """The first page, as short as one can be: for its ``refusal``."""
    return Call("GET", "/v1/health", HealthPage, query(limit=1))


def list_all() -> Call[HealthPage]:
    """The health of all tables, by name."""
    return Call("GET", "/v1/health", HealthPage, query(limit=HEALTH_LIMIT_MAX))
