"""Tables whose files are really in storage, with servers that delete."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

import chronolake
from chronolake.storage import Storage
from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.fix_s3 import KEYS
from tests.fix_stores import Store
from tests.server import rest
from tests.server.rest import Json, Table, succeeded

CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEYS["access_key"], "AWS_SECRET_ACCESS_KEY": KEYS["secret_key"]}
"""The environment of a server."""


def marker_of(instant: str, number: int) -> Json:
    """The marker of one of an instant's files; ten of them are in a partition."""
    name = base_file_name(bucket_file_id(number), "0-0-0", instant)
    return {"partition_path": f"day=2026%2D01%2D{number // 10}", "file_name": name, "kind": "CREATE"}


def path_of(marker: Json) -> str:
    return f"{marker['partition_path']}/{marker['file_name']}"


class StoredTable(Table):
    """A table with its storage: files are objects without content."""

    def __init__(self, table: Table, store: Store) -> None:
        super().__init__(table.http, table.name)
        self.store = store
        self.storage: Storage = store.open()

    def wrote(self, instant: str, files: int = 3) -> list[Json]:
        """Mark files of an instant, and write them."""
        markers = [marker_of(instant, number) for number in range(files)]
        self.marked(instant, *markers)
        self.storage.create_all_empty(map(path_of, markers))
        return markers

    def given_up(self, files: int = 3, *, first: str | None = None) -> tuple[str, list[Json]]:
        """The rollback of an instant that had written files, without an executor yet."""
        instant = first or self.begun()
        markers = self.wrote(instant, files)
        rolled_back = succeeded(self.roll_back(instant, execute=False))
        rollback: str = rolled_back["rolled_back_by"]
        return rollback, markers

    def paths(self) -> list[str]:
        """All files that are in storage."""
        return sorted(file.path for file in self.storage.listing())

    def unswept(self, **parameters: int) -> list[str]:
        """The instants that are due to be swept."""
        page = succeeded(self.http.get(f"/v1/tables/{self.name}/unswept", params=parameters))
        return [instant["requested_time"] for instant in page["instants"]]

    def is_completed(self, instant: str) -> bool:
        return self.state(instant) == "completed"

    def orphans(self) -> list[chronolake.Orphan]:
        """The client's report of orphans."""
        with chronolake.connect(str(self.http.base_url), storage_options=self.store.options) as client:
            return client.table(self.name).orphans().orphans


def public_options(store: Store) -> dict[str, str]:
    """The properties of a table that say where its store is."""
    options = store.options or {}
    return {f"storage.{name}": options[name] for name in ("endpoint_override", "region") if name in options}


def make(http: httpx.Client, store: Store, **properties: str) -> StoredTable:
    """As ``declare``, with one file that is no data file."""
    table = declare(http, store, **properties)
    table.storage.create_empty("day=0/not-a-data-file")
    return table


def declare(http: httpx.Client, store: Store, **properties: str) -> StoredTable:
    """A new table in a store, whose properties hold its public storage options; its grace period is 0."""
    table = rest.make_table(
        http,
        f"ns_{uuid.uuid4().hex[:12]}.orders",
        base_path=store.base_path,
        partition_fields=["day"],
        schema=[
            {"name": "id", "type": "bigint", "nullable": False},
            {"name": "day", "type": "string", "nullable": False},
        ],
        properties={"deletions.grace-seconds": "0"} | public_options(store) | properties,
    )
    return StoredTable(table, store)


@contextmanager
def table_at(url: str, store: Store, **properties: str) -> Iterator[StoredTable]:
    """A new table at a server."""
    with rest.connect(url) as http:
        yield make(http, store, **properties)
