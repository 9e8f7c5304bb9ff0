"""A table for writers in several languages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake import BucketIndex, Field


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        client.create_namespace("writers", if_not_exists=True)
        yield client


@pytest.fixture
def prices(client: chronolake.Client, tmp_path: Path) -> chronolake.Table:
    """A table with a key of three fields, partitions, an ordering field and columns of many types."""
    types = {
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
    return client.create_table(
        f"writers.prices_{uuid.uuid4().hex[:8]}",
        base_path=str(tmp_path / "lake" / "prices"),
        schema=[Field(name, type_) for name, type_ in types.items()],
        record_key_fields=["id", "day", "price"],
        partition_fields=["region"],
        ordering_field="n",
        index=BucketIndex(buckets=5),
    )
