"""A table that is dropped and made again under its name is another table, to writers and readers alike."""

from __future__ import annotations

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database as sql, rest

HOUR_US = 3_600_000_000
NAME = "shop.again"


def recreate(http: httpx.Client) -> rest.Table:
    assert http.delete(f"/v1/tables/{NAME}").status_code == 204
    rest.succeeded(http.post("/v1/tables", json=rest.table_body(NAME, reuse_base_path=True)))
    return rest.Table(http, NAME)


def test_its_times_come_after_those_of_the_table_before(server: ServerProcess, http: httpx.Client) -> None:
    old = rest.make_table(http, NAME).begun()
    # The wall is set back, so that only the dropped table's own clock remembers.
    sql.set_wall_clock(server.dsn, f"(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - {HOUR_US}")
    table = recreate(http)
    assert table.begun() > old
    rest.refused(table.complete(old), 404, "instant-not-found")


@pytest.mark.parametrize("path", ["snapshot", "changes", "instants", "schemas"])
def test_a_cursor_of_the_table_before_is_refused(http: httpx.Client, path: str) -> None:
    table = rest.make_table(http, NAME)
    instant = table.begun()
    rest.succeeded(table.complete(instant, write_stats=[rest.write_stat(instant, bucket) for bucket in (0, 1)]))
    table.begun()
    page = rest.succeeded(http.get(f"/v1/tables/{NAME}/{path}", params={"limit": 1}))
    recreate(http)
    again = http.get(f"/v1/tables/{NAME}/{path}", params={"limit": 1, "cursor": page["next_cursor"]})
    rest.refused(again, 400, "invalid-cursor")
