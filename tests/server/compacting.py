"""Compactions of published tables."""

from __future__ import annotations

import httpx

from tests.server import rest
from tests.server.rest import Table, succeeded, write_stat


def begin_unpublished(table: Table, key: str) -> httpx.Response:
    """Begin a compaction on a table whose publisher has not published its plan: it is refused."""
    compacted = rest.make_table(table.http, type="merge_on_read", ordering_field=None)
    writing = compacted.begun(action="deltacommit")
    succeeded(compacted.complete(writing, write_stat(writing)))
    publisher = {"publisher": "p", "lease_seconds": 60}
    succeeded(table.http.post(f"/v1/tables/{compacted.name}/publication/lease", json=publisher))
    stat = write_stat(writing)
    group = {"partition_path": stat["partition_path"], "file_id": stat["file_id"]}
    return compacted.begin(key, action="compaction", plan={"file_groups": [group]})
