"""The properties of tables: what each may be, and which pending instants hold."""

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


def test_a_property_of_the_users_may_be_anything_and_is_never_held() -> None:
    properties.check({"owner": "ann", "storages": ""})
    assert properties.held_by_pending(["owner", "storages", "storage.region"]) == ["storage.region"]


def test_markers_are_required_of_instants_that_were_begun_since() -> None:
    since = msgspec.structs.replace(TABLE.definition, markers_required_since=Micros(10))
    later = msgspec.structs.replace(TABLE, definition=since)
    assert TABLE.requires_markers(Micros(1))
    assert [later.requires_markers(Micros(time)) for time in (9, 10, 11)] == [False, False, True]
