"""A table for writers in several languages."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme

import chronolake
from chronolake import BucketIndex, Field
from tests.fix_server import ServerProcess

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
def guarded(dsn: str, tmp_path: Path) -> Iterator[chronolake.Client]:
    """A client of a server with access control and TLS."""
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1")
    ca_file, certificate, key, token = (tmp_path / name for name in ("ca", "certificate", "key", "token"))
    ca.cert_pem.write_to_path(ca_file)
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    token.write_text("an-admins-secret-of-more-than-32-characters")
    flags = ("--access", "on", "--admin-token-file", token, "--tls-certificate", certificate, "--tls-key", key)
    trusted = ssl.create_default_context(cafile=ca_file)
    server = ServerProcess(dsn, tmp_path / "server.log", *map(str, flags), tls=trusted)
    try:
        with chronolake.connect(server.start().url, token_file=token, ca_file=ca_file) as client:
            client.create_namespace("writers")
            yield client
    finally:
        server.stop()


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
