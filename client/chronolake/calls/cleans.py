"""Calls of cleans."""

from __future__ import annotations

from chronolake.calls.base import Call, post, table_path
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean, PlannedClean


def plan(name: str, body: PlanClean) -> Call[PlannedClean]:
    """Plan a clean, or resume the pending one."""
    return post(f"{table_path(name)}/cleans", PlannedClean, body)


def preview(name: str, body: CleanPolicy) -> Call[CleanPreview]:
    """The files that a clean would delete."""
    return post(f"{table_path(name)}/clean-plans", CleanPreview, body, is_query=True)
