"""``archive status`` and the last line of ``archive drop``: what stays in PostgreSQL, and why."""

from __future__ import annotations

import json
from pathlib import Path

from tests.forked_program import run
from tests.store import archiving
from tests.store.history import History
from tests.store.thinned import drop, make, query


def test_the_status_names_for_each_table_what_holds_its_events(dsn: str, tmp_path: Path) -> None:
    archive = archiving.local(tmp_path / "archive")
    with History(dsn) as history:
        make(dsn, history)
    archiving.write(dsn, archive)
    before = json.loads(run("archive", "status", "--dsn", dsn, "--json").stdout)
    drop(dsn, archive)
    shown = json.loads(run("archive", "status", "--dsn", dsn, "--json").stdout)
    dropped = run("archive", "drop", "--dsn", dsn, "--archive", str(tmp_path / "archive")).stdout

    assert before["archive"] is None
    assert shown["archive"]["location"] == str(tmp_path / "archive")
    tables = {of_table["table"]: of_table for of_table in shown["log"]["tables"]}
    held_by = {"shop.clicks": "least-commits", "shop.orders": "least-commits", "shop.dropped": "pending"}
    assert {name: of_table["held_by"] for name, of_table in tables.items()} == held_by
    first = (
        "SELECT t.namespace || '.' || t.name, f.version FROM first_event f JOIN lake_table t USING (table_id)"
    )
    assert {name: of_table["first_version"] for name, of_table in tables.items()} == dict(query(dsn, first))
    assert [part["ended_at"] is None for part in shown["log"]["parts"]] == [False, True]
    assert (
        "most events stay for least-commits, 11 of 2 tables; those of shop.orders" in dropped.splitlines()[-1]
    )
    assert dropped.splitlines()[-1] in run("archive", "status", "--dsn", dsn).stdout
