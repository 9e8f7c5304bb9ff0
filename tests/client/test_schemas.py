"""Schemas through the client, sync and async, and at the command line."""

from __future__ import annotations

import pytest

import chronolake
from chronolake import (
    AddColumn,
    DropColumn,
    NestedField,
    RenameColumn,
    SchemaField,
    SetNullable,
    WidenColumn,
    errors,
)
from tests.client.conftest import Cli
from tests.client.test_writes import stat_of

NOTE = AddColumn("note", "int")
ID = SchemaField("id", "bigint", nullable=False, field_id=1)


def test_a_changed_schema_is_that_of_the_table(client: chronolake.Client, table: chronolake.Table) -> None:
    before = table.definition
    made = table.change_schema(
        [RenameColumn("name", "title"), NOTE, WidenColumn("note", "bigint"), SetNullable("id")],
        expected_schema_version=1,
    )

    assert made.fields == [
        SchemaField("id", "bigint", field_id=1),
        SchemaField("title", "string", field_id=2),
        SchemaField("note", "bigint", field_id=3),
    ]
    assert (table.definition.schema, table.definition.schema_version) == (made.fields, 2)
    assert client.table(table.name).definition == table.definition
    assert [(schema.schema_version, schema.fields) for schema in table.schemas()] == [
        (1, before.schema),
        (2, made.fields),
    ]
    assert table.schema(2) == made
    with pytest.raises(errors.SchemaNotFound):
        table.schema(3)


def test_a_nested_field_is_changed_by_its_path_and_shown_with_its_id(cli: Cli, table: chronolake.Table) -> None:
    table.change_schema([AddColumn("home", "struct<city:string>"), RenameColumn("home.city", "`x.y`")])
    made = table.change_schema([AddColumn("home.tags", "array<int>")])

    assert made.fields[-1] == SchemaField(
        "home",
        "struct<```x.y```:string,tags:array<int>>",
        field_id=3,
        nested=[NestedField("`x.y`", 4), NestedField("tags", 5, [NestedField("element", 6)])],
    )
    shown = cli("schema", "show", table.name).out
    assert "home.```x.y```" in shown
    assert "home.tags.element" in shown


def test_a_refused_change_leaves_the_table_and_gives_the_reason(table: chronolake.Table) -> None:
    with pytest.raises(errors.IncompatibleSchema, match="a record key field cannot be dropped"):
        table.change_schema([NOTE, DropColumn("id")])
    with pytest.raises(errors.SchemaChanged) as refused:
        table.change_schema([NOTE], expected_schema_version=7)

    assert refused.value.context["schema_version"] == 1
    assert table.reload().definition.schema_version == 1


def test_a_write_names_the_schema_of_its_files(table: chronolake.Table) -> None:
    write = table.begin()
    other = table.begin()
    table.change_schema([NOTE])

    assert write.complete([stat_of(write)]).schema_version == 1
    assert other.complete([stat_of(other, 1)], schema_version=2).schema_version == 2


def test_instants_that_complete_together_name_their_own_versions(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    old, new = table.begin(), table.begin()
    table.change_schema([NOTE])
    old.add(stat_of(old))
    new.add(stat_of(new, 1))
    new.with_schema(2)

    done = client.complete_together([old, new])

    assert [instant.schema_version for instant in done] == [1, 2]
    assert [
        file_slice.base_file.schema_version for file_slice in table.snapshot().slices if file_slice.base_file
    ] == [1, 2]


def test_the_declared_schema_version_holds_unless_complete_names_another(table: chronolake.Table) -> None:
    first, second = table.begin(), table.begin()
    table.change_schema([NOTE])
    first.with_schema(2)
    second.with_schema(2)

    assert first.complete([stat_of(first)]).schema_version == 2
    assert second.complete([stat_of(second, 1)], schema_version=1).schema_version == 1


def test_a_late_answer_does_not_bring_an_old_schema_back(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    stale = client.table(table.name)
    table.change_schema([NOTE])
    made = stale.change_schema([AddColumn("more", "int")])

    assert (made.schema_version, len(stale.definition.schema)) == (3, 4)


def test_a_schema_is_changed_in_one_go(cli: Cli, table: chronolake.Table) -> None:
    made = cli(
        *("schema", "change", table.name, "--rename", "name=title", "--make-nullable", "id"),
        *("--add", "price:decimal(4,2)", "--expect", "1", "--json"),
    ).json
    wider = cli(
        "schema", "change", table.name, "--widen", "price:decimal(9,2)", "--drop", "title", "--json"
    ).json

    assert [(field["field_id"], field["name"], field["type"]) for field in made["fields"]] == [
        (1, "id", "bigint"),
        (2, "title", "string"),
        (3, "price", "decimal(4,2)"),
    ]
    assert [(field["name"], field["type"]) for field in wider["fields"]] == [
        ("id", "bigint"),
        ("price", "decimal(9,2)"),
    ]


def test_a_name_in_backquotes_may_have_the_separator(cli: Cli, table: chronolake.Table) -> None:
    made = cli("schema", "change", table.name, "--add", "`a:``b=`:struct<c:int>", "--json").json
    renamed = cli("schema", "change", table.name, "--rename", "`a:``b=`=plain", "--json").json

    assert [(field["name"], field["type"]) for field in made["fields"]][2:] == [("a:`b=", "struct<c:int>")]
    assert [field["name"] for field in renamed["fields"]][2:] == ["plain"]


def test_versions_are_listed_and_shown(cli: Cli, table: chronolake.Table) -> None:
    table.change_schema([NOTE])

    listed = cli("schema", "list", table.name, "--json").json["schemas"]
    first = cli("schema", "show", table.name, "--version", "1", "--json").json

    assert [row["schema_version"] for row in listed] == [1, 2]
    assert first == listed[0]
    assert cli("schema", "show", table.name, "--json").json == listed[1]
    assert "note" in cli("schema", "show", table.name).out
    assert "id, name, note" in cli("schema", "list", table.name).out
    assert "note" in cli("tables", "show", table.name).out


def test_a_refusal_is_a_conflict_with_its_reason(cli: Cli, table: chronolake.Table) -> None:
    ran = cli("schema", "change", table.name, "--drop", "id")

    assert ran.code == 5
    assert "incompatible-schema" in ran.err
    assert "a record key field cannot be dropped" in ran.err


@pytest.mark.parametrize(
    "option", [(), ("--rename", "a"), ("--widen", "=b"), ("--add", "a:"), ("--expect", "0")]
)
def test_an_empty_change_is_a_usage_error(cli: Cli, option: tuple[str, ...]) -> None:
    assert cli("schema", "change", "shop.orders", *option).code == 2
