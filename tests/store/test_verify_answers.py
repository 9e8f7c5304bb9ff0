"""Promise 2: a change of an outcome or of a refusal, past the database's refusal, is found and named."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from chronolake_metastore.domain.proof import Check, ProofFinding
from tests.fix_postgres import claimed, clone_of
from tests.store import tampering
from tests.store.tampering import ORDERS, tamper

OUTCOME = "request-5"
"""The request of a success on shop.orders, in the middle of its chain."""
REFUSED = "(SELECT request_id FROM refusal WHERE table_name = 'shop.orders' ORDER BY position LIMIT 1)"
NAMELESS = "(SELECT request_id FROM refusal WHERE table_name = 'shop.none' ORDER BY position LIMIT 1)"


@pytest.fixture(scope="session")
def log_template(postgres: str, history_template: str) -> str:
    """The name of a database with the history, with refusals of each kind, and with a write after them."""
    name = f"{history_template}_refused"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{history_template}"')
    dsn = claimed(make_conninfo(postgres, dbname=name))
    tampering.refuse(dsn, "shop.orders", "shop.none")
    tampering.refuse(dsn, "shop.orders", "shop.none")
    tampering.refuse(dsn)
    tampering.stage(dsn)
    return name


@pytest.fixture
def log_dsn(postgres: str, log_template: str) -> Iterator[str]:
    """The DSN of a database with that log."""
    with clone_of(postgres, log_template) as dsn:
        yield dsn


def request_id(dsn: str, query: str) -> str:
    """The request id that a query finds."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        row = connection.execute(f"SELECT {query}".encode()).fetchone()
    assert row is not None
    return str(row[0])


def findings(dsn: str, table: str | None = None) -> list[ProofFinding]:
    """The findings of verify."""
    return tampering.verify(dsn, table=table).findings


def test_a_history_with_refusals_holds(log_dsn: str) -> None:
    assert findings(log_dsn) == []
    assert findings(log_dsn, "shop.orders") == []


@pytest.mark.parametrize(
    "change",
    [
        "result = convert_to('{}', 'UTF8')",
        "code = 'write-conflict'",
        "dialect = 'v1', answer_digest = sha256('')",
        "fingerprint = sha256('')",
        "actor = 'mallory'",
        "actor = NULL",
        "address = '10.0.0.1'",
        "command = 'DropTable'",
        "recorded_at = recorded_at + interval '1 us'",
        "recorded_at = NULL",
        "version = version - 1",
        "hash = sha256('')",
    ],
)
def test_a_changed_outcome_is_detected_with_its_request_and_its_table(log_dsn: str, change: str) -> None:
    tamper(log_dsn, f"UPDATE outcome SET {change} WHERE request_id = '{OUTCOME}'")

    reported = findings(log_dsn)

    assert reported == findings(log_dsn, "shop.orders")
    assert {(finding.check, finding.table) for finding in reported} == {(Check.OUTCOME, "shop.orders")}
    assert any(f"the outcome of {OUTCOME!r}" in finding.what for finding in reported)


@pytest.mark.parametrize("change", ["request_id = 'another'", "table_id = gen_random_uuid()"])
def test_an_outcome_moved_to_another_request_or_table_is_detected(log_dsn: str, change: str) -> None:
    tamper(log_dsn, f"UPDATE outcome SET {change} WHERE request_id = '{OUTCOME}'")

    assert (Check.OUTCOME, "shop.orders") in {(finding.check, finding.table) for finding in findings(log_dsn)}


@pytest.mark.parametrize(
    "change",
    [
        "refused_at = refused_at + interval '1 us'",
        "actor = 'mallory'",
        "address = '10.0.0.1'",
        "command = 'DropTable'",
        "table_name = 'shop.others'",
        "table_id = NULL, version = NULL",
        "version = version + 1",
        "instant = NULL",
        "code = 'write-conflict'",
        "detail = 'because'",
        "context = context || '{\"note\": 1}'",
        "context = '{}'",
    ],
)
def test_a_changed_refusal_is_detected_with_its_request_and_its_table(log_dsn: str, change: str) -> None:
    refused = request_id(log_dsn, REFUSED)
    tamper(log_dsn, f"UPDATE refusal SET {change} WHERE request_id = '{refused}'")

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table) == (Check.OUTCOME, "shop.orders")
    assert f"the outcome of {refused!r}" in finding.what


def test_a_refusal_without_a_table_is_sealed_too(log_dsn: str) -> None:
    refused = request_id(log_dsn, NAMELESS)
    tamper(log_dsn, f"UPDATE refusal SET detail = 'because' WHERE request_id = '{refused}'")

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table) == (Check.OUTCOME, "(no table)")
    assert refused in finding.what


def test_a_missing_refusal_is_detected(log_dsn: str) -> None:
    refused = request_id(log_dsn, REFUSED)
    tamper(log_dsn, f"DELETE FROM refusal WHERE request_id = '{refused}'")

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table, refused in finding.what) == (Check.OUTCOME, "shop.orders", True)


@pytest.mark.parametrize(("query", "table"), [(REFUSED, "shop.orders"), (NAMELESS, "(no table)")])
def test_a_refusal_that_is_missing_with_its_outcome_is_detected(log_dsn: str, query: str, table: str) -> None:
    refused = request_id(log_dsn, query)
    tamper(
        log_dsn,
        f"DELETE FROM refusal WHERE request_id = '{refused}'",
        f"DELETE FROM outcome WHERE request_id = '{refused}'",
    )

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table) == (Check.OUTCOME, table)
    assert finding.what.endswith("its predecessor")


def test_an_outcome_missing_without_its_refusal_is_detected_with_the_request(log_dsn: str) -> None:
    refused = request_id(log_dsn, REFUSED)
    tamper(log_dsn, f"DELETE FROM outcome WHERE request_id = '{refused}'")

    assert f"the outcome of the refusal {refused!r}" in [finding.what for finding in findings(log_dsn)]


def test_the_last_outcomes_are_missed_by_the_head_of_their_chain(log_dsn: str) -> None:
    gone = f"WHERE table_id = {ORDERS} AND code IS NOT NULL"
    tamper(log_dsn, f"DELETE FROM refusal {gone}", f"DELETE FROM outcome {gone}")

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table) == (Check.PROJECTION, "shop.orders")
    assert finding.what.startswith("answer_chain(")
    assert [finding.check for finding in findings(log_dsn, "shop.orders")] == [Check.PROJECTION]


def test_refusals_that_were_cut_off_with_the_head_of_their_chain_are_missed_by_the_next_event(
    log_dsn: str,
) -> None:
    clicks = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
    tampering.refuse(log_dsn, "shop.clicks")
    tampering.report_deletions(log_dsn)
    tamper(
        log_dsn,
        f"DELETE FROM refusal WHERE table_id = {clicks}",
        f"DELETE FROM outcome WHERE table_id = {clicks} AND "
        "(code IS NOT NULL OR request_id LIKE 'deletions-%')",
        "UPDATE answer_chain a SET (number, hash) = (SELECT number, hash FROM outcome o "
        "WHERE o.chain_id = a.chain_id ORDER BY number DESC LIMIT 1)",
    )

    missed = [finding for finding in findings(log_dsn) if "it carries" in finding.what]

    assert {(finding.check, finding.table) for finding in missed} == {(Check.OUTCOME, "shop.clicks")}


def test_two_outcomes_that_changed_places_are_detected(log_dsn: str) -> None:
    swapped = "WHERE request_id IN ('request-5', 'request-6')"
    tamper(
        log_dsn,
        f"UPDATE outcome SET number = number + 900 {swapped}",
        "UPDATE outcome SET number = number - 900 + CASE request_id WHEN 'request-5' THEN 1 ELSE -1 END "
        f"{swapped}",
    )

    named = " ".join(finding.what for finding in findings(log_dsn))

    assert "'request-5'" in named
    assert "'request-6'" in named


def test_an_outcome_that_moved_to_another_number_is_detected(log_dsn: str) -> None:
    tamper(log_dsn, f"UPDATE outcome SET number = 900 WHERE request_id = '{OUTCOME}'")

    assert any("number 900" in finding.what for finding in findings(log_dsn))


def test_an_outcome_that_moved_to_another_chain_is_detected(log_dsn: str) -> None:
    tamper(log_dsn, f"UPDATE outcome SET chain_id = gen_random_uuid() WHERE request_id = '{OUTCOME}'")

    assert any(repr(OUTCOME) in finding.what for finding in findings(log_dsn))


FORGE_OUTCOME = """
    INSERT INTO outcome (request_id, fingerprint, table_id, version, result, chain_id, number, hash)
    SELECT 'forged', fingerprint, table_id, version, result, chain_id, number + {ahead}, hash
    FROM outcome WHERE chain_id = {orders} ORDER BY number DESC LIMIT 1
"""


@pytest.mark.parametrize("ahead", [1, 7, -1_000])
def test_a_forged_outcome_is_detected(log_dsn: str, ahead: int) -> None:
    drop = "ALTER TABLE outcome DROP CONSTRAINT outcome_number_positive"
    with psycopg.connect(log_dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        connection.execute(drop)
    tamper(log_dsn, FORGE_OUTCOME.format(ahead=ahead, orders=ORDERS))

    assert any("the outcome of 'forged'" in finding.what for finding in findings(log_dsn))


@pytest.mark.parametrize("of", ["'forged'", f"'{OUTCOME}'"])
def test_a_forged_refusal_is_detected(log_dsn: str, of: str) -> None:
    tamper(
        log_dsn,
        "INSERT INTO refusal (request_id, refused_at, actor, command, table_id, version, code, detail, "
        f"context) SELECT {of}, now(), 'mallory', command, table_id, version, code, detail, context "
        "FROM refusal WHERE table_name = 'shop.orders' LIMIT 1",
    )

    [finding] = findings(log_dsn)

    assert (finding.check, finding.table, of in finding.what) == (Check.OUTCOME, "shop.orders", True)


def test_a_rewritten_chain_is_detected_by_the_later_events(log_dsn: str) -> None:
    tamper(log_dsn, f"UPDATE outcome SET actor = 'mallory' WHERE request_id = '{OUTCOME}'")
    tampering.reseal_answers(log_dsn)

    reported = findings(log_dsn)

    assert reported
    assert all("it carries" in finding.what for finding in reported)


def test_an_event_that_carries_another_head_of_answers_is_detected(log_dsn: str) -> None:
    tamper(log_dsn, f"UPDATE event SET answers = answers - 1 WHERE table_id = {ORDERS} AND version = 5")

    assert (Check.HASH, 5) in {(finding.check, finding.version) for finding in findings(log_dsn)}


def test_an_event_without_its_answers_is_detected(log_dsn: str) -> None:
    tamper(
        log_dsn,
        f"UPDATE event SET (answers, answers_hash) = (NULL, NULL) WHERE table_id = {ORDERS} AND version = 5",
    )

    assert {(finding.check, finding.version) for finding in findings(log_dsn)} == {(Check.HASH, 5)}
