"""The context in which tests ask the core, and its results as reads show the same objects."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.domain import results
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.queries import instants as queries
from chronolake_model import instants as wire

TESTER: Final = Context("tester", "request")


def instant(result: AnyResult | None) -> wire.Instant:
    """The instant of a result."""
    assert isinstance(result, results.InstantResult), result
    return queries.document(result.of)


def together(result: AnyResult) -> list[wire.Instant]:
    """Instants that completed together."""
    assert isinstance(result, results.CompletedInstantsResult), result
    return [queries.document(completed) for completed in result.instants]


def clean(result: AnyResult) -> wire.Instant | None:
    """The clean of a result, if something is to be cleaned."""
    assert isinstance(result, results.CleanResult), result
    return None if result.clean is None else queries.document(result.clean)


def staged(result: AnyResult) -> results.StagingResult:
    """The write stats that were staged."""
    assert isinstance(result, results.StagingResult), result
    return result
