"""Iceberg's readers of other projects, to compare the rows of each snapshot with Chronolake's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

import chronolake
from chronolake_model.times import Micros, format_time
from tests.spark import hudi_reader

Reader = Callable[[Table, Snapshot], pa.Table]
Row = dict[int, Any]
"""A row by field ids."""


def load(url: str, name: str, snapshots: int, options: Mapping[str, str] | None = None) -> Table:
    """A table as pyiceberg loads it from a server's catalog when it has a number of snapshots."""
    catalog = RestCatalog("chronolake", uri=f"{url}/iceberg", **(options or {}))
    deadline = time.monotonic() + 30
    loaded: Table = catalog.load_table(name)
    while len(loaded.metadata.snapshots) != snapshots:
        assert time.monotonic() < deadline, loaded.metadata.snapshots
        time.sleep(0.05)
        loaded = catalog.load_table(name)
    return loaded


def by_pyiceberg(table: Table, snapshot: Snapshot) -> pa.Table:
    return table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def by_polars(table: Table, snapshot: Snapshot) -> pa.Table:
    """The rows by Polars' own reader of Parquet."""
    frame = pl.scan_iceberg(table, snapshot_id=snapshot.snapshot_id, reader_override="native")
    return frame.collect().to_arrow()


class DuckDB:
    """DuckDB with the catalog of a server; the extensions are those of wheels, kept in a folder."""

    def __init__(self, url: str, folder: Path, s3: Mapping[str, str] | None = None) -> None:
        self.connection = duckdb.connect(config={"extension_directory": str(folder)})
        for name in ("avro", "httpfs", "iceberg"):
            [extension] = resources.files(f"duckdb_extension_{name}").joinpath("extensions").iterdir()
            self.connection.execute(f"INSTALL '{extension / f'{name}.duckdb_extension'}'")
        if s3 is not None:
            host = s3["endpoint_override"].removeprefix("http://")
            self.connection.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{s3['access_key']}', SECRET '{s3['secret_key']}', "
                f"REGION '{s3['region']}', ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false)"
            )
        mode = ", ACCESS_DELEGATION_MODE 'none'"
        self.connection.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{url}/iceberg', AUTHORIZATION_TYPE 'none'{mode})"
        )

    def __call__(self, table: Table, snapshot: Snapshot) -> pa.Table:
        name = ".".join(table.name())
        return self.connection.execute(
            f"SELECT * FROM lake.{name} AT (VERSION => {snapshot.snapshot_id})"
        ).to_arrow_table()


def assert_same_states(table: chronolake.Table, loaded: Table, readers: Sequence[Reader]) -> None:
    """Each reader has the rows of each snapshot that Chronolake has as of its time."""
    definition = table.reload().definition
    present = {field.name: field.field_id for field in definition.schema}
    for snapshot in loaded.metadata.snapshots:
        own = hudi_reader.rows_of(table, format_time(Micros(snapshot.snapshot_id), definition.tick))
        assert snapshot.schema_id is not None
        schema = loaded.schemas()[snapshot.schema_id]
        former = {field.name: field.field_id for field in schema.fields}
        common = set(present.values()) & set(former.values())
        expected = _rows(own.select(list(present)), present, common)
        for reader in readers:
            assert _rows(reader(loaded, snapshot), former, common) == expected, (reader, snapshot)


def _rows(rows: pa.Table, ids: Mapping[str, int], common: set[int]) -> list[Row]:
    """The rows in a fixed order, with the columns that both schemas have."""
    known = [
        {ids[name]: value for name, value in row.items() if ids[name] in common} for row in rows.to_pylist()
    ]
    return sorted(known, key=lambda row: repr(sorted(row.items())))
