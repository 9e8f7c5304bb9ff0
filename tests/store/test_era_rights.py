"""The login of a server cannot make rows of the log leave, hide that they left, or lead servers elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from chronolake_storage.files import Files
from tests.store import archiving, tampering
from tests.store.history import History, make_history
from tests.store.test_eras import begin_era, count, drop_all, query

LOGIN = "a_server_that_was_taken_over"
ARCHIVED = "1, 1, 1, 'https://elsewhere/', '{}'"
OUTCOME = """
    INSERT INTO chronolake.outcome (
        chain_id, number, table_id, version, era, request_id, hash, fingerprint, result
    )
    SELECT chain_id, number + 1, table_id, version, 1, 'hidden', hash, fingerprint, result
    FROM chronolake.outcome ORDER BY number DESC LIMIT 1
"""
EVENT = """
    INSERT INTO chronolake.event (
        {column}, table_id, version, time, payload_bytes, type, actor, request_id, previous_hash, hash, payload
    )
    SELECT {value}, table_id, version + 1, now(), 2, {type}, 'eve', 'forged', hash, hash, '{{}}'
    FROM chronolake.event ORDER BY version DESC LIMIT 1
"""


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with History(dsn) as history:
        make_history(history)
        yield history


@pytest.fixture
def archive(tmp_path: Path) -> Files:
    return archiving.local(tmp_path / "archive")


@pytest.fixture(scope="module")
def login(postgres: str, template: str) -> Iterator[str]:
    """A login that may do what servers may, and nothing else."""
    login = sql.Identifier(LOGIN)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE chronolake_server").format(login))
    yield LOGIN
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(login))


@pytest.fixture
def taken_over(dsn: str, login: str) -> str:
    """The DSN of that login."""
    return conninfo.make_conninfo(dsn, user=login)


@pytest.fixture(scope="module")
def ended_era(shared_dsn: str, login: str) -> str:
    """The DSN of that login for a log whose first era has ended, for tests whose statements are refused."""
    with History(shared_dsn) as history:
        make_history(history)
    begin_era(shared_dsn, 2)
    return conninfo.make_conninfo(shared_dsn, user=login)


@pytest.mark.parametrize(
    "abuse",
    [
        # The owner's function would drop an era that no archive has.
        f"INSERT INTO chronolake.archived_era VALUES ({ARCHIVED})",
        # Servers would take commands with old keys for new ones, and execute them twice.
        "DELETE FROM chronolake.archived_era",
        # Servers would read old answers wherever the row says, or decide no command any more.
        "UPDATE chronolake.archived_era SET location = 'https://elsewhere/', archived_before = 1",
        "INSERT INTO chronolake.era (era) VALUES (7)",
        "UPDATE chronolake.era SET began_at = '-infinity', answers_dropped_at = now()",
        "DELETE FROM chronolake.era",
        "INSERT INTO chronolake.first_event SELECT * FROM chronolake.first_event",
        # A row in an ended era would leave with it, though the archive was proved before.
        OUTCOME,
        EVENT.format(column="era", value="1", type="'InstantRequested'"),
        # A row before the end of the archive would never be archived.
        EVENT.format(column="transaction_id", value="'3'::xid8", type="'InstantRequested'"),
        EVENT.format(column="position", value="1", type="'InstantRequested'"),
        # The next rebuild would take it for a record of the owner.
        EVENT.format(column="instant", value="now()", type="'EraArchived'"),
        # It would be a token that nobody has made.
        EVENT.format(column="instant", value="now()", type="'TokenCreated'"),
        EVENT.format(column="instant", value="now()", type="'TokenRotated'"),
        "INSERT INTO chronolake.token SELECT * FROM chronolake.token",
        "UPDATE chronolake.token SET revoked_at = NULL",
        "DELETE FROM chronolake.token",
        "INSERT INTO chronolake.token_name VALUES ('abcdefghij', 'ann')",
        # Servers would use their credentials wherever a client says.
        EVENT.format(column="instant", value="now()", type="'LocationAllowed'"),
        EVENT.format(column="instant", value="now()", type="'LocationRevoked'"),
        "INSERT INTO chronolake.location VALUES ('shop', 's3://theirs/', true, 1)",
        "UPDATE chronolake.location SET is_allowed = true",
        "DELETE FROM chronolake.location",
    ],
)
def test_the_login_of_a_server_may_not(ended_era: str, abuse: str) -> None:
    with psycopg.connect(ended_era) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(abuse.encode())


def test_a_table_of_the_server_does_not_say_who_the_owner_is(ended_era: str) -> None:
    with psycopg.connect(ended_era) as connection:
        connection.execute(
            "CREATE TEMP TABLE pg_namespace AS"
            " SELECT nspname, 'chronolake_server'::regrole::oid AS nspowner FROM pg_catalog.pg_namespace"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only the owner"):
            connection.execute(EVENT.format(column="instant", value="now()", type="'TokenCreated'").encode())


def test_an_event_of_another_type_shows_that_the_forgeries_are_well_formed(
    history: History, taken_over: str
) -> None:
    forgery = EVENT.format(column="instant", value="now()", type="'InstantRequested'")
    with psycopg.connect(taken_over) as connection:
        assert connection.execute(forgery.encode()).rowcount == 1
        connection.rollback()


def test_the_owner_still_lets_answers_leave(
    dsn: str, history: History, archive: Files, taken_over: str
) -> None:
    drop_all(dsn, archive)
    assert count(dsn, "archived_era") >= 1
    with psycopg.connect(taken_over) as connection:
        connection.execute("SELECT * FROM chronolake.archived_era, chronolake.era")
    history.write("shop.orders", 1)
    assert tampering.verify(dsn, archive=archive).holds
    assert query(dsn, "SELECT type FROM event WHERE type = 'EraArchived'") != []
