"""The properties of tables: their allowed values, and those that pending instants block."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import properties, tables
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.properties import MARKERS_PROPERTY
from chronolake_model.storage import S3_OPTIONS
from chronolake_model.tables import CreateTable, NewField
from chronolake_model.times import Micros

TABLE = tables.evolve_created(
    TableCreated(
        definition=CreateTable(
            name="shop.orders",
            base_path="/lake",
            schema=[NewField("id", "int")],
            record_key_fields=["id"],
            properties={MARKERS_PROPERTY: "true"},
        )
    ),
    UUID(int=7),
    Micros(0),
)


@pytest.mark.parametrize("name", [*properties.PROPERTIES])
def test_a_property_that_the_server_knows_is_checked_or_is_of_the_storage(name: str) -> None:
    if name.removeprefix("storage.") in S3_OPTIONS:
        assert properties.held_by_pending([name]) == [name]
        return
    with pytest.raises(errors.InvalidTable, match=name):
        properties.check({name: "maybe"})


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(
            ("endpoint_override", text)
            for text in ("", "garbage", "ftp://s3:21", "http://", "http://a b", "s3:9000\n")
        ),
        *(("endpoint_override", text) for text in ("http://user:pw@s3:9000", "s3:", "http://s3:9000/?a=b")),
        *(("region", text) for text in ("", "x y", "eu-central-1\n", "-")),
    ],
)
def test_an_endpoint_or_a_region_of_another_form_is_refused(option: str, text: str) -> None:
    with pytest.raises(errors.InvalidTable, match=f"storage.{option}"):
        properties.check({f"storage.{option}": text})


@pytest.mark.parametrize(
    "endpoint",
    ["https://s3.eu-central-1.amazonaws.com", "http://127.0.0.1:9000/", "minio_1:9000", "http://[::1]:9000"],
)
def test_an_endpoint_is_a_url_or_a_host_with_a_port(endpoint: str) -> None:
    properties.check({"storage.endpoint_override": endpoint, "storage.region": "us-east-1"})


def test_a_property_of_the_storage_in_another_case_is_refused() -> None:
    with pytest.raises(errors.InvalidTable, match="lower case"):
        properties.check({"Storage.secret_key": "s"})


def test_a_property_of_the_users_may_be_anything_and_is_never_held() -> None:
    properties.check({"owner": "ann", "storages": ""})
    assert properties.held_by_pending(["owner", "storages", "storage.region"]) == ["storage.region"]


def test_markers_are_required_of_instants_that_were_begun_since() -> None:
    since = msgspec.structs.replace(TABLE.definition, markers_required_since=Micros(10))
    later = msgspec.structs.replace(TABLE, definition=since)
    assert TABLE.requires_markers(Micros(1))
    assert [later.requires_markers(Micros(time)) for time in (9, 10, 11)] == [False, False, True]
