"""Nested fields: their ids through any changes, their paths, and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
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
from chronolake_model import nested_fields
from chronolake_model.schemas import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from chronolake_model.tables import COLUMNS_MAX, NestedField, NewField, SchemaField
from chronolake_model.times import Micros

ADDRESS = "struct<city:string,zip:int,geo:struct<lat:float,lon:float>>"
POINTS = "array<struct<x:int,y:int>>"
ATTRS = "map<string,struct<n:int>>"


def created(*columns: tuple[str, str]) -> Table:
    """A table with the columns, after its key."""
    definition = NewDefinition(
        name="shop.orders",
        base_path="/lake",
        schema=[NewField("id", "int"), *(NewField(name, type_) for name, type_ in columns)],
        record_key_fields=["id"],
    )
    return tables.evolve_created(TableCreated(definition=definition), UUID(int=7), Micros(0))


TABLE = created(("address", ADDRESS), ("points", POINTS), ("attrs", ATTRS))


def changed(table: Table, *changes: SchemaChange) -> Table:
    """The table after the changes, as a replay of the log has it."""
    payload = encode_payload(schemas.change(table, schemas.ChangeSchema("shop.orders", [*changes])))
    return schemas.evolve(table, msgspec.json.decode(payload, type=TableSchemaChanged))


def column(table: Table, name: str) -> SchemaField:
    """A column of the table."""
    [field] = [field for field in table.definition.schema if field.name == name]
    return field


def ids_of(
    fields: Sequence[SchemaField | NestedField], names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The id of each field, by the names that lead to it."""
    for field in fields:
        yield (*names, field.name), field.field_id
        yield from ids_of(field.nested, (*names, field.name))


Kind = str | dict[str, Any]
"""A type without ids: the name of a primitive one, or a nested one's fields by name; ``""`` is its kind."""

NAMES: Final = ("a", "A", "b", "x.y", "element", "key", "value")

_primitives = st.sampled_from(["int", "bigint", "float", "string"])
_kinds: st.SearchStrategy[Kind] = st.recursive(
    _primitives,
    lambda inner: st.one_of(
        st.builds(lambda element: {"": "array", "element": element}, inner),
        st.builds(lambda key, value: {"": "map", "key": key, "value": value}, inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", "x.y"]), inner, min_size=1).map(
            lambda fields: {"": "struct", **fields}
        ),
    ),
    max_leaves=5,
)
_paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda names: ["c", *names])
CHANGES: Final = st.one_of(
    st.tuples(st.just("add"), _paths, _kinds),
    st.tuples(st.just("rename"), _paths, st.sampled_from(NAMES)),
    st.tuples(st.just("widen"), _paths, st.sampled_from(["bigint", "double"])),
    st.tuples(st.just("drop"), _paths, st.none()),
)
Change = tuple[str, list[str], Any]


def text_of(kind: Kind) -> str:
    """The type as Spark writes it."""
    if isinstance(kind, str):
        return kind
    inner = {name: text_of(field) for name, field in kind.items() if name}
    match kind[""]:
        case "array":
            return f"array<{inner['element']}>"
        case "map":
            return f"map<{inner['key']},{inner['value']}>"
        case _:
            return f"struct<{','.join(f'{_quoted(name)}:{text}' for name, text in inner.items())}>"


def request(change: Change) -> SchemaChange:
    """The change as a request has it."""
    kind, names, value = change
    path = ".".join(map(_quoted, names))
    match kind:
        case "add":
            return AddColumn(path, text_of(value))
        case "rename":
            return RenameColumn(path, value)
        case "widen":
            return WidenColumn(path, value)
        case _:
            return DropColumn(path)


def _quoted(name: str) -> str:
    return f"`{name}`" if "." in name else name


@given(kind=_kinds, changes=st.lists(CHANGES, max_size=15))
def test_any_changes_of_nested_fields_keep_ids_use_none_again_or_change_nothing(
    kind: Kind, changes: list[Change]
) -> None:
    table = created(("c", text_of(kind)))
    gone: set[int] = set()
    for change in changes:
        before = {field_id: names for names, field_id in ids_of([column(table, "c")])}
        try:
            table = changed(table, request(change))
        except errors.IncompatibleSchema:
            continue
        fields = [*ids_of([column(table, "c")])]
        after = {field_id: names for names, field_id in fields}
        gone |= before.keys() - after.keys()
        assert len(after) == len(fields)
        assert not gone & after.keys()
        assert after.keys() - before.keys() == set(range(max(before | dict.fromkeys(gone)) + 1, max(after) + 1))
        assert all(len(after[kept]) == len(before[kept]) for kept in after.keys() & before.keys())
        assert table.definition.last_field_id == max(after.keys() | gone)


@given(names=st.lists(st.text("a.`é \n", min_size=1), min_size=1))
def test_a_path_is_taken_apart_into_the_names_that_it_was_joined_from(names: list[str]) -> None:
    assert nested_fields.split(nested_fields.join(names)) == names


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b", "``"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path of a column or nested field"):
        nested_fields.split(path)


def test_nested_fields_are_numbered_behind_the_columns_each_before_the_fields_within_it() -> None:
    assert list(ids_of(TABLE.definition.schema)) == [
        (("id",), 1),
        (("address",), 2),
        (("address", "city"), 5),
        (("address", "zip"), 6),
        (("address", "geo"), 7),
        (("address", "geo", "lat"), 8),
        (("address", "geo", "lon"), 9),
        (("points",), 3),
        (("points", "element"), 10),
        (("points", "element", "x"), 11),
        (("points", "element", "y"), 12),
        (("attrs",), 4),
        (("attrs", "key"), 13),
        (("attrs", "value"), 14),
        (("attrs", "value", "n"), 15),
    ]
    assert TABLE.definition.last_field_id == 15


def test_nested_fields_are_added_renamed_widened_and_dropped_and_keep_their_ids() -> None:
    after = changed(
        TABLE,
        RenameColumn("address.city", "town"),
        WidenColumn("points.element.x", "bigint"),
        AddColumn("attrs.value.tags", "array<string>"),
        DropColumn("address.geo.lon"),
        AddColumn("address.geo.lon", "double"),
    )

    assert [field.type for field in after.definition.schema] == [
        "int",
        "struct<town:string,zip:int,geo:struct<lat:float,lon:double>>",
        "array<struct<x:bigint,y:int>>",
        "map<string,struct<n:int,tags:array<string>>>",
    ]
    ids = dict(ids_of(after.definition.schema))
    assert ids["address", "town"] == 5
    assert ids["points", "element", "x"] == 11
    assert (ids["attrs", "value", "tags"], ids["attrs", "value", "tags", "element"]) == (16, 17)
    assert ids["address", "geo", "lon"] == 18


def test_an_element_and_a_value_may_become_wider() -> None:
    table = created(("tags", "array<int>"), ("counts", "map<int,float>"))

    after = changed(table, WidenColumn("tags.element", "bigint"), WidenColumn("counts.value", "double"))

    assert [field.type for field in after.definition.schema[1:]] == ["array<bigint>", "map<int,double>"]


def test_a_column_with_nested_fields_keeps_them_when_it_is_renamed() -> None:
    after = changed(TABLE, RenameColumn("address", "home"))

    assert column(after, "home").nested == column(TABLE, "address").nested


def test_a_column_with_a_dot_in_its_name_is_named_in_backticks() -> None:
    table = changed(TABLE, AddColumn("`a.b`", "struct<`c.d`:int>"), WidenColumn("`a.b`.`c.d`", "bigint"))

    assert column(table, "a.b").type == "struct<`c.d`:bigint>"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (AddColumn("address.CITY", "int"), "there is the field 'city' already"),
        (AddColumn("address.more", "int", nullable=False), "add it as a nullable column"),
        (AddColumn("address." + "n" * 256, "int"), "255 characters at most"),
        (AddColumn("points.z", "int"), "fields are added to structs only"),
        (AddColumn("id.more", "int"), "fields are added to structs only"),
        (AddColumn("nothing.more", "int"), "the columns are id, address, points, attrs"),
        (AddColumn("address.geo.lat.more", "int"), "fields are added to structs only"),
        (AddColumn("attrs.key.more", "int"), "key of a map keeps its type"),
        (RenameColumn("address.city", "ZIP"), "there is the field 'zip' already"),
        (RenameColumn("address.city", "city"), "already has this name"),
        (RenameColumn("address.nothing", "x"), "the fields of 'address' are city, zip, geo"),
        (RenameColumn("id.x", "y"), "'id' is of type int, without fields"),
        (RenameColumn("points.element", "point"), "the element of an array or a map cannot be renamed"),
        (RenameColumn("attrs.key", "k"), "key of a map keeps its type"),
        (DropColumn("attrs.value"), "the value of an array or a map cannot be dropped"),
        (DropColumn("attrs.value.n"), "drop the struct"),
        (WidenColumn("attrs.key", "binary"), "key of a map keeps its type"),
        (WidenColumn("address.city", "binary"), "no type is wider"),
        (WidenColumn("points", "array<bigint>"), r"change the fields within it, such as \.element"),
        (SetNullable("address.city"), "nullable already"),
        (SetNullable("address.city", nullable=False), "a nullable column stays nullable"),
        (DropColumn("address..city"), "is no path of a column or nested field"),
    ],
)
def test_a_change_of_a_nested_field_that_is_not_possible_is_refused(change: SchemaChange, why: str) -> None:
    with pytest.raises(errors.IncompatibleSchema, match=why) as refused:
        schemas.change(TABLE, schemas.ChangeSchema("shop.orders", [AddColumn("more", "int"), change]))
    assert refused.value.context["column"] == change.name


@pytest.mark.parametrize(
    "type_", ["varchar", "struct<a:int,A:int>", "array<" * 31 + "int" + ">" * 31, "array<struct<b:int,b:int>>"]
)
def test_a_nested_field_of_a_type_that_no_column_could_have_is_refused(type_: str) -> None:
    with pytest.raises(errors.InvalidTable):
        schemas.change(TABLE, schemas.ChangeSchema("shop.orders", [AddColumn("address.geo.more", type_)]))


def test_a_table_has_ten_thousand_columns_at_most_nested_fields_included() -> None:
    half = ",".join(f"f{number}:int" for number in range(COLUMNS_MAX // 2 - 9))
    full = changed(TABLE, AddColumn("one", f"struct<{half}>"), AddColumn("other", f"struct<{half},a:int>"))

    with pytest.raises(errors.IncompatibleSchema, match="10,000 columns at most"):
        schemas.change(full, schemas.ChangeSchema("shop.orders", [AddColumn("address.more", "int")]))
