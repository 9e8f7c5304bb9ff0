from __future__ import annotations

import fastavro
import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_hudi import avro_schema, metadata
from chronolake_hudi.errors import UnsupportedFormat
from chronolake_hudi.metadata import CommitMetadata
from chronolake_model import column_types, meta_columns
from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from chronolake_model.tables import Field
from tests.hudi import stored_tables

# Avro has no tinyint and no smallint, and keys of maps are strings.
primitives = st.sampled_from(sorted(column_types.PRIMITIVES - {"tinyint", "smallint"})).map(PrimitiveType)
decimals = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,3}", fullmatch=True)


def nested(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(
        st.builds(StructField, names, children), min_size=1, max_size=3, unique_by=lambda f: f.name
    )
    maps = st.builds(MapType, st.just(PrimitiveType("string")), children)
    return st.builds(ArrayType, children) | maps | st.builds(StructType, fields.map(tuple))


data_types = st.recursive(primitives | decimals, nested, max_leaves=8)
tables = st.lists(
    st.builds(Field, names, data_types.map(column_types.spell), st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda field: field.name,
)


@given(tables, st.booleans())
def test_a_schema_comes_back_from_avro(fields: list[Field], meta: bool) -> None:
    schema = avro_schema.of_table("t", fields, meta=meta)

    assert avro_schema.problems(fields) == []
    assert avro_schema.decode(avro_schema.encode(schema), "p") == fields
    fastavro.parse_schema(schema)


def test_meta_columns_come_first() -> None:
    schema = avro_schema.of_table("t", [Field("id", "int")], meta=True)

    assert [field["name"] for field in schema["fields"]] == [*meta_columns.META, "id"]


def test_names_of_tables_are_made_legal_as_hudi_does() -> None:
    schema = avro_schema.of_table("9-a.b", [Field("id", "int")], meta=False)

    assert (schema["name"], schema["namespace"]) == ("____a__b_record", "hoodie.____a__b")


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (Field("a b", "int"), "'a b' is no name in Avro"),
        (Field("1a", "int"), "'1a' is no name in Avro"),
        (Field("é", "int"), "'é' is no name in Avro"),
        (Field("s", "struct<ok:int,`a-b`:int>"), "'s.a-b' is no name in Avro"),
        (Field("s", "array<struct<`a b`:int>>"), "'s.a b' is no name in Avro"),
        (Field("m", "map<int,string>"), "'m' is a map with keys of type int, not string"),
        (Field("m", "map<string,map<date,int>>"), "'m' is a map with keys of type date, not string"),
        (Field("s", "struct<a:int,a:string>"), "'s.a' is the name of 2 columns"),
    ],
)
def test_a_type_that_avro_cannot_state_is_named(field: Field, problem: str) -> None:
    [problem_text] = avro_schema.problems([Field("id", "int"), field])

    assert problem_text.startswith(problem)


@pytest.mark.parametrize("table", ["cow8", "cow6"])
def test_hudis_schema_is_read_and_written_again(table: str) -> None:
    content = stored_tables.content(table, "*.commit")
    commit = metadata.decode(content, CommitMetadata, "p", stored_tables.layout_of(table))
    text = commit.extra_metadata[metadata.SCHEMA_KEY]

    fields = avro_schema.decode(text, "p")
    primitive_fields = [field for field in fields if "<" not in field.type]
    written = avro_schema.of_table(table, primitive_fields, meta=False)

    assert {field.name: field.type for field in fields} == {
        "id": "int",
        "ts": "bigint",
        "day": "string",
        "ti": "int",
        "si": "int",
        "f": "float",
        "d": "double",
        "de": "decimal(10,2)",
        "b": "boolean",
        "bi": "binary",
        "da": "date",
        "tt": "timestamp",
        "tn": "timestamp_ntz",
        "ar": "array<int>",
        "ma": "map<string,int>",
        "st": "struct<p:int,q:struct<r:string>>",
    }
    stated = msgspec.json.decode(text)
    assert written["fields"] == stated["fields"][: len(primitive_fields)]
    assert (written["name"], written["namespace"]) == (stated["name"], stated["namespace"])


def record(*fields: object) -> str:
    return msgspec.json.encode({"type": "record", "name": "r", "fields": fields}).decode()


@pytest.mark.parametrize(
    ("avro_type", "column_type"),
    [
        (["string", "null"], "string"),
        ({"type": "string"}, "string"),
        ({"type": ["null", "int"]}, "int"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, "string"),
        ({"type": "fixed", "name": "f", "size": 4}, "binary"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "decimal(5,0)"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        (["null", "int", "long"], "bigint"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
    ],
)
def test_other_spellings_of_avro_are_read(avro_type: object, column_type: str) -> None:
    [field] = avro_schema.decode(record({"name": "a", "type": avro_type}), "p")

    assert field.type == column_type


def test_a_type_is_read_where_it_is_named_again() -> None:
    inner = {"type": "record", "name": "in", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    text = record({"name": "a", "type": inner}, {"name": "b", "type": "n.in"})

    assert [field.type for field in avro_schema.decode(text, "p")] == ["struct<x:int>"] * 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be read"),
        ('"int"', "it is no record"),
        ('{"type":"record","name":"r","fields":[]}', "struct without fields"),
        (record({"name": "a"}), "a field without name or type"),
        (record({"name": "a", "type": 5}), "the column 'a' has no type of Avro, but 5"),
        (record({"name": "a", "type": ["int", "string"]}), "the column 'a' is a union of several types"),
        (
            record(
                {"name": "a", "type": {"type": "record", "name": "r", "fields": [{"name": "b", "type": "r"}]}}
            ),
            "itself",
        ),
        (
            record({"name": "a", "type": {"type": "int", "logicalType": "time-millis"}}),
            "logical type time-millis",
        ),
        (
            record({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40}}),
            r"decimal\(40,0\) needs",
        ),
        (record({"name": "a", "type": "null"}), "has the type null, which is unknown"),
    ],
)
def test_types_that_chronolake_has_not_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedFormat, match=problem):
        avro_schema.decode(text, "p")
