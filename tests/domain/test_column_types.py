from __future__ import annotations

import pytest

from chronolake_metastore.domain import column_types


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
