"""Promise 2: a change of the log that was made past the database's refusal is found and named."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain.proof import Check
from tests.store import tampering
from tests.store.tampering import EVENT, ORDERS, failed_checks, tamper


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            f"UPDATE event SET payload = jsonb_set(payload::jsonb, '{{writer}}', '\"mallory\"') {EVENT} 2",
            (Check.HASH, 2),
        ),
        (f"UPDATE event SET payload = payload::jsonb || '{{\"note\": 1}}' {EVENT} 2", (Check.HASH, 2)),
        (f"UPDATE event SET payload = payload::jsonb - 'writer' {EVENT} 2", (Check.PAYLOAD, 2)),
        (f"UPDATE event SET actor = 'mallory' {EVENT} 5", (Check.HASH, 5)),
        (f"UPDATE event SET request_id = 'request-0' {EVENT} 5", (Check.HASH, 5)),
        (f"UPDATE event SET request_id = 'none' {EVENT} 5", (Check.OUTCOME, 5)),
        (f"UPDATE event SET type = 'InstantInflight' {EVENT} 9", (Check.HASH, 9)),
        (f"UPDATE event SET type = 'Sacked' {EVENT} 9", (Check.PAYLOAD, 9)),
        (f"UPDATE event SET instant = instant + interval '1 ms' {EVENT} 7", (Check.HASH, 7)),
        (f"UPDATE event SET time = time + interval '1 us' {EVENT} 7", (Check.HASH, 7)),
        (f"UPDATE event SET time = time - interval '1 day' {EVENT} 7", (Check.TIME, 7)),
        (f"UPDATE event SET time = time + interval '1 day' {EVENT} 7", (Check.TIME, 8)),
        (f"UPDATE event SET previous_hash = sha256('') {EVENT} 7", (Check.CHAIN, 7)),
        (f"UPDATE event SET hash = sha256('') {EVENT} 7", (Check.CHAIN, 8)),
        (f"DELETE FROM event {EVENT} 6", (Check.VERSION, 6)),
        (f"DELETE FROM event {EVENT} 9", (Check.OUTCOME, 9)),
        (f"DELETE FROM event {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE event SET version = 100 {EVENT} 9", (Check.VERSION, 9)),
        (
            "UPDATE event e SET transaction_id = other.transaction_id FROM event other "
            f"WHERE (e.table_id, other.table_id) = ({ORDERS}, {ORDERS}) "
            "AND (e.version, other.version) IN ((6, 7), (7, 6))",
            (Check.ORDER, 6),
        ),
        (f"UPDATE write_stat SET size_bytes = size_bytes + 1 {EVENT} 3", (Check.WRITE_STATS, 3)),
        (
            "UPDATE write_stat SET column_stats = replace(column_stats::text, '-3', '4')::json "
            f"{EVENT} 3 AND ordinal = 1",
            (Check.WRITE_STATS, 3),
        ),
        (f"UPDATE write_stat SET column_stats = '[]' {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET column_stats = NULL {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"UPDATE write_stat SET has_field_ids = true {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET has_field_ids = NULL {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"UPDATE write_stat SET kind = 'log' {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET ordinal = 7 {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET ordinal = -1 {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"UPDATE write_stat SET version = 99 {EVENT} 5", (Check.WRITE_STATS, 99)),
        (f"DELETE FROM write_stat {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"DELETE FROM write_stat {EVENT} 5", (Check.WRITE_STATS, 5)),
        (
            "INSERT INTO write_stat SELECT table_id, version, size_bytes, records, inserts, updates, deletes, "
            "2, era, has_field_ids, kind, partition_path, file_id, file_name, column_stats "
            f"FROM write_stat {EVENT} 3 AND ordinal = 0",
            (Check.WRITE_STATS, 3),
        ),
        (f"DELETE FROM outcome {EVENT} 9", (Check.OUTCOME, 9)),
        (f"UPDATE outcome SET version = 99 {EVENT} 9", (Check.OUTCOME, 99)),
    ],
)
def test_a_change_of_the_log_is_detected_at_its_place(
    history_dsn: str, change: str, expected: tuple[Check, int]
) -> None:
    tamper(history_dsn, change)

    everywhere = failed_checks(history_dsn)

    assert (expected[0], "shop.orders", expected[1]) in everywhere
    assert {table for _, table, _ in everywhere} == {"shop.orders"}


def test_a_table_that_is_verified_by_itself_has_the_findings_of_its_own_log(history_dsn: str) -> None:
    tamper(history_dsn, f"UPDATE event SET hash = sha256('') {EVENT} 7")

    assert failed_checks(history_dsn, table="shop.orders") == failed_checks(history_dsn) != set()
    assert failed_checks(history_dsn, table="shop.clicks") == set()


def test_staged_files_count_in_the_event_that_staged_them(history_dsn: str) -> None:
    tampering.stage(history_dsn)

    report = tampering.verify(history_dsn)

    assert (report.findings, report.files) == ([], 5)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE write_stat SET size_bytes = size_bytes + 1",
        "UPDATE write_stat SET version = 4, ordinal = 1",
        "DELETE FROM write_stat",
    ],
)
def test_a_change_of_staged_files_is_detected_at_their_event(history_dsn: str, change: str) -> None:
    tampering.stage(history_dsn)
    clicks = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
    tamper(history_dsn, f"{change} WHERE table_id = {clicks} AND version = 5")

    everywhere = failed_checks(history_dsn)

    assert (Check.WRITE_STATS, "shop.clicks", 5) in everywhere
    assert {table for _, table, _ in everywhere} == {"shop.clicks"}


def test_reported_deletions_are_verified(history_dsn: str) -> None:
    tampering.report_deletions(history_dsn)

    assert tampering.verify(history_dsn).findings == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE deleted_file SET file_name = 'another' WHERE ordinal = 1",
        "UPDATE deleted_file SET requested_time = requested_time - interval '1 ms' WHERE ordinal = 1",
        "UPDATE deleted_file SET ordinal = 1 - ordinal + 100",
        "UPDATE deleted_file SET version = 3 WHERE ordinal = 1",
        "DELETE FROM deleted_file",
    ],
)
def test_a_change_of_reported_deletions_is_detected(history_dsn: str, change: str) -> None:
    tampering.report_deletions(history_dsn)
    tamper(history_dsn, change)

    everywhere = failed_checks(history_dsn)

    assert (Check.DELETIONS, "shop.clicks", 4) in everywhere
    assert {(check, table) for check, table, _ in everywhere} == {(Check.DELETIONS, "shop.clicks")}


def test_the_lists_of_events_are_verified_and_rebuilt_from(history_dsn: str) -> None:
    tampering.plan(history_dsn)

    assert tampering.verify(history_dsn).findings == []
    assert set(tampering.rebuild(history_dsn).repaired.values()) == {0}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE event_entry SET name = 'another' WHERE ordinal = 7", "entry 7 of plan-files"),
        ("UPDATE event_entry SET name = 'another' WHERE ordinal = 149", "the digest over plan-files"),
        ("UPDATE event_entry SET partition_path = '' WHERE ordinal = 149", "the digest over plan-files"),
        (
            "UPDATE event_entry SET version = 3 WHERE ordinal = 149",
            "entry 149 of plan-files: ordinal and version",
        ),
        (
            "UPDATE event_entry SET ordinal = 150 WHERE ordinal = 149",
            "entry 150 of plan-files: ordinal and version",
        ),
        (
            "UPDATE event_entry SET list = 'plan-instants' WHERE ordinal = 149",
            "plan-instants that no event names",
        ),
        ("DELETE FROM event_entry WHERE ordinal = 149", "the entries of plan-files"),
        ("DELETE FROM event_entry", "the entries of plan-files"),
    ],
)
def test_a_change_of_a_list_of_an_event_is_detected_and_named(
    history_dsn: str, change: str, named: str
) -> None:
    tampering.plan(history_dsn)
    tamper(history_dsn, change)

    findings = tampering.verify(history_dsn).findings

    assert {(finding.check, finding.table) for finding in findings} == {(Check.LISTS, "shop.clicks")}
    assert named in {finding.what for finding in findings}


def test_two_swapped_events_are_detected(history_dsn: str) -> None:
    versions = f"UPDATE event SET version = CASE version WHEN 6 THEN 800 ELSE 600 END {EVENT}"
    tamper(
        history_dsn,
        f"{versions} ANY ('{{6, 8}}')",
        f"UPDATE event SET version = version / 100 {EVENT} ANY ('{{600, 800}}')",
    )

    assert {(Check.HASH, "shop.orders", 6), (Check.HASH, "shop.orders", 8)} <= failed_checks(history_dsn)


def test_an_event_forged_with_its_hash_is_detected_by_the_next_event(history_dsn: str) -> None:
    tampering.forge(history_dsn, 5, "mallory")

    assert (Check.CHAIN, "shop.orders", 6) in failed_checks(history_dsn)


def test_the_first_event_of_a_table_is_missed_too(history_dsn: str) -> None:
    tamper(history_dsn, f"DELETE FROM event {EVENT} 1")

    [(_, table_id, _)] = [failed for failed in failed_checks(history_dsn) if failed[0] is Check.VERSION]

    assert tampering.verify(history_dsn).not_compared == [table_id]


def test_a_table_without_its_log_is_detected(history_dsn: str) -> None:
    clicks = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
    tamper(history_dsn, f"DELETE FROM event WHERE table_id = {clicks}")

    assert Check.PROJECTION in {check for check, _, _ in failed_checks(history_dsn)}


def test_a_change_of_the_catalog_is_detected(history_dsn: str) -> None:
    tamper(history_dsn, "DELETE FROM event WHERE type = 'NamespaceDropped'")

    assert (Check.PROJECTION, "(catalog)", None) in failed_checks(history_dsn)


def test_the_projections_of_the_other_tables_are_compared_when_one_log_is_damaged(history_dsn: str) -> None:
    tamper(
        history_dsn,
        f"UPDATE event SET actor = 'mallory' {EVENT} 5",
        "UPDATE lake_table SET created_at = created_at + interval '1 s' WHERE name = 'clicks'",
    )

    report = tampering.verify(history_dsn)

    assert report.not_compared == ["shop.orders"]
    assert (Check.PROJECTION, "shop.clicks", None) in failed_checks(history_dsn)


def test_an_impossible_event_with_valid_hashes_is_detected(history_dsn: str) -> None:
    tampering.forge(history_dsn, 9, "mallory")
    tamper(
        history_dsn,
        "UPDATE event SET type = 'TableDropped', instant = NULL, payload_bytes = 26, "
        f'payload = \'{{"name":"shop.none","v":1}}\' {EVENT} 9',
    )
    tampering.reseal(history_dsn, 9)

    assert (Check.REPLAY, "shop.orders", 9) in failed_checks(history_dsn)
