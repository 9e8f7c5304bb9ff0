"""Promise 2: whatever was done to the log or to a projection past the database's refusal is found and named."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from chronolake_metastore import errors
from chronolake_metastore.domain.proof import Check
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import replay_tables
from chronolake_metastore.store.engine import Database
from tests.store import tampering
from tests.store.tampering import ORDERS, tamper

EVENT = f"WHERE table_id = {ORDERS} AND version = "
CLICKS = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
NOBODY = "'11111111-1111-1111-1111-111111111111'"

Found = tuple[Check, str, int | None]


@pytest.fixture
def lake(dsn: str) -> str:
    """A database with the history in it."""
    tampering.make(dsn)
    return dsn


def found(dsn: str, **asked: Any) -> set[Found]:
    """What verify finds."""
    return {
        (finding.check, finding.table, finding.version) for finding in tampering.verify(dsn, **asked).findings
    }


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process."""
    return subprocess.run(
        [sys.executable, "-m", "chronolake_metastore", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# ---------------------------------------------------------------------------------- base paths of before


@pytest.fixture
def overlapping(lake: str) -> str:
    """Two live tables, one in the folder of the other, as of a release that did not compare them."""
    statement = "UPDATE base_path SET is_checked = false, key = {} WHERE table_id = {}"
    tamper(lake, statement.format("'s3://lake/'", ORDERS), statement.format("'s3://lake/x/'", CLICKS))
    return lake


def test_tables_whose_base_paths_overlap_are_named(overlapping: str) -> None:
    both = [("shop.clicks", "shop.orders"), ("shop.orders", "shop.clicks")]

    assert shared_base_paths(overlapping) == both
    assert shared_base_paths(overlapping, table="shop.orders") == both[1:]
    tamper(overlapping, f"UPDATE lake_table SET dropped_at = now() WHERE table_id = {CLICKS}")
    assert shared_base_paths(overlapping) == []


def test_a_table_whose_base_path_cannot_be_compared_is_named(lake: str) -> None:
    assert shared_base_paths(lake) == []
    tamper(lake, f"UPDATE base_path SET is_checked = false, key = NULL WHERE table_id = {ORDERS}")
    assert shared_base_paths(lake) == [("shop.orders", None)]


def test_the_command_says_what_to_do_about_base_paths_that_overlap(overlapping: str) -> None:
    assert (
        "shop.orders: its base path overlaps with that of shop.clicks, so none of its files is deleted; "
        "drop one of the two tables, or create it anew elsewhere"
    ) in run("verify", "--dsn", overlapping).stdout.splitlines()


def shared_base_paths(dsn: str, **asked: Any) -> list[tuple[str, str | None]]:
    return [(one.table, one.other) for one in tampering.verify(dsn, **asked).shared_base_paths]


# ---------------------------------------------------------------------------------- what was not touched


def test_a_history_that_nobody_touched_holds(lake: str) -> None:
    report = tampering.verify(lake)

    assert (report.findings, report.not_compared) == ([], [])
    assert (report.tables, report.events, report.files) == (4, tampering.EVENTS, 3)


def test_a_database_in_which_nothing_happened_holds(dsn: str) -> None:
    assert tampering.verify(dsn).holds


def test_one_table_is_verified_by_itself(lake: str) -> None:
    report = tampering.verify(lake, table="shop.orders")

    assert report.holds
    assert (report.tables, report.events) == (1, tampering.ORDERS_EVENTS)


def test_a_session_with_replay_tables_cannot_write_into_a_projection_by_mistake(lake: str) -> None:
    async def write() -> None:
        database = Database(Settings(dsn=lake))
        async with replay_tables.opened(database) as session, session.replaying() as tx:
            await tx.query("INSERT INTO chronolake.namespace VALUES ('mine', '{}', now())", {})

    with pytest.raises(errors.DatabaseUnavailable) as refused:
        asyncio.run(write())
    assert "read-only" in refused.value.context["reason"]


def test_what_was_refused_before_anything_happened_is_no_finding(dsn: str) -> None:
    tampering.refuse(dsn)

    assert tampering.verify(dsn).holds


# ---------------------------------------------------------------------------------- the log


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            f"UPDATE event SET payload = jsonb_set(payload, '{{writer}}', '\"mallory\"') {EVENT} 2",
            (Check.HASH, 2),
        ),
        (f"UPDATE event SET payload = payload || '{{\"note\": 1}}' {EVENT} 2", (Check.HASH, 2)),
        (f"UPDATE event SET payload = payload - 'writer' {EVENT} 2", (Check.PAYLOAD, 2)),
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
        (f"UPDATE write_stat SET kind = 'log' {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET ordinal = 7 {EVENT} 5", (Check.WRITE_STATS, 5)),
        (f"UPDATE write_stat SET ordinal = -1 {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"UPDATE write_stat SET version = 99 {EVENT} 5", (Check.WRITE_STATS, 99)),
        (f"DELETE FROM write_stat {EVENT} 3 AND ordinal = 1", (Check.WRITE_STATS, 3)),
        (f"DELETE FROM write_stat {EVENT} 5", (Check.WRITE_STATS, 5)),
        (
            "INSERT INTO write_stat SELECT table_id, version, 2, partition_path, file_id, file_name, kind, "
            f"size_bytes, records, inserts, updates, deletes FROM write_stat {EVENT} 3 AND ordinal = 0",
            (Check.WRITE_STATS, 3),
        ),
        (f"DELETE FROM outcome {EVENT} 9", (Check.OUTCOME, 9)),
        (f"UPDATE outcome SET version = 99 {EVENT} 9", (Check.OUTCOME, 99)),
    ],
)
def test_a_change_of_the_log_is_found_where_it_was_made(
    lake: str, change: str, expected: tuple[Check, int]
) -> None:
    tamper(lake, change)

    everywhere = found(lake)

    assert (expected[0], "shop.orders", expected[1]) in everywhere
    assert {table for _, table, _ in everywhere} == {"shop.orders"}
    assert found(lake, table="shop.orders") == everywhere
    assert found(lake, table="shop.clicks") == set()


def test_what_was_staged_counts_where_it_was_staged(lake: str) -> None:
    tampering.stage(lake)

    report = tampering.verify(lake)

    assert (report.findings, report.files) == ([], 5)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE write_stat SET size_bytes = size_bytes + 1",
        "UPDATE write_stat SET version = 4, ordinal = 1",
        "DELETE FROM write_stat",
    ],
)
def test_a_change_of_what_was_staged_is_found_where_it_was_staged(lake: str, change: str) -> None:
    tampering.stage(lake)
    clicks = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
    tamper(lake, f"{change} WHERE table_id = {clicks} AND version = 5")

    everywhere = found(lake)

    assert (Check.WRITE_STATS, "shop.clicks", 5) in everywhere
    assert {table for _, table, _ in everywhere} == {"shop.clicks"}


def test_what_was_reported_as_deleted_is_verified(lake: str) -> None:
    tampering.report_deletions(lake)

    assert tampering.verify(lake).findings == []


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
def test_a_change_of_what_was_reported_as_deleted_is_found(lake: str, change: str) -> None:
    tampering.report_deletions(lake)
    tamper(lake, change)

    everywhere = found(lake)

    assert (Check.DELETIONS, "shop.clicks", 4) in everywhere
    assert {(check, table) for check, table, _ in everywhere} == {(Check.DELETIONS, "shop.clicks")}


def test_the_lists_of_events_are_verified_and_rebuilt_from(lake: str) -> None:
    tampering.plan(lake)

    assert tampering.verify(lake).findings == []
    assert set(tampering.rebuild(lake).repaired.values()) == {0}


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
def test_a_change_of_a_list_of_an_event_is_found_and_named(lake: str, change: str, named: str) -> None:
    tampering.plan(lake)
    tamper(lake, change)

    findings = tampering.verify(lake).findings

    assert {(finding.check, finding.table) for finding in findings} == {(Check.LISTS, "shop.clicks")}
    assert named in {finding.what for finding in findings}


def test_two_events_that_were_swapped_are_found(lake: str) -> None:
    versions = f"UPDATE event SET version = CASE version WHEN 6 THEN 800 ELSE 600 END {EVENT}"
    tamper(
        lake,
        f"{versions} ANY ('{{6, 8}}')",
        f"UPDATE event SET version = version / 100 {EVENT} ANY ('{{600, 800}}')",
    )

    assert {(Check.HASH, "shop.orders", 6), (Check.HASH, "shop.orders", 8)} <= found(lake)


def test_an_event_that_was_forged_with_its_hash_is_found_by_the_next(lake: str) -> None:
    tampering.forge(lake, 5, "mallory")

    assert (Check.CHAIN, "shop.orders", 6) in found(lake)


def test_the_first_event_of_a_table_is_missed_too(lake: str) -> None:
    tamper(lake, f"DELETE FROM event {EVENT} 1")

    [(_, table_id, _)] = [one for one in found(lake) if one[0] is Check.VERSION]

    assert tampering.verify(lake).not_compared == [table_id]


def test_a_table_whose_log_is_gone_is_found(lake: str) -> None:
    clicks = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
    tamper(lake, f"DELETE FROM event WHERE table_id = {clicks}")

    assert Check.PROJECTION in {check for check, _, _ in found(lake)}


def test_a_change_of_the_catalog_is_found(lake: str) -> None:
    tamper(lake, "DELETE FROM event WHERE type = 'NamespaceDropped'")

    assert (Check.PROJECTION, "(catalog)", None) in found(lake)


def test_the_projections_of_the_other_tables_are_compared_when_one_log_is_damaged(lake: str) -> None:
    tamper(
        lake,
        f"UPDATE event SET actor = 'mallory' {EVENT} 5",
        "UPDATE lake_table SET created_at = created_at + interval '1 s' WHERE name = 'clicks'",
    )

    report = tampering.verify(lake)

    assert report.not_compared == ["shop.orders"]
    assert (Check.PROJECTION, "shop.clicks", None) in found(lake)


def test_what_cannot_have_happened_is_found_although_every_hash_fits(lake: str) -> None:
    tampering.forge(lake, 9, "mallory")
    tamper(
        lake,
        "UPDATE event SET type = 'TableDropped', instant = NULL, "
        f'payload = \'{{"v": 1, "name": "shop.none"}}\' {EVENT} 9',
    )
    tampering.reseal(lake, 9)

    assert (Check.REPLAY, "shop.orders", 9) in found(lake)


# ---------------------------------------------------------------------------------- the projections

PROJECTED = [
    f"UPDATE clock SET version = version + 1 WHERE table_id = {ORDERS}",
    f"UPDATE clock SET last_time = last_time - interval '1 s' WHERE table_id = {ORDERS}",
    f"UPDATE clock SET hash = sha256('') WHERE table_id = {ORDERS}",
    f"UPDATE clock SET tick_us = 1 WHERE table_id = {ORDERS}",
    f"DELETE FROM clock WHERE table_id = {ORDERS}",
    f"INSERT INTO clock SELECT {NOBODY}, tick_us, last_time, version, hash FROM clock LIMIT 1",
    f"UPDATE answer_chain SET number = number + 1 WHERE chain_id = {ORDERS}",
    f"UPDATE answer_chain SET hash = sha256('') WHERE chain_id = {ORDERS}",
    f"DELETE FROM answer_chain WHERE chain_id = {ORDERS}",
    f"INSERT INTO answer_chain SELECT {NOBODY}, number, hash FROM answer_chain LIMIT 1",
    'UPDATE namespace SET properties = \'{"a": "b"}\'',
    "DELETE FROM namespace",
    "INSERT INTO namespace VALUES ('old', '{}', now())",
    "UPDATE lake_table SET definition = definition || '{\"base_path\": \"/mine\"}' WHERE name = 'orders'",
    "UPDATE lake_table SET dropped_at = NULL WHERE name = 'gone'",
    "DELETE FROM lake_table WHERE name = 'gone'",
    f"INSERT INTO lake_table SELECT {NOBODY}, 'shop', 'more', definition, created_at FROM lake_table LIMIT 1",
    "UPDATE instant SET writer = 'mallory' WHERE state = 'completed'",
    "UPDATE instant SET extra_metadata = '{\"a\": \"b\"}' WHERE state = 'completed'",
    "UPDATE instant SET state = 'rolled_back', completion_time = NULL WHERE state = 'completed'",
    "DELETE FROM instant WHERE state = 'requested'",
    "INSERT INTO instant SELECT table_id, requested_time + interval '1 us', completion_time + interval '1 us', "
    "action, operation, state, writer, lease_seconds, lease_expires_at, rollback_reason, summary, "
    "extra_metadata, version FROM instant",
    "UPDATE instant SET schema_version = 2 WHERE state = 'requested'",
    "UPDATE schema_version SET fields = fields - 0 WHERE schema_version = 2",
    "DELETE FROM schema_version WHERE schema_version = 1",
    "UPDATE file SET superseded_at = NULL",
    "UPDATE file SET size_bytes = size_bytes - 1",
    "UPDATE file SET column_stats = NULL",
    "DELETE FROM file WHERE superseded_at IS NOT NULL",
    "INSERT INTO file SELECT table_id, partition_path, file_id, requested_time, 'more', kind, size_bytes, "
    "records, completion_time, superseded_at, live_from, withdrawn_at, column_stats, schema_version FROM file "
    "LIMIT 1",
]


@pytest.mark.parametrize("change", PROJECTED)
def test_a_change_of_a_projection_is_found_and_put_right_by_a_rebuild(lake: str, change: str) -> None:
    projection = change.split()[1 if change.startswith("UPDATE") else 2]
    tamper(lake, change)

    findings = tampering.verify(lake).findings
    assert {(finding.check, finding.what.partition("(")[0]) for finding in findings} == {
        (Check.PROJECTION, projection)
    }

    repaired = tampering.rebuild(lake).repaired
    assert {name for name, rows in repaired.items() if rows} == {projection}
    assert tampering.verify(lake).holds


def test_a_finding_says_which_column_differs_and_how(lake: str) -> None:
    tamper(lake, "UPDATE file SET records = 11 WHERE superseded_at IS NOT NULL")

    [finding] = tampering.verify(lake).findings

    assert finding.table == "shop.orders"
    assert finding.what.startswith("file(partition_path=, file_id=00000000-")
    assert (finding.expected, finding.found) == ("records=10", "records=11")


def test_projections_that_are_gone_are_found_and_rebuilt(lake: str) -> None:
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
    tamper(lake, *(f"DELETE FROM {name}" for name in gone))

    assert len(tampering.verify(lake).findings) == 4 + 4 + 1 + 3 + 3 + 4 + 4 + 3
    assert tampering.rebuild(lake).repaired == {
        "clock": 4,
        "answer_chain": 4,
        "namespace": 1,
        "lake_table": 3,
        "base_path": 3,
        "schema_version": 4,
        "instant": 4,
        "file": 3,
        "planned_group": 0,
        "replaced_group": 0,
    }
    assert tampering.verify(lake).holds


def test_a_log_that_cannot_be_replayed_is_not_rebuilt_from(lake: str) -> None:
    tamper(lake, f"DELETE FROM event {EVENT} 2", "DELETE FROM namespace")

    ended = run("rebuild", "--dsn", lake)

    assert (ended.returncode, "version 3" in ended.stderr, "verify" in ended.stderr) == (2, True, True)
    assert "Traceback" not in ended.stderr
    assert (Check.PROJECTION, "(catalog)", None) in found(lake)


# ---------------------------------------------------------------------------------- the command


def test_the_command_ends_with_0_when_all_holds(lake: str) -> None:
    ended = run("verify", "--dsn", lake)

    assert ended.returncode == 0, ended
    assert ended.stdout.startswith(f"4 logs, {tampering.EVENTS} events, 3 files in ")
    assert ended.stdout.rstrip().endswith("all holds")
    assert "reading the log" in ended.stderr


def test_the_command_ends_with_1_and_a_line_for_each_finding(lake: str) -> None:
    tamper(lake, f"UPDATE event SET actor = 'mallory' {EVENT} 5")

    ended = run("verify", "--dsn", lake)

    assert ended.returncode == 1
    assert ended.stdout.startswith("shop.orders version 5: hash: InstantCompleted: its hash; expected ")
    assert "shop.orders: its projections were not compared" in ended.stdout


def test_the_command_shows_no_more_findings_than_asked_for(lake: str) -> None:
    tamper(lake, f"UPDATE event SET actor = 'mallory' WHERE table_id = {ORDERS}")

    ended = run("verify", "--dsn", lake, "--max-findings", "3")

    assert ended.returncode == 1
    assert sum(": hash: " in line for line in ended.stdout.splitlines()) == 3
    assert "6 findings more" in ended.stdout


def test_the_report_can_be_had_as_json(lake: str) -> None:
    tamper(lake, f"UPDATE event SET actor = 'mallory' {EVENT} 5")

    ended = run("verify", "--dsn", lake, "--json")

    report = msgspec.json.decode(ended.stdout)
    assert ended.returncode == 1
    assert [(one["check"], one["table"], one["version"]) for one in report["findings"]] == [
        ("hash", "shop.orders", 5)
    ]


@pytest.mark.parametrize("table", ["shop.none", "none"])
def test_a_table_that_is_not_there_is_no_proof_of_anything(lake: str, table: str) -> None:
    ended = run("verify", "--dsn", lake, "--table", table)

    assert ended.returncode == 2
    assert table in ended.stderr


def test_a_dropped_table_can_be_verified_too(lake: str) -> None:
    report = tampering.verify(lake, table="shop.gone")

    assert (report.findings, report.events) == ([], 2)


@pytest.fixture
def reader(lake: str) -> Iterator[str]:
    """The DSN of a login that may read and nothing else."""
    name = f"reader_{os.getpid()}"
    with psycopg.connect(lake, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA chronolake TO {name}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA chronolake TO {name}".encode())
        yield make_conninfo(lake, user=name, password="secret")
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def test_who_may_only_read_can_verify_and_keep_heads(reader: str, tmp_path: Path) -> None:
    role = f"reader_{os.getpid()}"

    kept = run("heads", "--dsn", reader, "--role", role, "--to", str(tmp_path))
    ended = run("verify", "--dsn", reader, "--role", role, "--heads", str(tmp_path))

    assert (kept.returncode, ended.returncode) == (0, 0), (kept, ended)


def test_where_temporary_tables_are_refused_it_says_so(reader: str, lake: str) -> None:
    with psycopg.connect(lake, autocommit=True) as connection:
        connection.execute(f'REVOKE TEMPORARY ON DATABASE "{connection.info.dbname}" FROM PUBLIC'.encode())

    ended = run("verify", "--dsn", reader, "--role", f"reader_{os.getpid()}")

    assert (ended.returncode, "TEMPORARY" in ended.stderr) == (2, True)
    assert "Traceback" not in ended.stderr


def test_a_schema_that_is_not_known_is_not_verified(lake: str) -> None:
    tamper(lake, "UPDATE alembic_version SET version_num = '9999'")

    assert run("verify", "--dsn", lake).returncode == 2
    assert run("rebuild", "--dsn", lake).returncode == 2
    assert run("heads", "--dsn", lake, "--to", "/nowhere").returncode == 2
