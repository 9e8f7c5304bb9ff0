"""The commands verify, rebuild and heads: their output, their exit codes, and the rights that they need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fix_secrets import DATABASE_PASSWORD
from tests.forked_program import complaint, run
from tests.store import tampering
from tests.store.tampering import EVENT, ORDERS, tamper


def test_the_command_ends_with_0_when_all_holds(history_dsn: str) -> None:
    ended = run("verify", "--dsn", history_dsn)

    assert ended.returncode == 0, ended
    assert ended.stdout.startswith(f"4 logs, {tampering.EVENTS} events, 3 files in ")
    assert ended.stdout.rstrip().endswith("all holds")
    assert "reading the log" in ended.stderr


def test_the_command_ends_with_1_and_a_line_for_each_finding(history_dsn: str) -> None:
    tamper(history_dsn, f"UPDATE event SET actor = 'mallory' {EVENT} 5")

    ended = run("verify", "--dsn", history_dsn)

    assert ended.returncode == 1
    assert ended.stdout.startswith("shop.orders version 5: hash: InstantCompleted: its hash; expected ")
    assert "shop.orders: its projections were not compared" in ended.stdout


def test_the_command_shows_at_most_the_requested_number_of_findings(history_dsn: str) -> None:
    tamper(history_dsn, f"UPDATE event SET actor = 'mallory' WHERE table_id = {ORDERS}")

    ended = run("verify", "--dsn", history_dsn, "--max-findings", "3")

    assert ended.returncode == 1
    assert sum(": hash: " in line for line in ended.stdout.splitlines()) == 3
    assert "6 findings more" in ended.stdout


def test_the_report_can_be_had_as_json(history_dsn: str) -> None:
    tamper(history_dsn, f"UPDATE event SET actor = 'mallory' {EVENT} 5")

    ended = run("verify", "--dsn", history_dsn, "--json")

    report = msgspec.json.decode(ended.stdout)
    assert ended.returncode == 1
    assert [(finding["check"], finding["table"], finding["version"]) for finding in report["findings"]] == [
        ("hash", "shop.orders", 5)
    ]


@pytest.mark.parametrize("table", ["shop.none", "none"])
def test_a_table_that_is_not_there_is_no_proof_of_anything(history_dsn: str, table: str) -> None:
    ended = run("verify", "--dsn", history_dsn, "--table", table)

    assert ended.returncode == 2
    assert table in ended.stderr


def test_a_dropped_table_can_be_verified_too(history_dsn: str) -> None:
    report = tampering.verify(history_dsn, table="shop.gone")

    assert (report.findings, report.events) == ([], 2)


@pytest.fixture
def reader(history_dsn: str) -> Iterator[str]:
    """The DSN of a login that may read and nothing else."""
    name = f"reader_{os.getpid()}"
    with psycopg.connect(history_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{DATABASE_PASSWORD}'".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA chronolake TO {name}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA chronolake TO {name}".encode())
        yield make_conninfo(history_dsn, user=name, password=DATABASE_PASSWORD)
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def test_a_read_only_role_can_verify_and_keep_heads(reader: str, tmp_path: Path) -> None:
    role = f"reader_{os.getpid()}"

    kept = run("heads", "--dsn", reader, "--role", role, "--to", str(tmp_path))
    ended = run("verify", "--dsn", reader, "--role", role, "--heads", str(tmp_path))

    assert (kept.returncode, ended.returncode) == (0, 0), (kept, ended)


def test_a_refusal_of_temporary_tables_is_reported(reader: str, history_dsn: str) -> None:
    with psycopg.connect(history_dsn, autocommit=True) as connection:
        connection.execute(f'REVOKE TEMPORARY ON DATABASE "{connection.info.dbname}" FROM PUBLIC'.encode())

    ended = run("verify", "--dsn", reader, "--role", f"reader_{os.getpid()}")

    assert (ended.returncode, "TEMPORARY" in ended.stderr) == (2, True)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [("verify",), ("heads", "--to", "/nowhere")])
def test_a_role_that_may_not_read_the_log_ends_with_2_and_one_line(
    history_dsn: str, command: tuple[str, ...]
) -> None:
    ended = run(*command, "--dsn", history_dsn, "--role", "chronolake_auditor")

    [line] = complaint(ended).splitlines()
    assert ended.returncode == 2
    assert "'chronolake_auditor' has too few rights (permission denied for " in line
    assert "named in --dsn and in --role" in line


def test_a_role_that_may_read_only_a_part_ends_with_2_and_one_line(reader: str, history_dsn: str) -> None:
    role = f"reader_{os.getpid()}"
    with psycopg.connect(history_dsn, autocommit=True) as connection:
        connection.execute(f"REVOKE SELECT ON chronolake.event FROM {role}".encode())

    ended = run("verify", "--dsn", reader, "--role", role)

    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert "permission denied for table event" in ended.stderr.splitlines()[-1]


def test_an_auditor_is_advised_to_use_another_login_and_not_to_get_rights_to_write(
    reader: str,
) -> None:
    ended = run("verify", "--dsn", reader)

    assert ended.returncode == 2
    assert "GRANT" not in ended.stderr
    assert "use another login, which may read the log and not change it" in complaint(ended)


def test_a_schema_that_is_not_known_is_not_verified(history_dsn: str) -> None:
    tamper(history_dsn, "UPDATE alembic_version SET version_num = '9999'")

    assert run("verify", "--dsn", history_dsn).returncode == 2
    assert run("rebuild", "--dsn", history_dsn).returncode == 2
    assert run("heads", "--dsn", history_dsn, "--to", "/nowhere").returncode == 2
