"""Logins of auditors of namespaces: made, allowed by the operator, and reading."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import dict_row

from tests import forked_program

Row = dict[str, Any]

ROLE = "chronolake_namespace_auditor"


def run(dsn: str, command: str, *arguments: str) -> str:
    """The output of a command of the operator."""
    ended = forked_program.run("auditors", command, "--dsn", dsn, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def allow(dsn: str, login: str, namespace: str) -> None:
    """Let a login audit a namespace."""
    run(dsn, "allow", login, namespace)


def connected(dsn: str, login: str) -> psycopg.Connection[Row]:
    """A connection of a login to the views of auditors of namespaces."""
    connection = psycopg.connect(conninfo.make_conninfo(dsn, user=login), row_factory=dict_row)
    connection.execute("SET search_path TO chronolake_namespace_audit")
    return connection


def query(dsn: str, login: str, statement: str) -> list[Row]:
    """The rows of a query, as a login."""
    with connected(dsn, login) as connection:
        return connection.execute(statement.encode()).fetchall()


def names(dsn: str, login: str) -> set[str]:
    """The names of the tables whose history a login sees."""
    return {row["table_name"] for row in query(dsn, login, "SELECT table_name FROM audit_history")}


def execute(dsn: str, statement: str, *identifiers: str) -> None:
    """Execute a statement as the owner."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, identifiers)))
