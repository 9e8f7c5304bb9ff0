"""The auditor's views of a known history, and the actions that the auditor may not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from chronolake_metastore.domain import refusals
from chronolake_metastore.domain.grants import GrantRole
from chronolake_metastore.domain.tables import AlterTable, DropTable
from chronolake_metastore.projections.registry import TABLES as PROJECTIONS
from chronolake_model.roles import Role
from chronolake_model.times import MICROS_MAX, Micros, Tick, format_time, to_datetime
from tests.examples import examples
from tests.store.history import (
    ADDRESS,
    READER,
    STRANGER,
    History,
    file_of,
    make_history,
    make_roles,
    make_token,
)
from tests.store.streamed import Streamed

Row = dict[str, Any]

LOG = ("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal")
READABLE_BESIDES = ("metastore", "base_path", "steady_clock", "alembic_version", "era")
"""Tables that the auditor may read besides the views and the log."""
EMPTY = ("archived_era", "location")
"""The same, without rows here."""
VIEWS = (
    *("audit_history", "audit_commands", "audit_pending", "audit_files", "audit_rollbacks", "audit_markers"),
    *("audit_deletions", "audit_conflicts", "audit_schemas", "audit_services", "audit_streams", "audit_tables"),
    *("audit_tokens", "audit_grants", "audit_denials", "audit_credentials"),
)


class Audited:
    """A history, as the auditor sees it."""

    def __init__(self, history: History, times: dict[str, str]) -> None:
        self.history = history
        self.times = times

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """The rows of a query, as the auditor."""
        with psycopg.connect(self.history.dsn, row_factory=dict_row) as connection:
            connection.execute("SET timezone TO 'UTC'")
            connection.execute("SET ROLE chronolake_auditor")
            return connection.execute(sql.encode(), parameters).fetchall()


@pytest.fixture(scope="module")
def audited(shared_dsn: str) -> Iterator[Audited]:
    make_token(shared_dsn)
    with History(shared_dsn) as history:
        times = make_history(history)
        make_roles(history, "shop.orders")
        yield Audited(history, times)


# ---------------------------------------------------------------------------------- times


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(time=st.integers(0, MICROS_MAX))
def test_sql_writes_the_digits_that_the_server_writes(audited: Audited, time: int) -> None:
    [row] = audited.query(
        "SELECT chronolake.instant_time(m, 1000) AS ms, chronolake.instant_time(m, 1) AS us,"
        " chronolake.moment_of(chronolake.instant_time(m, 1)) = m AS same"
        " FROM (SELECT %s::timestamptz AS m) AS moment",
        [to_datetime(Micros(time))],
    )

    expected = format_time(Micros(time)), format_time(Micros(time), Tick.MICROSECOND)
    assert (row["ms"], row["us"], row["same"]) == (*expected, True)


def test_digits_do_not_depend_on_the_time_zone_of_the_session(audited: Audited) -> None:
    with psycopg.connect(audited.history.dsn) as connection:
        connection.execute("SET timezone TO 'Asia/Kolkata'")
        row = connection.execute(
            "SELECT chronolake.instant_time(chronolake.moment_of('20260131235959999'), 1000)"
        ).fetchone()

    assert row == ("20260131235959999",)


# ---------------------------------------------------------------------------------- streams


def test_pending_instants_of_streams_have_the_lease_of_the_stream(dsn: str) -> None:
    with History(dsn) as history:
        streamed = Streamed(history)
        job, other = streamed.open("job", lease_seconds=60), streamed.open("other", lease_seconds=600)
        times = [streamed.report("job", job, 7, [0]), streamed.report("other", other, -1, [1])]
        history.make_namespace("shop")
        history.make_table("shop.orders")
        times.append(history.begin("shop.orders", lease_seconds=90))
        history.pass_seconds(61)

        rows = Audited(history, {}).query("SELECT * FROM chronolake.audit_pending ORDER BY stream")

    shown = ("requested_digits", "stream", "checkpoint", "is_reported", "lease_seconds", "lease_state")
    assert [tuple(row[column] for column in shown) for row in rows] == [
        (times[0], "job", 7, True, 60, "expired"),
        (times[1], "other", -1, True, 600, "live"),
        (times[2], None, None, None, 90, "live"),
    ]
    assert [row["expired_for"] > timedelta(0) for row in rows] == [True, False, False]


# ---------------------------------------------------------------------------------- history


def test_the_history_of_a_table_has_every_event_in_order(audited: Audited) -> None:
    rows = audited.query(
        "SELECT * FROM chronolake.audit_history WHERE table_name = 'shop.orders' ORDER BY version"
    )

    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["type"] for row in rows] == [
        "TableCreated",
        "InstantRequested",
        "InstantCompleted",
        "TableSchemaChanged",
        "InstantRequested",
        "InstantRequested",
        "InstantCompleted",
        "InstantRequested",
        "InstantRolledBack",
        "InstantCompleted",
        "InstantRequested",
        "FilesDeleted",
        "InstantRequested",
        "CredentialsVended",
    ]
    completed = rows[2]
    assert completed["requested_digits"] == audited.times["first"]
    assert completed["time_digits"] == audited.times["first completed"]
    assert (completed["writer"], completed["actor"], completed["address"]) == (
        "nightly",
        "ann",
        ADDRESS,
    )
    assert completed["payload"]["summary"]["files"] == 3


def test_the_history_has_the_catalog_and_dropped_tables_too(audited: Audited) -> None:
    rows = audited.query(
        "SELECT table_name, type, length(time_digits) AS digits FROM chronolake.audit_history"
        " WHERE type IN ('NamespaceCreated', 'TableDropped', 'TableCreated') ORDER BY transaction_id, position"
    )

    assert [(row["table_name"], row["type"], row["digits"]) for row in rows] == [
        (None, "NamespaceCreated", 17),
        ("shop.orders", "TableCreated", 17),
        ("shop.clicks", "TableCreated", 20),
        ("shop.dropped", "TableCreated", 17),
        ("shop.dropped", "TableDropped", 17),
    ]


# ---------------------------------------------------------------------------------- as of


def states_as_of(audited: Audited, digits: str) -> dict[str, tuple[str | None, int, int]]:
    """Last completion, files and records of each table as of a moment, by name."""
    rows = audited.query("SELECT * FROM chronolake.tables_as_of(chronolake.moment_of(%s))", [digits])
    return {row["table_name"]: (row["completion_digits"], row["files"], row["records"]) for row in rows}


def test_the_tables_as_of_a_moment_are_as_they_were_then(audited: Audited) -> None:
    first, winner = audited.times["first completed"], audited.times["winner completed"]

    then = states_as_of(audited, first)
    later = states_as_of(audited, winner)

    assert then["shop.orders"] == (first, 3, 30)
    assert later["shop.orders"] == (winner, 3, 30)
    assert then["shop.dropped"] == (None, 0, 0)
    assert later["shop.dropped"][1:] == (1, 10)


def test_a_completion_counts_from_its_own_time_on_and_not_before(audited: Audited) -> None:
    completed = audited.times["first completed"]
    before = str(int(completed) - 1)

    assert states_as_of(audited, before)["shop.orders"] == (None, 0, 0)
    assert states_as_of(audited, completed)["shop.orders"] == (completed, 3, 30)


def test_a_dropped_table_is_shown_until_it_was_dropped(audited: Audited) -> None:
    as_of = "SELECT dropped_at FROM chronolake.tables_as_of(%s) WHERE table_name = 'shop.dropped'"
    [dropped] = audited.query("SELECT time FROM chronolake.event WHERE type = 'TableDropped'")
    at = dropped["time"]

    assert audited.query(as_of, [at - timedelta(milliseconds=1)]) == [{"dropped_at": at}]
    assert audited.query(as_of, [at]) == []


def test_before_the_first_table_there_was_none(audited: Audited) -> None:
    assert audited.query("SELECT * FROM chronolake.tables_as_of('1970-01-01')") == []


# ---------------------------------------------------------------------------------- who


def test_the_audit_names_actor_action_and_address_of_successes_and_refusals(audited: Audited) -> None:
    rows = audited.query(
        "SELECT actor, address, command, table_name, requested_digits, event_type, code"
        " FROM chronolake.audit_commands WHERE actor = 'bob' ORDER BY recorded_at"
    )

    loser = audited.times["loser"]
    assert [tuple(row.values()) for row in rows] == [
        ("bob", ADDRESS, "BeginInstant", "shop.orders", loser, "InstantRequested", None),
        ("bob", ADDRESS, "CompleteInstant", "shop.orders", loser, None, "write-conflict"),
    ]


def test_every_command_is_listed_once(audited: Audited) -> None:
    [row] = audited.query(
        "SELECT count(*) AS told, count(DISTINCT request_id) AS requests,"
        " (SELECT count(*) FROM chronolake.outcome) AS outcomes FROM chronolake.audit_commands"
    )

    assert row["told"] == row["requests"] == row["outcomes"]


def test_a_grant_has_its_grantor_and_its_end(audited: Audited) -> None:
    rows = audited.query(
        "SELECT subject, name, role, pattern, table_name, actor, ended_at IS NULL AS is_held, ended_by"
        " FROM chronolake.audit_grants ORDER BY version"
    )

    assert [tuple(row.values()) for row in rows] == [
        (READER, None, "admin", "*", None, "ann", False, "eve"),
        (READER, None, "reader", "*", None, "eve", True, None),
        (STRANGER, None, "writer", "shop", None, "ann", False, "ann"),
    ]


def test_a_grant_on_a_table_follows_it_and_ends_with_it(dsn: str) -> None:
    grants = "SELECT pattern, table_name, ended_at, ended_by FROM chronolake.audit_grants"
    with History(dsn) as history:
        audited = Audited(history, {})
        history.make_namespace("shop")
        history.make_table("shop.orders")
        history.done(GrantRole(READER, Role.WRITER, "shop.orders"))
        history.done(AlterTable("shop.orders", "shop.sales"))
        [renamed] = audited.query(grants)
        history.done(DropTable("shop.sales"), actor="bob")
        [dropped] = audited.query(grants)

    assert tuple(renamed.values()) == ("shop.orders", "shop.sales", None, None)
    assert dropped["ended_at"] is not None
    assert dropped["ended_by"] == "bob"


def test_a_denial_has_the_subject_the_command_and_the_lacking_right(audited: Audited) -> None:
    rows = audited.query(
        "SELECT subject, actor, address, command, table_name, table_id IS NULL AS is_hidden, detail"
        " FROM chronolake.audit_denials ORDER BY refused_at, length(request_id), request_id"
    )
    lacking = "lacks the right 'define' on 'shop.orders'; ask an administrator for the role 'admin' there"

    assert [tuple(row.values()) for row in rows] == [
        (READER, READER, ADDRESS, "DropTable", "shop.orders", False, f"{READER} {lacking}"),
        (STRANGER, STRANGER, ADDRESS, "DropTable", "shop.orders", True, f"{STRANGER} {lacking}"),
        (STRANGER, STRANGER, ADDRESS, "show_table", "shop.orders", False, "no"),
    ]


def test_credentials_have_their_subject_access_and_end(audited: Audited) -> None:
    [row] = audited.query("SELECT *, expires_at - vended_at AS valid FROM chronolake.audit_credentials")

    shown = ("table_name", "subject", "access", "actor", "address")
    assert [row[column] for column in shown] == ["shop.orders", READER, "read", READER, ADDRESS]
    assert row["valid"].total_seconds() == pytest.approx(3_600, abs=1)


# ---------------------------------------------------------------------------------- pending


def test_pending_instants_are_listed_with_their_leases(audited: Audited) -> None:
    rows = audited.query("SELECT * FROM chronolake.audit_pending ORDER BY requested_time")

    assert [(row["requested_digits"], row["writer"], row["lease_state"]) for row in rows] == [
        (audited.times["abandoned"], "dead", "expired"),
        (audited.times["pending"], "alive", "live"),
    ]
    assert rows[0]["running_for"].total_seconds() == pytest.approx(3_600, abs=0.01)
    assert rows[0]["expired_for"].total_seconds() == pytest.approx(3_595, abs=0.01)


def test_a_lease_is_expired_for_the_auditor_exactly_when_anybody_may_roll_back(
    new_database: Callable[[], str],
) -> None:
    with History(new_database()) as history:
        history.make_namespace("shop")
        history.make_table("shop.orders")
        audited = Audited(history, {})
        history.pass_seconds(1)
        requested_time = history.begin("shop.orders", lease_seconds=5)
        history.pass_seconds(4.998)
        before = audited.query("SELECT lease_state FROM chronolake.audit_pending")
        history.pass_seconds(0.002)
        after = audited.query("SELECT lease_state FROM chronolake.audit_pending")
        history.roll_back("shop.orders", requested_time, writer="another")

    assert (before, after) == ([{"lease_state": "live"}], [{"lease_state": "expired"}])


# ---------------------------------------------------------------------------------- files


def test_the_files_of_an_instant_are_those_it_added_and_those_it_removed(audited: Audited) -> None:
    rows = audited.query(
        "SELECT change, file_name, records FROM chronolake.audit_files"
        " WHERE table_name = 'shop.orders' AND requested_digits = %s ORDER BY change",
        [audited.times["winner"]],
    )

    added = file_of(audited.times["winner"], 1).file_name
    removed = file_of(audited.times["first"], 1).file_name
    assert [tuple(row.values()) for row in rows] == [("added", added, 10), ("removed", removed, 10)]


def test_an_instant_that_was_rolled_back_has_no_files(audited: Audited) -> None:
    files = "SELECT * FROM chronolake.audit_files WHERE requested_digits = %s"

    assert audited.query(files, [audited.times["loser"]]) == []


# ---------------------------------------------------------------------------------- rollbacks


def test_a_rollback_names_its_target_and_its_actor(audited: Audited) -> None:
    [row] = audited.query("SELECT * FROM chronolake.audit_rollbacks WHERE table_name = 'shop.orders'")

    assert row["requested_digits"] == audited.times["loser"]
    assert (row["table_name"], row["writer"], row["rolled_back_by"]) == ("shop.orders", "hourly", "hourly")
    assert (row["reason"], row["undone_by_action"], row["undone_by_state"]) == (
        "given up",
        "rollback",
        "completed",
    )
    assert row["undone_by_requested_time"] == row["rolled_back_at"] - timedelta(milliseconds=1)


# ---------------------------------------------------------------------------------- schemas


def test_every_version_of_a_schema_is_listed_with_its_changes(audited: Audited) -> None:
    rows = audited.query(
        "SELECT schema_version, version, actor, changes, fields, request_id FROM chronolake.audit_schemas"
        " WHERE table_name = 'shop.orders' ORDER BY schema_version"
    )

    made, changed = rows
    key = {"field_id": 1, "name": "id", "type": "bigint", "nullable": True, "nested": []}
    assert (made["schema_version"], made["version"], made["changes"]) == (1, 1, None)
    assert made["fields"] == [key]
    assert (changed["schema_version"], changed["version"], changed["actor"]) == (2, 4, "ann")
    assert changed["changes"] == [
        {"change": "add", "name": "note", "type": "string", "nullable": True},
        {"change": "rename", "name": "note", "new_name": "remark"},
    ]
    remark = {"field_id": 2, "name": "remark", "type": "string", "nullable": True, "nested": []}
    assert changed["fields"] == [key, remark]


# ---------------------------------------------------------------------------------- conflicts


def test_a_conflict_names_the_loser_and_the_winner(audited: Audited) -> None:
    [row] = audited.query("SELECT * FROM chronolake.audit_conflicts")

    assert row["loser_digits"] == audited.times["loser"]
    assert (row["loser_writer"], row["loser_actor"]) == ("hourly", "bob")
    assert (row["winner_digits"], row["winner_writer"]) == (audited.times["winner"], "nightly")
    assert row["winner_completion_digits"] == audited.times["winner completed"]
    assert row["file_groups_in_common"] == 1
    assert row["file_groups"] == [{"partition_path": "", "file_id": file_of(audited.times["loser"], 1).file_id}]


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=2_000)
CONTEXTS = st.dictionaries(
    st.sampled_from(["winner", "reason", "file_groups", "columns", "tables"]),
    TEXTS
    | st.integers(-(2**62), 2**62)
    | st.none()
    | st.lists(TEXTS | st.dictionaries(st.sampled_from(["a", "b"]), TEXTS), max_size=30),
)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(context=CONTEXTS)
def test_the_row_of_a_refusal_has_room_for_any_detail(audited: Audited, context: Row) -> None:
    kept = refusals.bounded_context(context)

    [row] = audited.query("SELECT octet_length(%s::jsonb::text) AS bytes", [Jsonb(kept)])
    assert row["bytes"] <= 16_384
    assert {name for name, value in context.items() if not isinstance(value, list)} <= set(kept)


# ---------------------------------------------------------------------------------- the log is the truth


def test_a_rebuild_leaves_the_auditors_answers_as_they_were(dsn: str) -> None:
    with History(dsn) as history:
        audited = Audited(history, make_history(history))
        queries = [f"SELECT v::text FROM chronolake.{name} v ORDER BY 1" for name in (*VIEWS, *LOG)]
        queries.append("SELECT v::text FROM chronolake.tables_as_of('infinity') v ORDER BY 1")
        before = [audited.query(query) for query in queries]
        history.rebuild()

        assert [audited.query(query) for query in queries] == before


# ---------------------------------------------------------------------------------- privileges


@pytest.mark.parametrize("name", (*LOG, *VIEWS, *READABLE_BESIDES))
def test_the_auditor_may_read_the_log_and_the_views(audited: Audited, name: str) -> None:
    assert audited.query(f"SELECT * FROM chronolake.{name}")


@pytest.mark.parametrize("name", sorted({*PROJECTIONS, "wall_clock"} - {*READABLE_BESIDES, *EMPTY}))
def test_the_auditor_may_read_nothing_else(audited: Audited, name: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        audited.query(f"SELECT * FROM chronolake.{name}")


@pytest.mark.parametrize("name", (*LOG, *PROJECTIONS, "metastore", "wall_clock", "alembic_version"))
@pytest.mark.parametrize("change", ["DELETE FROM {}", "INSERT INTO {} SELECT LIMIT 0", "TRUNCATE {}"])
def test_the_auditor_may_write_nothing(audited: Audited, name: str, change: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        audited.query(change.format(f"chronolake.{name}"))


def test_the_auditor_may_make_nothing_in_the_schema(audited: Audited) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        audited.query("CREATE TABLE chronolake.mine ()")


def test_no_privilege_of_the_auditor_goes_beyond_reading(audited: Audited) -> None:
    rows = audited.query(
        """
        SELECT relname
        FROM pg_class
        WHERE relnamespace = 'chronolake'::regnamespace AND relkind IN ('r', 'v', 'm', 'p')
            AND has_table_privilege('chronolake_auditor', oid, %s)
        """,
        ["INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER"],
    )
    assert rows == []


def test_the_auditor_can_read_exactly_the_documented_views(audited: Audited) -> None:
    rows = audited.query(
        "SELECT relname FROM pg_class WHERE relnamespace = 'chronolake'::regnamespace"
        " AND relkind IN ('r', 'v', 'm', 'p') AND has_table_privilege('chronolake_auditor', oid, 'SELECT')"
    )
    assert {row["relname"] for row in rows} == {*LOG, *VIEWS, *READABLE_BESIDES, *EMPTY, "clock_jump"}


@pytest.mark.parametrize("function", ["tables_as_of", "state_at"])
def test_the_public_may_not_call_the_functions_of_auditors(audited: Audited, function: str) -> None:
    [row] = audited.query(
        "SELECT count(*) AS others FROM pg_proc, aclexplode(proacl) AS acl"
        " WHERE proname = %s AND acl.grantee = 0",
        [function],
    )
    assert row == {"others": 0}


@pytest.mark.parametrize("name", ["jsonb", "xid8"])
def test_no_function_of_the_auditor_runs_as_the_owner(audited: Audited, name: str) -> None:
    made = f"""
        CREATE FUNCTION pg_temp.is_ours({name}) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'executed as %', current_user; END $$;
        CREATE DOMAIN pg_temp.{name} AS pg_catalog.{name} CHECK (pg_temp.is_ours(VALUE));
    """
    with psycopg.connect(audited.history.dsn) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        connection.execute(made.encode())

        assert connection.execute("SELECT * FROM chronolake.state_at('WyIwIiwwXQ')").fetchall() == []
