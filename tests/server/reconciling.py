"""Markers of attempts, the rollbacks of their instants, and the record of their deletions."""

from __future__ import annotations

from typing import Any

from tests.server import database
from tests.server.rest import Json, Table, marker, succeeded

MERGE_ON_READ = {"type": "merge_on_read"}


def names(*markers: Json) -> list[str]:
    """The names of their data files, in order."""
    return sorted(marker["file_name"] for marker in markers)


def retried(instant: str, bucket: int = 0) -> Json:
    """The marker of a second attempt at the same file."""
    first = marker(instant, bucket)
    return first | {"file_name": first["file_name"].replace("0-0-0_", "0-0-1_")}


def recorded(dsn: str, table: Table) -> list[tuple[str, str | None, str, str, str]]:
    """The deleted files of a table, by the auditor's view."""
    rows = database.query(
        dsn, "SELECT * FROM audit_deletions WHERE table_name = %s ORDER BY version, file_name", table.name
    )
    return [
        (row["requested_digits"], row["rollback_digits"], row["file_name"], row["actor"], row["request_id"])
        for row in rows
    ]


def shown(table: Table, instant: str) -> Json:
    """An instant of the timeline."""
    return succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}"))


def rolled_back(table: Table, *buckets: int, **body: Any) -> tuple[str, str]:
    """An instant with markers that was rolled back, and its rollback."""
    instant = table.begun()
    table.marked(instant, *(marker(instant, bucket) for bucket in buckets))
    rollback: str = succeeded(table.roll_back(instant, **body))["rolled_back_by"]
    return instant, rollback
