"""Promise 2: verify detects and names every change of the log or of a projection made around the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain.proof import Check
from chronolake_metastore.projections.registry import TABLES
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import replay_tables
from chronolake_metastore.store.postgres.engine import Database
from tests.forked_program import run
from tests.store import tampering
from tests.store.tampering import CLICKS, EVENT, NO_TABLE, ORDERS, failed_checks, tamper


@pytest.fixture
def overlapping(history_dsn: str) -> str:
    """Two live tables, one in the folder of the other, as of a release that did not compare them."""
    statement = "UPDATE base_path SET is_checked = false, key = {} WHERE table_id = {}"
    tamper(history_dsn, statement.format("'s3://lake/'", ORDERS), statement.format("'s3://lake/x/'", CLICKS))
    return history_dsn


def test_tables_whose_base_paths_overlap_are_named(overlapping: str) -> None:
    both = [("shop.clicks", "shop.orders"), ("shop.orders", "shop.clicks")]

    assert shared_base_paths(overlapping) == both
    assert shared_base_paths(overlapping, table="shop.orders") == both[1:]
    tamper(overlapping, f"UPDATE lake_table SET dropped_at = now() WHERE table_id = {CLICKS}")
    assert shared_base_paths(overlapping) == []


def test_a_table_whose_base_path_cannot_be_compared_is_named(history_dsn: str) -> None:
    assert shared_base_paths(history_dsn) == []
    tamper(history_dsn, f"UPDATE base_path SET is_checked = false, key = NULL WHERE table_id = {ORDERS}")
    assert shared_base_paths(history_dsn) == [("shop.orders", None)]


def test_the_command_gives_a_remedy_for_overlapping_base_paths(overlapping: str) -> None:
    assert (
        "shop.orders: its base path overlaps with that of shop.clicks, so none of its files is deleted; "
        "drop one of the two tables, or create it anew elsewhere"
    ) in run("verify", "--dsn", overlapping).stdout.splitlines()


def shared_base_paths(dsn: str, **options: Any) -> list[tuple[str, str | None]]:
    return [(shared.table, shared.other) for shared in tampering.verify(dsn, **options).shared_base_paths]


def test_an_unchanged_history_has_no_finding(history_dsn: str) -> None:
    report = tampering.verify(history_dsn)

    assert (report.findings, report.not_compared) == ([], [])
    assert (report.tables, report.events, report.files) == (4, tampering.EVENTS, 3)


def test_an_empty_database_has_no_finding(dsn: str) -> None:
    assert tampering.verify(dsn).holds


def test_one_table_is_verified_by_itself(history_dsn: str) -> None:
    report = tampering.verify(history_dsn, table="shop.orders")

    assert report.holds
    assert (report.tables, report.events) == (1, tampering.ORDERS_EVENTS)


def test_a_session_with_replay_tables_cannot_write_into_a_projection_by_mistake(history_dsn: str) -> None:
    async def write() -> None:
        database = Database(Settings(dsn=history_dsn))
        async with replay_tables.opened(database, TABLES) as session, session.replaying() as tx:
            await tx.query("INSERT INTO chronolake.namespace VALUES ('mine', '{}', now())", {})

    with pytest.raises(errors.DatabaseUnavailable) as refused:
        asyncio.run(write())
    assert "read-only" in refused.value.context["reason"]


def test_a_refusal_before_the_first_event_is_no_finding(dsn: str) -> None:
    tampering.refuse(dsn)

    assert tampering.verify(dsn).holds


INSTANT = "action, operation, state, writer, lease_seconds, lease_expires_at, summary, extra_metadata, version"
PROJECTED = [
    f"UPDATE clock SET version = version + 1 WHERE table_id = {ORDERS}",
    f"UPDATE clock SET last_time = last_time - interval '1 s' WHERE table_id = {ORDERS}",
    f"UPDATE clock SET hash = sha256('') WHERE table_id = {ORDERS}",
    f"UPDATE clock SET tick_us = 1 WHERE table_id = {ORDERS}",
    f"DELETE FROM clock WHERE table_id = {ORDERS}",
    f"INSERT INTO clock SELECT {NO_TABLE}, tick_us, last_time, version, hash FROM clock LIMIT 1",
    f"UPDATE answer_chain SET number = number + 1 WHERE chain_id = {ORDERS}",
    f"UPDATE answer_chain SET hash = sha256('') WHERE chain_id = {ORDERS}",
    f"DELETE FROM answer_chain WHERE chain_id = {ORDERS}",
    f"INSERT INTO answer_chain SELECT {NO_TABLE}, number, hash FROM answer_chain LIMIT 1",
    'UPDATE namespace SET properties = \'{"a": "b"}\'',
    "DELETE FROM namespace",
    "INSERT INTO namespace VALUES ('old', '{}', now())",
    "UPDATE lake_table SET definition = definition || '{\"base_path\": \"/mine\"}' WHERE name = 'orders'",
    "UPDATE lake_table SET dropped_at = NULL WHERE name = 'gone'",
    "DELETE FROM lake_table WHERE name = 'gone'",
    f"INSERT INTO lake_table SELECT {NO_TABLE}, 'shop', 'more', definition, created_at FROM lake_table LIMIT 1",
    "UPDATE instant SET writer = 'mallory' WHERE state = 'completed'",
    "UPDATE instant SET extra_metadata = '{\"a\": \"b\"}' WHERE state = 'completed'",
    "UPDATE instant SET state = 'rolled_back', completion_time = NULL, rolled_back_at = completion_time"
    " WHERE state = 'completed'",
    # A number that is equal in JSON, and that no server reads.
    "UPDATE instant SET summary = replace(summary::text, '\"files\":1,', '\"files\":1.0,')::json"
    " WHERE summary IS NOT NULL",
    "DELETE FROM instant WHERE state = 'requested'",
    f"INSERT INTO instant (table_id, requested_time, completion_time, {INSTANT}) SELECT table_id, "
    f"requested_time + interval '1 us', completion_time + interval '1 us', {INSTANT} FROM instant",
    "UPDATE instant SET schema_version = 2 WHERE state = 'requested'",
    "UPDATE schema_version SET fields = fields - 0 WHERE schema_version = 2",
    "DELETE FROM schema_version WHERE schema_version = 1",
    "UPDATE file SET superseded_at = NULL",
    "UPDATE file SET size_bytes = size_bytes - 1",
    "UPDATE file SET column_stats = NULL",
    "UPDATE file SET has_field_ids = false",
    "DELETE FROM file WHERE superseded_at IS NOT NULL",
    "INSERT INTO file SELECT table_id, 99, requested_time, completion_time, live_from, superseded_at, "
    "withdrawn_at, cleaned_by, size_bytes, records, ordinal, schema_version, has_field_ids, kind, "
    "partition_path, file_id, 'more' FROM file LIMIT 1",
]


def _together(changes: Sequence[str]) -> list[dict[str, str]]:
    """Changes that are made at once: in each group one of each projection, by its name."""
    groups: list[dict[str, str]] = []
    for change in changes:
        projection = change.split()[1 if change.startswith("UPDATE") else 2]
        free = next((group for group in groups if projection not in group), None)
        if free is None:
            groups.append(free := {})
        free[projection] = change
    return groups


@pytest.mark.parametrize("changes", _together(PROJECTED))
def test_changed_projections_are_detected_and_repaired_by_a_rebuild(
    history_dsn: str, changes: dict[str, str]
) -> None:
    tamper(history_dsn, *changes.values())
    findings = tampering.verify(history_dsn).findings
    repaired = tampering.rebuild(history_dsn).repaired

    assert {finding.check for finding in findings} == {Check.PROJECTION}
    assert {finding.what.partition("(")[0] for finding in findings} == changes.keys()
    assert {name for name, rows in repaired.items() if rows} == changes.keys()
    assert tampering.verify(history_dsn).holds


@pytest.mark.parametrize("moved", ["1", "1000000"])
def test_a_changed_transaction_of_an_event_is_a_changed_event(history_dsn: str, moved: str) -> None:
    tamper(
        history_dsn,
        f"UPDATE event SET transaction_id = (transaction_id::text::bigint + {moved})::text::xid8 {EVENT} 2",
    )

    assert (Check.HASH, "shop.orders", 2) in failed_checks(history_dsn)


def test_a_changed_transaction_of_a_refusal_is_a_changed_outcome(history_dsn: str) -> None:
    tampering.refuse(history_dsn, "shop.orders")
    tamper(history_dsn, "UPDATE refusal SET transaction_id = '1'")

    assert {check for check, _, _ in failed_checks(history_dsn)} == {Check.OUTCOME}


def test_a_finding_names_the_column_that_differs_and_both_values(history_dsn: str) -> None:
    tamper(history_dsn, "UPDATE file SET records = 11 WHERE superseded_at IS NOT NULL")

    [finding] = tampering.verify(history_dsn).findings

    assert finding.table == "shop.orders"
    assert finding.what.startswith("file(version=3, ordinal=0, live_from=")
    assert (finding.expected, finding.found) == ("records=10", "records=11")


def test_missing_projections_are_detected_and_rebuilt(history_dsn: str) -> None:
    gone = (
        "clock",
        "answer_chain",
        "namespace",
        "lake_table",
        "base_path",
        "schema_version",
        "instant",
        "file",
    )
    tamper(history_dsn, *(f"DELETE FROM {name}" for name in gone))

    assert len(tampering.verify(history_dsn).findings) == 4 + 4 + 1 + 3 + 3 + 4 + 4 + 3
    assert tampering.rebuild(history_dsn).repaired == {
        "clock": 4,
        "answer_chain": 4,
        "namespace": 1,
        "location": 0,
        "role_grant": 0,
        "archived_era": 0,
        "lake_table": 3,
        "base_path": 3,
        "schema_version": 4,
        "instant": 4,
        "file": 3,
        "planned_group": 0,
        "replaced_group": 0,
        "stream": 0,
        "stream_checkpoint": 0,
        "buffered_file": 0,
        "token": 0,
    }
    assert tampering.verify(history_dsn).holds


def test_a_log_that_cannot_be_replayed_is_not_rebuilt_from(history_dsn: str) -> None:
    tamper(history_dsn, f"DELETE FROM event {EVENT} 2", "DELETE FROM namespace")

    ended = run("rebuild", "--dsn", history_dsn)

    assert (ended.returncode, "version 3" in ended.stderr, "verify" in ended.stderr) == (2, True, True)
    assert "Traceback" not in ended.stderr
    assert (Check.PROJECTION, "(catalog)", None) in failed_checks(history_dsn)
