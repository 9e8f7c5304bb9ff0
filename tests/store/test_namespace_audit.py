"""Auditors of a namespace see its tables and nothing of others, whatever they try."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from chronolake_metastore.domain import tables
from chronolake_metastore.store.postgres import migrations
from chronolake_migrations import scripts
from chronolake_model.roles import Right
from chronolake_model.schemas import AddColumn
from tests.docs.test_audit import EXAMPLES
from tests.server import located
from tests.store.audit_logins import ROLE, Row, allow, connected, execute, names, query, run
from tests.store.history import History, make_history, make_roles, make_token, vend

WITH_VERSION = (
    *("audit_commands", "audit_credentials", "audit_deletions", "audit_denials", "audit_history"),
    *("audit_schemas", "audit_tables", "refusal"),
)
VIEWS = (
    *WITH_VERSION,
    *("audit_conflicts", "audit_files", "audit_markers", "audit_pending", "audit_rollbacks", "audit_services"),
    "audit_streams",
)
OF_EVERYBODY = ("audit_grants", "audit_tokens")
"""Views of auditors whose rows are of no table."""
NOT_THERE = {
    *(*OF_EVERYBODY, "event", "event_entry", "write_stat", "deleted_file", "outcome", "metastore"),
    *("base_path", "steady_clock", "clock_jump", "era", "archived_era", "location"),
}
OF_NAMESPACES = [
    example for example in EXAMPLES if NOT_THERE.isdisjoint(re.findall(r"(?:FROM|JOIN) (\w+)", example))
]
"""The statements of the audit page that read nothing but what auditors of namespaces have."""
WITH_ACTOR = ("audit_commands", "audit_history", "refusal")
"""Views with rows of the actor shopX, of which no namespace but shopX has any."""
SIMILAR = ("shop", "shop_x", "shopX")
LOGINS = tuple(f"{name}_{os.getpid()}" for name in ("of_shop", "of_shop_x", "of_hr", "of_none"))
OF_SHOP, OF_SHOP_X, OF_HR, OF_NONE = LOGINS
FIRST_POSITION = "'WyIwIiwwXQ'"


@pytest.fixture(scope="module")
def logins(postgres: str, template: str) -> Iterator[None]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        for login in LOGINS:
            connection.execute(f"CREATE ROLE {login} LOGIN IN ROLE {ROLE}".encode())
    yield
    with psycopg.connect(postgres, autocommit=True) as connection:
        for login in LOGINS:
            connection.execute(f"DROP ROLE {login}".encode())


@pytest.fixture(scope="module")
def lake(shared_dsn: str, logins: None) -> str:
    """The DSN of a lake with three namespaces of similar names, and tables that were renamed between them."""
    make_token(shared_dsn)
    with History(shared_dsn) as history:
        for namespace in SIMILAR:
            make_history(history, namespace)
        make_roles(history, *(f"{namespace}.orders" for namespace in SIMILAR), "shop.none", "shopX.none")
        history.make_namespace("hr")
        rename(history, "hr.salaries", "shop.came")
        rename(history, "shop.left", "hr.was_left", "shopX.secret")
        rename(history, "shop.away", "hr.away", "shop.back")
    located.allow(shared_dsn, "elsewhere", "s3://lake/elsewhere")
    allow(shared_dsn, OF_SHOP, "shop")
    allow(shared_dsn, OF_SHOP_X, "shop_x")
    allow(shared_dsn, OF_HR, "hr")
    # Otherwise PostgreSQL does it meanwhile, and plans differ.
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return shared_dsn


def rename(history: History, name: str, *later: str) -> None:
    """A table that has some of all under each of its names; its actor is called like its namespace."""
    history.make_table(name)
    for number, new_name in enumerate((*later, None)):
        actor = name.partition(".")[0]
        requested_time, _ = history.write(name, number, actor=actor)
        history.change_schema(name, AddColumn(f"in_{actor}_{number}", "string"))
        history.roll_back(name, history.begin(name, actor=actor))
        pending = history.begin(name, actor=actor)
        history.mark(name, pending, 1, 2)
        vend(history, name)
        history.report(name, pending, 2)
        history.refused(tables.AlterTable(name, "none.there"), actor=actor)
        history.denied(tables.DropTable(name), Right.DEFINE)
        if new_name is not None:
            history.done(tables.AlterTable(name, new_name, set={"owner": requested_time}), actor=actor)
            history.pass_seconds(1)
            name = new_name


def global_rows(dsn: str, statement: str, *parameters: object) -> list[Row]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.execute("SET search_path TO chronolake")
        return connection.execute(statement.encode(), parameters).fetchall()


IN_SHOP = "table_id IN (SELECT table_id FROM chronolake.lake_table WHERE namespace = 'shop')"
NAMED_IN_SHOP = "table_id IS NULL AND starts_with(table_name, 'shop.')"
"""Denials whose caller could not know whether there is such a table."""
ROWS = "SELECT to_jsonb(v)::text AS row FROM {} v WHERE {} ORDER BY 1"


# ---------------------------------------------------------------------------------- the rows


@pytest.fixture(scope="module")
def left(lake: str) -> tuple[str, int]:
    """The table that left the namespace shop, and the version of the event by which it did."""
    [row] = global_rows(
        lake, "SELECT table_id::text, version FROM audit_tables WHERE renamed_from = 'shop.left'"
    )
    return row["table_id"], row["version"]


@pytest.mark.parametrize("view", [*VIEWS, "tables_as_of(now() + interval '9 years')", "state_at(NULL)"])
def test_a_view_has_the_rows_that_the_global_auditor_sees_of_the_namespace(
    lake: str, left: tuple[str, int], view: str
) -> None:
    here = f"{IN_SHOP} OR {NAMED_IN_SHOP}" if view == "audit_denials" else IN_SHOP
    expected = global_rows(lake, ROWS.format(view, here))

    assert query(lake, OF_SHOP, ROWS.format(view, f"table_id IS DISTINCT FROM '{left[0]}'")) == expected
    assert 0 < len(expected) < len(global_rows(lake, ROWS.format(view, True)))


def test_namespaces_with_similar_names_are_apart(lake: str) -> None:
    assert names(lake, OF_SHOP_X) == {"shop_x.orders", "shop_x.clicks", "shop_x.dropped"}
    assert names(lake, OF_SHOP) == {
        *("shop.orders", "shop.clicks", "shop.dropped", "shop.came", "shop.back", "shop.left")
    }
    assert names(lake, OF_NONE) == set()


def test_a_table_comes_into_a_namespace_with_its_history(lake: str) -> None:
    history = "SELECT actor, type FROM audit_history WHERE table_name = 'shop.came' ORDER BY version"

    assert query(lake, OF_SHOP, history) == global_rows(lake, history)
    assert query(lake, OF_SHOP, history)[0] == {"actor": "ann", "type": "TableCreated"}


@pytest.mark.parametrize("view", WITH_VERSION)
def test_what_a_table_did_before_it_left_stays_under_its_last_name_there(
    lake: str, left: tuple[str, int], view: str
) -> None:
    table_id, version = left
    before = f"SELECT version, count(*) FROM {view} WHERE table_id = '{table_id}' {{}} GROUP BY 1 ORDER BY 1"
    expected = global_rows(lake, before.format(f"AND version <= {version}"))

    assert query(lake, OF_SHOP, before.format("")) == expected
    assert 0 < len(expected) < len(global_rows(lake, before.format("")))


def test_nothing_of_a_table_that_left_tells_of_its_later_names_and_changes(
    lake: str, left: tuple[str, int]
) -> None:
    seen = [
        row["row"]
        for view in VIEWS
        for row in query(lake, OF_SHOP, f"SELECT to_jsonb(v)::text AS row FROM {view} v")
    ]
    [renaming] = query(
        lake, OF_SHOP, f"SELECT * FROM audit_tables WHERE table_id = '{left[0]}' AND version = {left[1]}"
    )

    assert [row for row in seen if "shopX" in row or "secret" in row] == []
    assert (renaming["table_name"], renaming["renamed_from"]) == ("hr.was_left", "shop.left")
    assert (renaming["actor"], renaming["changed_again_at"]) == ("shop", None)


@pytest.mark.parametrize("view", [view for view in VIEWS if view not in WITH_VERSION])
def test_the_state_of_a_table_goes_with_it(lake: str, left: tuple[str, int], view: str) -> None:
    of_table = f"SELECT * FROM {view} WHERE table_id = '{left[0]}'"

    assert query(lake, OF_SHOP, of_table) == []


def test_an_auditor_of_two_namespaces_keeps_a_table_until_it_left_both(
    lake: str, left: tuple[str, int]
) -> None:
    allow(lake, OF_NONE, "hr")
    allow(lake, OF_NONE, "shop")
    last = f"SELECT max(version) AS last, table_name FROM audit_history WHERE table_id = '{left[0]}' GROUP BY 2"
    [renaming] = global_rows(lake, "SELECT version FROM audit_tables WHERE renamed_from = 'hr.was_left'")

    seen = query(lake, OF_NONE, last)
    run(lake, "revoke", OF_NONE, "hr")
    run(lake, "revoke", OF_NONE, "shop")

    assert seen == [{"last": renaming["version"], "table_name": "hr.was_left"}]
    assert names(lake, OF_NONE) == set()


@pytest.fixture(scope="module")
def expected_schema(lake: str, left: tuple[str, int]) -> str:
    """A schema in which the views of the global auditor are restricted by hand."""
    before = f"{IN_SHOP} OR (table_id = '{left[0]}' AND version <= {left[1]})"
    restrictions = dict.fromkeys(VIEWS, IN_SHOP) | dict.fromkeys(WITH_VERSION, before)
    restrictions["audit_denials"] += f" OR {NAMED_IN_SHOP}"
    with psycopg.connect(lake) as connection:
        connection.execute("CREATE SCHEMA by_hand")
        for view, here in restrictions.items():
            connection.execute(
                f"CREATE VIEW by_hand.{view} AS SELECT * FROM chronolake.{view} WHERE {here}".encode()
            )
        for function, argument in (("tables_as_of", "timestamptz"), ("state_at", "text")):
            [[result]] = connection.execute(
                "SELECT pg_get_function_result(%s::regproc)", [f"chronolake.{function}"]
            ).fetchall()
            connection.execute(
                f"CREATE FUNCTION by_hand.{function}(a {argument}) RETURNS {result} LANGUAGE sql AS"
                f" $$ SELECT * FROM chronolake.{function}(a) f WHERE f.{IN_SHOP} $$".encode()
            )
    return "by_hand"


@pytest.mark.parametrize("example", OF_NAMESPACES, ids=lambda example: " ".join(example.split())[:60])
def test_the_documented_queries_give_the_rows_of_the_namespace(
    lake: str, expected_schema: str, left: tuple[str, int], example: str
) -> None:
    with psycopg.connect(lake) as connection:
        connection.execute(f"SET search_path TO {expected_schema}, chronolake".encode())
        expected = connection.execute(example.encode()).fetchall()

    rows = [tuple(row.values()) for row in query(lake, OF_SHOP, example)]
    # The global views have the present name of the table that left.
    named = [str(row).replace("shopX.secret", "shop.left") for row in expected]
    assert sorted(map(str, rows)) == sorted(named)


# ---------------------------------------------------------------------------------- nothing else


@pytest.mark.parametrize("schema", ["chronolake", "pg_catalog, chronolake"])
def test_no_table_of_the_schema_can_be_named(lake: str, schema: str) -> None:
    relations = global_rows(
        lake,
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = 'chronolake'::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'S')",
    )

    with connected(lake, OF_SHOP) as connection:
        connection.execute(f"SET search_path TO {schema}".encode())
        connection.commit()
        for name in ("", "chronolake."):
            for relation in relations:
                with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)):
                    connection.execute(f"SELECT * FROM {name}{relation['relname']}".encode())
                connection.rollback()


def test_the_role_has_no_right_beyond_reading_its_views(lake: str) -> None:
    rights = global_rows(
        lake,
        """
        SELECT c.oid::regclass::text AS name, a.privilege_type AS privilege
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE a.grantee = 'chronolake_namespace_auditor'::regrole
        UNION ALL
        SELECT n.nspname, a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a
        WHERE a.grantee = 'chronolake_namespace_auditor'::regrole
        """,
    )

    assert {(right["name"].rpartition(".")[2], right["privilege"]) for right in rights} == {
        *((view, "SELECT") for view in VIEWS),
        ("steady_clock", "SELECT"),
        ("chronolake_namespace_audit", "USAGE"),
    }


@pytest.mark.parametrize("call", ["tables_as_of(now())", f"state_at({FIRST_POSITION})"])
def test_the_functions_of_the_global_auditor_are_refused(lake: str, call: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query(lake, OF_SHOP, f"SELECT * FROM chronolake.{call}")


@pytest.mark.parametrize(
    "role", ["chronolake_auditor", "chronolake_server", OF_HR], ids=["auditor", "server", "another login"]
)
@pytest.mark.parametrize("change", ["SET ROLE", "SET SESSION AUTHORIZATION"])
def test_no_other_role_can_be_taken_on(lake: str, change: str, role: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query(lake, OF_SHOP, f"{change} {role}")


def test_the_role_of_all_auditors_of_namespaces_has_no_namespace(lake: str) -> None:
    with connected(lake, OF_SHOP_X) as connection:
        connection.execute(f"SET ROLE {ROLE}".encode())
        rows = connection.execute("SELECT DISTINCT table_name FROM audit_history").fetchall()

    assert {row["table_name"].partition(".")[0] for row in rows} == {"shop_x"}


# ---------------------------------------------------------------------------------- leaks

LEAKED = {"audit_files": "file_name"} | dict.fromkeys(
    ("audit_markers", "audit_pending", "audit_services", "audit_streams"), "writer"
)
"""Columns of views without a request id."""
LEAKY = """
    CREATE FUNCTION pg_temp.leaks(seen text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN RAISE NOTICE 'seen %', seen; RETURN true; END $$
"""


@pytest.mark.parametrize("view", VIEWS)
def test_a_function_of_the_auditor_sees_no_other_row(lake: str, left: tuple[str, int], view: str) -> None:
    seen, column = list[str](), LEAKED.get(view, "request_id")
    with connected(lake, OF_SHOP) as connection:
        connection.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
        connection.execute(LEAKY)
        seen_text = f"format('%s %s %s', table_id, table_name, {column})"
        rows = connection.execute(f"SELECT * FROM {view} WHERE pg_temp.leaks({seen_text})".encode()).fetchall()

    assert rows
    assert set(seen) == {f"seen {row['table_id'] or ''} {row['table_name']} {row[column]}" for row in rows}


@pytest.mark.parametrize("view", WITH_ACTOR)
@pytest.mark.parametrize(
    "condition",
    [
        "1 / (CASE actor WHEN 'shopX' THEN 0 ELSE 1 END) = 1",
        "CASE actor WHEN 'shopX' THEN actor::int ELSE 1 END = 1",
    ],
)
def test_no_error_comes_from_another_row(lake: str, view: str, condition: str) -> None:
    assert query(lake, OF_SHOP, f"SELECT * FROM {view} WHERE {condition}")


@pytest.mark.parametrize(
    ("view", "condition", "of_others"),
    [
        *((view, "table_name > {}", "shop.zzz") for view in VIEWS),
        *((view, "actor = {}", "shopX") for view in WITH_ACTOR),
    ],
)
def test_the_rows_that_explain_counts_do_not_depend_on_what_others_have(
    lake: str, view: str, condition: str, of_others: str
) -> None:
    explained = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT * FROM {view} WHERE {condition}"

    [there] = query(lake, OF_SHOP, explained.format(f"'{of_others}'"))
    [nowhere] = query(lake, OF_SHOP, explained.format("'~~~'"))

    assert global_rows(lake, f"SELECT FROM {view} WHERE {condition}".format(f"'{of_others}'"))
    assert counts(there["QUERY PLAN"][0]["Plan"]) == counts(nowhere["QUERY PLAN"][0]["Plan"])


def counts(plan: Row) -> list[object]:
    """The rows of each node of a plan, and of those that it removed."""
    here = {
        name: value for name, value in plan.items() if name.startswith("Rows Removed") or name == "Actual Rows"
    }
    return [here, *(counts(inner) for inner in plan.get("Plans", []))]


def test_statistics_of_columns_are_hidden(lake: str) -> None:
    statistics = (
        "SELECT DISTINCT tablename FROM pg_catalog.pg_stats WHERE starts_with(schemaname, 'chronolake')"
    )

    assert query(lake, OF_SHOP, statistics) == [{"tablename": "steady_clock"}]
    assert len(global_rows(lake, statistics)) > 10


def test_names_of_the_auditor_take_the_place_of_none_in_the_views(lake: str) -> None:
    with connected(lake, OF_SHOP_X) as connection:
        connection.execute("CREATE TEMP TABLE namespace_auditor (login name, login_oid oid, namespace text)")
        connection.execute("INSERT INTO namespace_auditor SELECT rolname, oid, 'shop' FROM pg_roles")
        connection.execute("CREATE TEMP TABLE lake_table (table_id uuid, namespace text, name text)")
        connection.execute(
            "CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql RETURN true"
        )
        for name in ("jsonb", "xid8"):
            connection.execute(
                f"CREATE FUNCTION pg_temp.is_ours({name}) RETURNS boolean LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'executed as %', current_user; END $$;"
                f"CREATE DOMAIN pg_temp.{name} AS pg_catalog.{name} CHECK (pg_temp.is_ours(VALUE))".encode()
            )
        connection.execute("SET search_path TO pg_temp, chronolake_namespace_audit, pg_catalog")
        rows = connection.execute("SELECT DISTINCT table_name FROM audit_history").fetchall()
        of_state = connection.execute("SELECT table_name FROM state_at(NULL)").fetchall()

    assert {row["table_name"].partition(".")[0] for row in [*rows, *of_state]} == {"shop_x"}


# ---------------------------------------------------------------------------------- migrations


def test_the_next_migration_makes_the_views_that_a_dump_lacks(dsn: str, logins: None) -> None:
    execute(dsn, "DROP SCHEMA {} CASCADE", "chronolake_namespace_audit")
    migrations.upgrade(dsn)

    assert query(dsn, OF_SHOP, "SELECT * FROM audit_history") == []
    assert query(dsn, OF_SHOP, "SELECT * FROM tables_as_of(now())") == []


def test_a_migration_does_not_wait_for_auditors(dsn: str, logins: None) -> None:
    with connected(dsn, OF_SHOP) as reading:
        for view in VIEWS:
            reading.execute(f"SELECT * FROM {view}".encode())
        with psycopg.connect(dsn) as migrating:
            migrating.execute("SET lock_timeout TO '1s'")
            migrating.execute(scripts.read("namespace_audit.sql"))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_columns_of_its_original_with_their_comments(lake: str, view: str) -> None:
    columns = """
        SELECT a.attname, a.atttypid::regtype::text, col_description(a.attrelid, a.attnum) AS comment
        FROM pg_attribute a
        WHERE a.attrelid = %s::regclass AND a.attnum > 0
        ORDER BY a.attnum
    """

    assert global_rows(lake, columns, f"chronolake_namespace_audit.{view}") == global_rows(
        lake, columns, f"chronolake.{view}"
    )


def test_each_view_of_auditors_is_there_but_those_whose_rows_are_of_no_table(lake: str) -> None:
    views = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname LIKE 'audit\\_%%'"

    ours = {row["relname"] for row in global_rows(lake, views, "chronolake_namespace_audit")}
    theirs = {row["relname"] for row in global_rows(lake, views, "chronolake")}
    assert theirs - ours == {*OF_EVERYBODY}
    assert ours <= {*VIEWS}
