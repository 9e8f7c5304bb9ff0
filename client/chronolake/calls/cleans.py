"""Calls of cleans."""

from __future__ import annotations

from chronolake.calls.base import Call, post, table_path
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean, PlannedClean


def plan(name: str, body: PlanClean) -> Call[PlannedClean]:
    """Plan a clean, or go on with the one that is pending."""
    return post(f"{table_path(name)}/cleans", PlannedClean, body)


def preview(name: str, body: CleanPolicy) -> Call[CleanPreview]:
    """Ask what a clean would delete."""
    return post(f"{table_path(name)}/clean-plans", CleanPreview, body, is_query=True)
