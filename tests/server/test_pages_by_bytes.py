"""Pages are bounded in bytes too; a client that reads them all gets every entry once, of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from chronolake_model.file_names import bucket_file_id
from tests.fix_server import ServerProcess
from tests.server import rest
from tests.server.rest import Table, marker, succeeded, table_body, write_stat

PAGE_BYTES = 20_000
ENTRY_BYTES = 6_000
"""No entry below is larger."""
NAME = "big.table"
INSTANT = "/v1/tables/big.table/instants/{instant}"
LONG = "x" * 900
TEXT = "y" * 4_000

LISTS = {
    "/v1/namespaces": "namespaces",
    "/v1/tables": "tables",
    "/v1/tables/big.table/schemas": "schemas",
    "/v1/tables/big.table/instants": "instants",
    "/v1/tables/big.table/instants?direction=desc&order_by=completion_time": "instants",
    "/v1/tables/big.table/instants?skip=3": "instants",
    "/v1/tables/big.table/snapshot": "slices",
    "/v1/tables/big.table/snapshot?view=latest": "slices",
    "/v1/tables/big.table/changes": "file_groups",
    "/v1/tables/big.table/partitions": "partitions",
    "/v1/tables/big.table/replaced-file-groups": "file_groups",
    "/v1/tables/big.table/pending-file-groups": "file_groups",
    INSTANT.format(instant="{marked}") + "/markers": "markers",
    INSTANT.format(instant="{reported}") + "/deletions": "files",
    INSTANT.format(instant="{planned}") + "/plan/file-groups": "file_groups",
    INSTANT.format(instant="{undone}") + "/plan/files": "files",
    INSTANT.format(instant="{replaced}") + "/replaced-file-groups": "file_groups",
}


class ServedTable:
    """A small server, one with the bounds that are usual, and instants of the table."""

    def __init__(self, small: httpx.Client, usual: httpx.Client) -> None:
        self.small = small
        self.usual = usual
        self.table = Table(small, NAME)
        self.instants: dict[str, str] = {}

    def walk(self, path: str, name: str) -> tuple[list[Any], list[int]]:
        """All entries of a list by the small server's pages, and the bytes of each page."""
        entries: list[Any] = []
        sizes: list[int] = []
        cursor = None
        while True:
            page = self.small.get(
                path, params={"limit": 1_000} | ({} if cursor is None else {"cursor": cursor})
            )
            document = succeeded(page)
            entries += document[name]
            sizes.append(len(page.content))
            cursor = document["next_cursor"]
            if cursor is None:
                return entries, sizes


@pytest.fixture(scope="module")
def served(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTable]:
    folder = tmp_path_factory.mktemp("pages")
    small = ServerProcess(shared_dsn, folder / "small.log", "--page-bytes-max", str(PAGE_BYTES))
    usual = ServerProcess(shared_dsn, folder / "usual.log")
    try:
        with rest.connect(small.start().url) as small_http, rest.connect(usual.start().url) as usual_http:
            made = ServedTable(small_http, usual_http)
            _fill(made)
            yield made
    finally:
        small.stop()
        usual.stop()


def _fill(served: ServedTable) -> None:
    http, table = served.small, served.table
    for number in range(12):
        body = {"name": f"big-{number}", "properties": {"note": TEXT}}
        succeeded(http.post("/v1/namespaces", json=body))
    succeeded(http.post("/v1/namespaces", json={"name": "big"}))
    for name in (NAME, *(f"big-{number}.wide" for number in range(12))):
        wide = {"properties": {"note": TEXT}} if name != NAME else {}
        body = table_body(name, type="merge_on_read", partition_fields=["day"], **wide)
        succeeded(http.post("/v1/tables", json=body))
    for number in range(12):
        column = {"change": "add", "name": f"{number}-{LONG[:200]}", "type": "bigint"}
        succeeded(http.post(f"/v1/tables/{NAME}/schema", json={"changes": [column]}))
    paths = [f"day={number}-{LONG}" for number in range(60)]
    filled = table.begun(action="deltacommit")
    stats = [write_stat(filled, 0, path) for path in paths]
    succeeded(table.complete(filled, *stats, extra_metadata={"note": TEXT}))
    for _ in range(10):
        succeeded(table.complete(table.begun(action="deltacommit"), extra_metadata={"note": TEXT}))
    groups = [{"partition_path": path, "file_id": bucket_file_id(0)} for path in paths]
    served.instants["replaced"] = table.begun(action="replacecommit", operation="delete_partition")
    succeeded(table.complete(served.instants["replaced"], replaced_file_groups=groups[:30]))
    plan = {"file_groups": groups[30:]}
    served.instants["planned"] = table.begun(action="compaction", plan=plan, inflight=False)
    marked = served.instants["marked"] = table.begun(action="deltacommit")
    table.marked(marked, *(marker(marked, 1, path) for path in paths))
    reported = served.instants["reported"] = table.begun(action="deltacommit")
    named = [marker(reported, 1, path) for path in paths]
    table.marked(reported, *named)
    succeeded(table.report(reported, *named))
    undone = table.begun(action="deltacommit")
    written = [f"{path}/{write_stat(undone)['file_name']}" for path in paths]
    served.instants["undone"] = succeeded(table.roll_back(undone, files_to_delete=written))["rolled_back_by"]


@pytest.mark.parametrize(("path", "name"), LISTS.items())
def test_pages_of_a_list_end_at_their_bytes_and_have_all_entries_once(
    served: ServedTable, path: str, name: str
) -> None:
    path = path.format(**served.instants)

    entries, sizes = served.walk(path, name)

    assert entries == succeeded(served.usual.get(path, params={"limit": 1_000}))[name]
    assert max(sizes) <= PAGE_BYTES + ENTRY_BYTES
    assert len(sizes) > 1


def test_pages_of_changes_end_at_the_bytes_of_their_instants_and_name_each_once(served: ServedTable) -> None:
    table = rest.make_table(served.small, "big.busy")
    path = "/v1/tables/big.busy/changes"
    saved = table.begun()
    succeeded(table.complete(saved, *(write_stat(saved, bucket) for bucket in range(4))))
    savepoint = succeeded(served.small.post("/v1/tables/big.busy/savepoints", json={"writer": "w"}))
    restore = {"writer": "w", "savepoint": savepoint["requested_time"]}
    for _ in range(3):
        succeeded(served.small.post("/v1/tables/big.busy/restore", json=restore))
        begun = succeeded(table.begin(count=300))["instants"]
        together = [{"table": table.name, "requested_time": instant["requested_time"]} for instant in begun]
        succeeded(served.small.post("/v1/transactions/complete", json={"instants": together}))

    instants, sizes = served.walk(path, "instants")
    whole = succeeded(served.usual.get(path))

    assert instants == whole["instants"]
    assert len(instants) == 301
    assert [served.walk(path, name)[0] for name in ("restores", "file_groups")] == [
        whole["restores"],
        whole["file_groups"],
    ]
    assert (len(whole["restores"]), len(whole["file_groups"])) == (3, 4)
    assert max(sizes) <= PAGE_BYTES + ENTRY_BYTES
    assert len(sizes) > 1


def read_log(http: httpx.Client, table: str | None) -> tuple[list[Any], list[int]]:
    """All events by a server's pages, and the bytes of each page."""
    query: dict[str, Any] = {"limit": 1_000} | ({} if table is None else {"table": table})
    events: list[Any] = []
    sizes: list[int] = []
    after: dict[str, str] = {}
    caught_up = False
    while not caught_up:
        page = http.get("/v1/events", params=query | after)
        document = succeeded(page)
        events += document["events"]
        sizes.append(len(page.content))
        after, caught_up = {"after": document["cursor"]}, document["caught_up"]
    return events, sizes


@pytest.mark.parametrize("table", [None, NAME])
def test_pages_of_the_log_end_at_their_bytes_and_have_all_events_once(
    served: ServedTable, table: str | None
) -> None:
    events, sizes = read_log(served.small, table)
    # The events of one request are never parted, and other tests of this database may have large requests.
    bytes_of_request: Counter[str] = Counter()
    for event in events:
        bytes_of_request[event["request_id"]] += len(msgspec.json.encode(event)) + 1

    assert events == read_log(served.usual, table)[0]
    assert max(sizes) <= PAGE_BYTES + 3 * ENTRY_BYTES + max(bytes_of_request.values())
    assert len(sizes) > 1


def test_an_instant_shows_the_first_of_a_long_plan_and_the_number_of_all(served: ServedTable) -> None:
    shown = succeeded(served.small.get(INSTANT.format(instant=served.instants["undone"])))["plan"]
    entries, _ = served.walk(INSTANT.format(instant=served.instants["undone"]) + "/plan/files", "files")

    assert shown["files_to_delete_count"] == len(entries) == 60
    assert shown["files_to_delete"] == entries[: len(shown["files_to_delete"])]
    assert 0 < len(shown["files_to_delete"]) < 10
