"""The SQL files and the advisory locks of the store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chronolake_migrations
from chronolake_metastore import store
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock

STORE = Path(store.__path__[0])
SQL = sorted(STORE.glob("sql/**/*.sql"))
CODE = [*STORE.parent.rglob("*.py"), *SQL, *Path(chronolake_migrations.__path__[0]).rglob("*.py")]


def test_no_two_advisory_locks_have_one_number() -> None:
    numbers = [lock.value for lock in AdvisoryLock.__members__.values()]
    assert len(set(numbers)) == len(numbers)


def test_locks_with_two_keys_fit_into_the_first_key() -> None:
    with_two_keys = (AdvisoryLock.TABLE_NAME, AdvisoryLock.MARKERS_OF_TABLE, AdvisoryLock.READERS_OF_TABLE)
    assert all(lock < 2**31 for lock in with_two_keys)


def test_no_statement_names_an_advisory_lock_by_a_number() -> None:
    numbered = re.compile(r"advisory\w*lock\w*\(\s*\d")
    assert [path.name for path in CODE if numbered.search(path.read_text("utf-8"))] == []


def test_each_sql_file_lies_in_the_folder_of_a_noun_and_is_loaded_by_its_name() -> None:
    names = {f"{path.parent.name}/{path.stem}" for path in SQL}
    assert {path.parent.parent.name for path in SQL} == {"sql"}
    loaded = set()
    for path in STORE.glob("*.py"):
        loaded |= set(re.findall(r"\"([a-z_]+/[a-z_]+)\"", path.read_text("utf-8")))
    assert names == loaded


@pytest.mark.parametrize("path", SQL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_parameter_is_written_as_psycopg_writes_it(path: Path) -> None:
    statement = re.sub(r"--[^\n]*|'[^']*'", "", path.read_text("utf-8"))
    assert re.findall(r"(?<!:):\w+", statement) == []
    assert re.findall(r"\$\d|%(?![(%])", statement) == []


def test_a_literal_replaces_each_parameter_and_keeps_its_value() -> None:
    text = statements.with_literals("SELECT %(text)s, %(number)s", {"text": "100%(a) {b} it's", "number": 7})
    assert text == "SELECT '100%(a) {b} it''s', 7"
