from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from chronolake_model import column_types
from chronolake_model.column_types import (
    PRIMITIVES,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

primitive_types = st.sampled_from(sorted(PRIMITIVES)).map(PrimitiveType)
decimal_types = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)


def nested_types(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    struct_fields = st.builds(StructField, st.text("ab `,:<>_1\u00e9", min_size=1), children)
    structs = st.lists(struct_fields, min_size=1, max_size=3).map(lambda fields: StructType(tuple(fields)))
    return st.builds(ArrayType, children) | st.builds(MapType, children, children) | structs


data_types = st.recursive(primitive_types | decimal_types, nested_types, max_leaves=8)


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "BIGINT",
        "decimal(38,0)",
        "decimal( 15 , 2 )",
        "array<string>",
        "map<string,array<int>>",
        "struct<a:int,b:struct<c:timestamp_ntz>>",
        "struct<`a b``c`:int>",
    ],
)
def test_sparks_types_are_types(text: str) -> None:
    column_types.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer!",
        "varchar",
        "decimal",
        "decimal(39,0)",
        "decimal(3,4)",
        "decimal(0,0)",
        "array",
        "array<int",
        "array<int>>",
        "map<string>",
        "struct<>",
        "struct<a>",
        "struct<a:int,>",
        "struct<<:int>",
        "struct<,:int>",
        "int int",
        "array<" * 50 + "int" + ">" * 50,
    ],
)
def test_other_texts_are_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        column_types.check(text)


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'strng' is not a type; the types are bigint, .*struct<"):
        column_types.check("strng")


@pytest.mark.parametrize(
    ("wider", "than"),
    [
        ("smallint", "tinyint"),
        ("int", "tinyint"),
        ("bigint", "tinyint"),
        ("int", "smallint"),
        ("bigint", "smallint"),
        (" BIGINT ", "Int"),
        ("double", "float"),
        ("decimal(5,2)", "decimal(4,2)"),
        ("Decimal ( 38 , 2 )", "decimal(4,2)"),
    ],
)
def test_a_wider_type_holds_every_value_of_the_narrower_one(wider: str, than: str) -> None:
    assert column_types.is_wider(wider, than)
    assert not column_types.is_wider(than, wider)
    assert column_types.widenings(than)


@pytest.mark.parametrize(
    ("other", "than"),
    [
        ("int", "int"),
        ("decimal(4,2)", "decimal(4,2)"),
        ("decimal(6,3)", "decimal(4,2)"),
        ("double", "int"),
        ("decimal(10,0)", "int"),
        ("string", "int"),
        ("timestamp_ntz", "date"),
        ("timestamp", "timestamp_ntz"),
        ("array<bigint>", "array<int>"),
    ],
)
def test_no_other_type_is_wider(other: str, than: str) -> None:
    assert not column_types.is_wider(other, than)


@given(data_types)
def test_a_type_that_is_spelled_parses_as_itself(data_type: DataType) -> None:
    assert column_types.parse(column_types.spell(data_type)) == data_type


def test_types_parse_without_regard_to_case_and_space() -> None:
    data_type = column_types.parse("Map< STRING ,struct<`a ``b` :Decimal(5,2)>>")

    assert column_types.spell(data_type) == "map<string,struct<`a ``b`:decimal(5,2)>>"
