"""How PostgreSQL executes the statements of each write before it has statistics of a new, growing database.

A statement is prepared once per connection, often on empty tables. If its plan then reads whole tables, each
write gets slower with every write before.
"""

from __future__ import annotations

import re

import psycopg
import pytest

from chronolake_metastore.store.postgres import statements

_GROWING = (
    "buffered_file",
    "deleted_file",
    "event",
    "event_entry",
    "file",
    "instant",
    "marker",
    "outcome",
    "write_stat",
)
_PARAMETER = re.compile(r"%\((\w+)\)s")
_ONLY_BY_TABLE = (
    "buffered_file_instant",
    "file_live_from",
    "file_write_stat_unique",
    "file_superseded",
    "file_to_clean",
)
_STATEMENTS = (
    "buffered_files/find",
    "buffered_files/find_unmarked",
    "buffered_files/insert",
    "event_lists/append",
    "events/append",
    "file_groups/find_concurrent",
    "files/insert",
    "files/supersede",
    "markers/create",
    "markers/reconcile",
    "outcomes/append",
    "outcomes/find",
    "staging/find",
    "write_stats/append",
)
_STATEMENTS_OF_TASKS = ("slices/files_of_groups", "slices/last_replaced_of_buckets")


@pytest.mark.parametrize("name", _STATEMENTS)
def test_a_statement_of_a_write_reads_no_whole_table(shared_dsn: str, name: str) -> None:
    plan = generic_plan(shared_dsn, name)

    for table in _GROWING:
        assert not re.search(rf"Seq Scan on {table}\b", plan), plan
    for index in _ONLY_BY_TABLE:
        assert f"using {index} on" not in plan, plan


@pytest.mark.parametrize("name", _STATEMENTS_OF_TASKS)
def test_what_a_task_asks_reads_the_named_groups_and_what_was_superseded_since(
    shared_dsn: str, name: str
) -> None:
    plan = generic_plan(shared_dsn, name)

    assert "Seq Scan" not in plan, plan
    if name == "slices/files_of_groups":
        assert re.search(
            r"Index Scan using file_live on file .*\n.*Index Cond: .*file_id >= .*file_id <", plan
        ), plan
        assert "using file_superseded on file" in plan, plan
        assert "Hash Full Join" in plan, plan
    else:
        assert re.search(r"Index Scan Backward using replaced_group_unique .*\n.*file_id >= ", plan), plan


def generic_plan(dsn: str, name: str) -> str:
    """The plan for any parameters, as PostgreSQL makes it now."""
    text = statements.load(name)
    numbers = {parameter: number for number, parameter in enumerate(dict.fromkeys(_PARAMETER.findall(text)), 1)}
    sql = _PARAMETER.sub(lambda match: f"${numbers[match[1]]}", text)
    with psycopg.connect(dsn, prepare_threshold=None) as connection:
        connection.execute("SET search_path = chronolake")
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN (GENERIC_PLAN) {sql}"))
