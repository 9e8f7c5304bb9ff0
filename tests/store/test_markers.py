"""Markers beside the log: neither verified nor rebuilt, and written by the server alone."""

from __future__ import annotations

import psycopg
import pytest

from tests.store import tampering
from tests.store.history import History, make_history

MARKERS = (
    "SELECT requested_time, partition_path, file_name, kind, created_at FROM chronolake.marker ORDER BY 1, 2, 3"
)


@pytest.fixture
def times(dsn: str) -> dict[str, str]:
    """The times of a history in which a pending instant has two markers."""
    with History(dsn) as lake:
        return make_history(lake)


def rows(dsn: str, query: str, role: str = "chronolake_server") -> list[tuple[object, ...]]:
    """The rows that a role reads."""
    with psycopg.connect(dsn) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        return connection.execute(query.encode()).fetchall()


@pytest.mark.usefixtures("times")
def test_a_log_verifies_with_any_markers(dsn: str) -> None:
    assert tampering.verify(dsn).findings == []


@pytest.mark.usefixtures("times")
def test_a_rebuild_leaves_markers_alone(dsn: str) -> None:
    before = rows(dsn, MARKERS)

    tampering.rebuild(dsn)

    assert len(before) == 2
    assert rows(dsn, MARKERS) == before


@pytest.mark.parametrize(
    "change", ["UPDATE chronolake.marker SET kind = 'MERGE'", "TRUNCATE chronolake.marker"]
)
def test_the_servers_role_changes_no_marker(dsn: str, change: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rows(dsn, change)


def test_an_auditor_sees_the_files_that_instants_may_have_in_storage(dsn: str, times: dict[str, str]) -> None:
    seen = rows(
        dsn,
        "SELECT table_name, requested_digits, state, writer, kind FROM chronolake.audit_markers",
        "chronolake_auditor",
    )

    assert seen == [("shop.orders", times["abandoned"], "inflight", "dead", "CREATE")] * 2


def test_an_auditor_changes_no_marker(dsn: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rows(dsn, "DELETE FROM chronolake.marker", "chronolake_auditor")
