"""A batch is run again while the database is unavailable or other transactions come first, and not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from chronolake_metastore import errors
from chronolake_metastore.batching import batcher
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store.postgres.transaction import MarkedMeanwhile, OutcomeRaced


def run(failures: Iterator[Exception], seconds: float = 60.0) -> tuple[str, int]:
    """The result of a batch that fails so, and how often it was run."""
    runs = 0

    async def batch() -> str:
        nonlocal runs
        runs += 1
        for failure in failures:
            raise failure
        return "done"

    result = asyncio.run(batcher.run_until(batch, Metrics(), time.monotonic() + seconds))
    return result, runs


def test_a_batch_that_other_transactions_race_is_run_again() -> None:
    assert run(iter([OutcomeRaced(), MarkedMeanwhile(), errors.DatabaseUnavailable("away")])) == ("done", 4)


def test_a_batch_that_is_raced_for_ever_is_given_up() -> None:
    def races() -> Iterator[Exception]:
        while True:
            yield OutcomeRaced()

    with pytest.raises(errors.Overloaded, match="again later"):
        run(races(), seconds=0)


def test_a_database_that_stays_away_is_given_up_after_a_second_try() -> None:
    away = iter([errors.DatabaseUnavailable("away") for _ in range(5)])

    with pytest.raises(errors.DatabaseUnavailable):
        run(away, seconds=0)

    assert len(list(away)) == 3
