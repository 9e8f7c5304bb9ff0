"""Tables with rows, written by executors' code, for tests of reads by the client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import chronolake
from chronolake import Field
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from tests.spark.arrow_writes import Row, row, upsert

SCHEMA = [
    Field("id", "bigint"),
    Field("amount", "int"),
    Field("note", "string"),
    Field("ts", "bigint", nullable=False),
    Field("day", "string"),
]
NewTable = Callable[..., chronolake.Table]
_NUMBERS = itertools.count(1)


def new_table(url: str, folder: Path) -> Iterator[NewTable]:
    """Makes tables of a server, in the namespace ``rows``."""
    with chronolake.connect(url) as client:
        client.create_namespace("rows", if_not_exists=True)

        def make(**definition: Any) -> chronolake.Table:
            name = f"rows.t{next(_NUMBERS)}"
            defaults = {
                "base_path": str(folder / name),
                "schema": SCHEMA,
                "record_key_fields": ["id"],
                "partition_fields": ["day"],
                "ordering_field": "ts",
                "type": TableType.MERGE_ON_READ,
                "index": BucketIndex(IndexType.SIMPLE),
                "properties": {"hudi.publish": "false"},
            }
            return client.create_table(name, **{**defaults, **definition})

        yield make


def write(table: chronolake.Table, *values: tuple[int, int | None, str, int]) -> chronolake.Instant:
    """One instant with these ids, amounts, notes and ordering values: odd ids in one partition."""
    rows = [of_day(id_ % 2, id_, amount=amount, note=note, ts=ts) for id_, amount, note, ts in values]
    return upsert(table, *rows)


def of_day(day: int, id_: int, **values: Any) -> Row:
    """A row of one partition."""
    return row(id_, group=day, path=f"day={day}", id=id_, day=str(day), **values)


def amounts(rows: pa.Table) -> dict[int, int | None]:
    """The amounts by id."""
    return dict(zip(rows["id"].to_pylist(), rows["amount"].to_pylist(), strict=True))
