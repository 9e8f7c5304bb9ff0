"""The Iceberg catalog of a server in this process: what it reads, makes and removes, and what it survives."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import pytest

import chronolake
from chronolake import Field
from chronolake_metastore.iceberg import bounds
from chronolake_metastore.iceberg.catalog import Catalog, LoadedTable
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.iceberg_folders import IcebergFolders
from tests.server.iceberg_tables import commit, new_table
from tests.store.shown import TESTER

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("ice")
        yield client


def with_catalog(
    dsn: str, use: Callable[[Catalog], Coroutine[Any, Any, Result]], snapshots_max: int = 1_000
) -> Result:
    """The result of the use of a new catalog."""

    async def run() -> Result:
        database = Database(Settings(dsn=dsn))
        try:
            return await use(Catalog(Service(database), IcebergFolders(database, ()).open, snapshots_max))
        finally:
            await database.close()

    return asyncio.run(run())


def load(dsn: str, table: chronolake.Table, snapshots_max: int = 1_000) -> LoadedTable:
    """A table as a new catalog loads it."""
    return with_catalog(dsn, lambda catalog: catalog.load(TESTER, table.name), snapshots_max)


def records_of(url: str) -> list[Any]:
    """The records of a manifest or a manifest list."""
    with Path(url.removeprefix("file://")).open("rb") as content:
        return list(fastavro.reader(content))


def partitions_of(loaded: LoadedTable) -> list[tuple[int, dict[str, Any]]]:
    """The spec and the partition of each file of the present snapshot."""
    return [
        (manifest["partition_spec_id"], entry["data_file"]["partition"])
        for manifest in records_of(loaded.metadata["snapshots"][-1]["manifest-list"])
        for entry in records_of(manifest["manifest_path"])
    ]


def test_two_partition_fields_of_one_decimal_type_have_types_of_their_own(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    prices = [Field("low", "decimal(4,2)"), Field("high", "decimal(4,2)")]
    fields = {"schema": [Field("id", "bigint"), *prices], "partition_fields": ["low", "high"]}
    table = new_table(client, "ice.decimals", tmp_path / "decimals", **fields)
    commit(table, path="low=1.50/high=2.25")
    expected = {"p1000": Decimal("1.50"), "p1001": Decimal("2.25")}
    assert partitions_of(load(shared_dsn, table)) == [(0, expected)]


def test_a_path_may_have_more_decimal_places_than_the_type_of_its_column(
    shared_dsn: str, client: chronolake.Client, tmp_path: Path
) -> None:
    fields = {"schema": [Field("id", "bigint"), Field("price", "decimal(4,2)")], "partition_fields": ["price"]}
    table = new_table(client, "ice.places", tmp_path / "places", **fields)
    commit(table, path="price=1.500")
    assert partitions_of(load(shared_dsn, table)) == [(0, {"p1000": Decimal("1.50")})]


def test_the_bounds_of_zero_are_those_of_both_zeros() -> None:
    found = bounds.statistics(b'{"1": [0.0, -0.0, 0]}', {1: "double"}, 1)
    assert (found.lower[1], found.upper[1]) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))
