"""Schema changes: which are made, and which are refused."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import schemas, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated, TableSchemaChanged
from chronolake_metastore.domain.logs import encode_payload
from chronolake_metastore.domain.tables import Table
from chronolake_model.schemas import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from chronolake_model.tables import NestedField, NewField, SchemaField
from chronolake_model.times import Micros
from tests.model_of_schemas import CHANGES

FIELDS: Final = [
    NewField("id", "int", nullable=False),
    NewField("name", "string", nullable=False),
    NewField("at", "timestamp"),
    NewField("day", "date"),
    NewField("price", "decimal(4,2)"),
    NewField("tags", "array<int>"),
]
TABLE: Final = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders",
            base_path="/lake",
            schema=FIELDS,
            record_key_fields=["id"],
            partition_fields=["day"],
            ordering_field="at",
        )
    ),
    UUID(int=7),
    Micros(0),
)


def changed(table: Table, *changes: SchemaChange) -> Table:
    """The table after the changes, as the log would tell it."""
    payload = encode_payload(schemas.change(table, schemas.ChangeSchema("shop.orders", [*changes])))
    return schemas.evolve(table, msgspec.json.decode(payload, type=TableSchemaChanged))


def test_columns_are_numbered_from_1_in_their_order_at_creation_and_then_nested_fields() -> None:
    definition = TABLE.definition
    assert [field.field_id for field in definition.schema] == [1, 2, 3, 4, 5, 6]
    assert (definition.schema[-1].nested, definition.last_field_id) == ([NestedField("element", 7)], 7)


@given(requests=st.lists(CHANGES, max_size=12))
def test_a_dropped_field_id_is_never_used_again_and_no_two_columns_have_one_name(
    requests: list[list[SchemaChange]],
) -> None:
    table, gone = TABLE, set[int]()
    for changes in requests:
        before, last = {field.field_id for field in table.definition.schema}, table.definition.last_field_id
        try:
            table = changed(table, *changes)
        except errors.IncompatibleSchema:
            continue
        names = [field.name.lower() for field in table.definition.schema]
        assert len(set(names)) == len(names)
        after = {field.field_id for field in table.definition.schema}
        gone |= before - after
        assert not after & gone
        assert all(new > last for new in after - before)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (AddColumn("extra", "int", nullable=False), "add it as a nullable column"),
        (AddColumn("NAME", "int"), "there is the column 'name' already"),
        (RenameColumn("name", "Id"), "there is the column 'id' already"),
        (RenameColumn("name", "name"), "already has this name"),
        (RenameColumn("nothing", "name"), "the columns are id, name, at, day, price, tags"),
        (RenameColumn("NAME", "title"), "the columns are id, name"),
        (RenameColumn("id", "key"), "a record key field cannot be renamed"),
        (RenameColumn("day", "date"), "a partition field cannot be renamed"),
        (DropColumn("at"), "an ordering field cannot be dropped"),
        (DropColumn("id"), "a record key field cannot be dropped"),
        (WidenColumn("id", "bigint"), "a record key field cannot be given another type"),
        (WidenColumn("name", "binary"), "no type is wider"),
        (WidenColumn("price", "decimal(6,3)"), r"it may become decimal\(p,2\) with p > 4"),
        (WidenColumn("price", "decimal(3,2)"), r"it may become decimal\(p,2\) with p > 4"),
        (WidenColumn("tags", "array<bigint>"), "no type is wider"),
        (SetNullable("name", nullable=False), "a nullable column stays nullable"),
        (SetNullable("price"), "nullable already"),
    ],
)
def test_an_incompatible_change_is_refused_with_the_reason(change: SchemaChange, why: str) -> None:
    with pytest.raises(errors.IncompatibleSchema, match=why) as refused:
        schemas.change(TABLE, schemas.ChangeSchema("shop.orders", [AddColumn("more", "int"), change]))
    assert refused.value.context["table"] == "shop.orders"


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("extra", "varchar"),
        AddColumn("_hoodie_file_name", "string"),
        RenameColumn("name", "_HOODIE_x"),
        WidenColumn("name", "text"),
    ],
)
def test_a_column_that_no_table_could_have_is_refused(change: SchemaChange) -> None:
    with pytest.raises(errors.InvalidTable):
        schemas.change(TABLE, schemas.ChangeSchema("shop.orders", [change]))


def test_changes_are_made_in_their_order() -> None:
    swapped = changed(
        TABLE, RenameColumn("name", "tmp"), RenameColumn("price", "name"), RenameColumn("tmp", "price")
    )

    assert [
        (field.field_id, field.name) for field in swapped.definition.schema if field.field_id in (2, 5)
    ] == [
        (2, "price"),
        (5, "name"),
    ]


def test_a_column_of_the_name_of_a_dropped_one_is_another() -> None:
    again = changed(TABLE, DropColumn("name"), AddColumn("name", "int"))

    assert again.definition.schema[-1] == SchemaField("name", "int", field_id=8)


def test_a_column_may_get_its_name_in_another_case() -> None:
    assert changed(TABLE, RenameColumn("name", "Name")).definition.schema[1].name == "Name"


def test_a_change_of_a_version_that_is_past_is_refused_and_names_the_present_one() -> None:
    table = changed(TABLE, AddColumn("extra", "int"))

    with pytest.raises(errors.SchemaChanged) as refused:
        schemas.change(
            table, schemas.ChangeSchema("shop.orders", [DropColumn("extra")], expected_schema_version=1)
        )

    assert refused.value.context["schema_version"] == 2


def test_a_table_has_ten_thousand_columns_at_most() -> None:
    wide = TABLE
    for start in range(7, 10_000, 1_000):
        numbers = range(start, min(start + 1_000, 10_000))
        wide = changed(wide, *(AddColumn(f"c{number}", "int") for number in numbers))

    with pytest.raises(errors.IncompatibleSchema, match="10,000 columns"):
        schemas.change(wide, schemas.ChangeSchema("shop.orders", [AddColumn("more", "int")]))
