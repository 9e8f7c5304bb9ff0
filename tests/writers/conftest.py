"""A table for writers in several languages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import chronolake
from chronolake import BucketIndex, Field

TYPES = {
    "id": "bigint",
    "day": "date",
    "price": "decimal(12,8)",
    "region": "string",
    "seen": "timestamp",
    "at": "timestamp_ntz",
    "n": "int",
    "small": "smallint",
    "tiny": "tinyint",
    "open": "boolean",
    "weight": "double",
    "ratio": "float",
    "note": "string",
}


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        client.create_namespace("writers", if_not_exists=True)
        yield client


@pytest.fixture
def prices(client: chronolake.Client, tmp_path: Path) -> chronolake.Table:
    """A table with a key of three fields, partitions, an ordering field and columns of many types."""
    return new_table(client, tmp_path, TYPES)


@pytest.fixture
def prices_for_hudi(client: chronolake.Client, tmp_path: Path) -> chronolake.Table:
    """The same without the column that hudi-rs 0.5.0 panics at."""
    return new_table(client, tmp_path, {name: type_ for name, type_ in TYPES.items() if name != "at"})


def new_table(client: chronolake.Client, tmp_path: Path, types: Mapping[str, str]) -> chronolake.Table:
    """A table of prices with these columns."""
    return client.create_table(
        f"writers.prices_{uuid.uuid4().hex[:8]}",
        base_path=str(tmp_path / "lake" / "prices"),
        schema=[Field(name, type_) for name, type_ in types.items()],
        record_key_fields=["id", "day", "price"],
        partition_fields=["region"],
        ordering_field="n",
        index=BucketIndex(buckets=5),
    )
