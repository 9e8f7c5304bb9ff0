"""Helpers of the tests of ``chronolake ingest`` besides fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chronolake_spark import SparkTable

Ingest = Callable[..., dict[str, Any]]
"""Runs ``chronolake ingest`` with options, and returns its result."""


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.read().collect())
