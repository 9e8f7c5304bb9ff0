"""Histories that tests of the store begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from tests.store import tampering
from tests.store.tables_of_types import TablesOfTypes, projections


@pytest.fixture
def history(dsn: str) -> Iterator[TablesOfTypes]:
    """A history with a table of each type; at the end it is verified, and rebuilt without a change."""
    with TablesOfTypes(dsn) as history:
        history.make()
        yield history
        before = projections(dsn)
        asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))
        assert projections(dsn) == before
        assert asyncio.run(verification.verify(Settings(dsn=dsn))).findings == []


@pytest.fixture
def history_dsn(dsn: str) -> str:
    """The DSN of a database with a small history of several tables in it."""
    tampering.make(dsn)
    return dsn
