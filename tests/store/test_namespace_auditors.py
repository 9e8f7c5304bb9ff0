"""The operator says which logins audit which namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from psycopg import conninfo

from tests import forked_program
from tests.forked_program import complaint
from tests.store.audit_logins import ROLE, allow, execute, names, run
from tests.store.history import History

GROUP = f"auditors_of_shop_x_{os.getpid()}"


@pytest.fixture(scope="module")
def lake(shared_dsn: str) -> Iterator[str]:
    """The DSN of a lake with two namespaces of one table each, and a group that audits one of them."""
    with History(shared_dsn) as history:
        for namespace in ("shop", "shop_x"):
            history.make_namespace(namespace)
            history.make_table(f"{namespace}.orders")
    execute(shared_dsn, f"CREATE ROLE {{}} IN ROLE {ROLE}", GROUP)
    allow(shared_dsn, GROUP, "shop_x")
    yield shared_dsn
    execute(shared_dsn, "DROP ROLE {}", GROUP)


def test_each_command_may_run_again(lake: str) -> None:
    assert run(lake, "allow", GROUP, "new") == f"new: {GROUP} is allowed\n"
    assert run(lake, "allow", GROUP, "new") == f"new: {GROUP} was allowed before\n"
    assert f"new: {GROUP}\n" in run(lake, "list")
    assert run(lake, "revoke", GROUP, "new") == f"new: {GROUP} is revoked\n"
    assert run(lake, "revoke", GROUP, "new") == f"new: {GROUP} was not allowed\n"
    assert f"new: {GROUP}" not in run(lake, "list")


@pytest.mark.parametrize(
    ("login", "namespace", "message"),
    [
        ("nobody_has_this", "shop", "PostgreSQL has no login 'nobody_has_this'"),
        (ROLE, "shop", f"all auditors of namespaces are members of {ROLE}"),
        (GROUP, "shop.orders", "is not the name of a namespace"),
        (GROUP, "%", "is not the name of a namespace"),
    ],
    # Logins have names of their own in each process of the tests, which must all find the same tests.
    ids=["no login", "the role of all", "a table", "a pattern"],
)
def test_what_is_no_login_or_no_namespace_is_refused(
    lake: str, login: str, namespace: str, message: str
) -> None:
    ended = forked_program.run("auditors", "allow", "--dsn", lake, login, namespace)

    assert message in complaint(ended)


@pytest.fixture
def person(lake: str) -> Iterator[str]:
    """The name of a login that a test makes; it is dropped at the end."""
    name = f'A person\'s "{os.getpid()}"'
    yield name
    execute(lake, "DROP ROLE IF EXISTS {}", name)


def test_only_the_owner_says_who_audits(lake: str, person: str) -> None:
    execute(lake, f"CREATE ROLE {{}} LOGIN IN ROLE {ROLE}, chronolake_server", person)
    theirs = conninfo.make_conninfo(lake, user=person)

    for command in (("allow", person, "shop"), ("revoke", GROUP, "shop_x"), ("list",)):
        ended = forked_program.run("auditors", *command, "--dsn", theirs)
        assert f"the login {person!r} may not" in complaint(ended)


def test_a_login_that_is_no_member_of_the_role_is_told_the_statement_that_is_missing(
    lake: str, person: str
) -> None:
    execute(lake, "CREATE ROLE {} LOGIN", person)

    told = run(lake, "allow", person, "shop")
    execute(lake, told.partition("run in PostgreSQL: ")[2].strip())
    assert "GRANT" not in run(lake, "allow", person, "shop")
    assert "shop.orders" in names(lake, person)


def test_a_new_login_with_the_name_of_a_dropped_one_audits_nothing(lake: str, person: str) -> None:
    execute(lake, f"CREATE ROLE {{}} LOGIN IN ROLE {ROLE}", person)
    allow(lake, person, "shop_x")
    assert "shop_x.orders" in names(lake, person)
    execute(lake, "DROP ROLE {}", person)
    execute(lake, f"CREATE ROLE {{}} LOGIN IN ROLE {ROLE}", person)

    assert names(lake, person) == set()
    assert f"shop_x: {person} (dropped or renamed)" in run(lake, "list")
    allow(lake, person, "shop_x")
    assert "shop_x.orders" in names(lake, person)


def test_the_namespaces_of_a_group_are_those_of_its_members(lake: str, person: str) -> None:
    execute(lake, f"CREATE ROLE {{}} LOGIN IN ROLE {GROUP}", person)
    before = names(lake, person)
    execute(lake, f"REVOKE {GROUP} FROM {{}}", person)
    execute(lake, f"GRANT {ROLE} TO {{}}", person)

    assert (before, names(lake, person)) == ({"shop_x.orders"}, set())
