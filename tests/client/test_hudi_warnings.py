"""Before a table is created or its schema changed, a warning says if Hudi's readers will not see it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pytest

import chronolake
from chronolake import errors
from chronolake_model.schemas import AddColumn, DropColumn, RenameColumn, SchemaChange, SetNullable, WidenColumn
from chronolake_model.tables import CreateTable, NewField
from chronolake_model.vocabulary import TableType
from tests.client.conftest import Cli

FIELDS = [
    chronolake.Field("id", "bigint", nullable=False),
    chronolake.Field("name", "string"),
    chronolake.Field("at", "timestamp", nullable=False),
    chronolake.Field("place", "struct<city:string>"),
    chronolake.Field("n", "int"),
]
WRONG_VERSION = 99


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "chronolake.hudi")
    return caplog


def make(client: chronolake.Client, name: str, **properties: str) -> chronolake.Table:
    return client.create_table(
        name,
        base_path=f"s3://lake/{name}",
        schema=FIELDS,
        record_key_fields=["id"],
        ordering_field="at",
        type=TableType.MERGE_ON_READ,
        properties=properties,
    )


def refused(table: chronolake.Table, *changes: SchemaChange) -> None:
    """Change the schema by a command that the server refuses: warnings are then from before the change."""
    with pytest.raises((errors.SchemaChanged, errors.IncompatibleSchema)):
        table.change_schema(changes, expected_schema_version=WRONG_VERSION)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([RenameColumn("name", "label")], "'name' is renamed"),
        ([RenameColumn("place.city", "town")], "'place.city' is renamed"),
        ([RenameColumn("name", "the name")], "Avro"),
        ([AddColumn("größe", "int")], "Avro"),
        ([AddColumn("place.post code", "string")], "Avro"),
        ([AddColumn("other", "struct<`a b`:int>")], "Avro"),
        ([SetNullable("at")], "'at' is nullable"),
        ([DropColumn("n"), AddColumn("N", "string")], "there was a column 'N' before"),
        ([DropColumn("place.city"), AddColumn("place.city", "int")], "there was a column 'place.city' before"),
    ],
)
def test_a_change_that_hides_a_table_from_hudi_is_warned_of_before_it(
    client: chronolake.Client,
    namespace: str,
    log: pytest.LogCaptureFixture,
    changes: Sequence[SchemaChange],
    reason: str,
):
    table = make(client, f"{namespace}.orders")
    refused(table, *changes)

    [message] = log.messages
    assert message.startswith(f"Hudi's readers will not see {table.name}: ")
    assert reason in message


def test_a_new_column_with_the_name_of_one_that_was_dropped_before_is_warned_of(
    client: chronolake.Client, namespace: str, log: pytest.LogCaptureFixture
):
    table = make(client, f"{namespace}.orders")
    table.change_schema([DropColumn("n")])
    assert log.messages == []

    refused(table, AddColumn("n", "string"))
    assert "there was a column 'n' before" in log.text


@pytest.mark.parametrize("properties", [{}, {"hudi.publish": "false"}])
def test_other_changes_are_not_warned_of(
    client: chronolake.Client, namespace: str, log: pytest.LogCaptureFixture, properties: dict[str, str]
):
    table = make(client, f"{namespace}.orders", **properties)
    hiding: list[SchemaChange] = [RenameColumn("name", "the name"), SetNullable("at")] if properties else []
    table.change_schema([AddColumn("new", "int"), WidenColumn("n", "bigint"), DropColumn("place"), *hiding])
    assert log.messages == []


def test_wrong_changes_are_refused_by_the_server(client: chronolake.Client, namespace: str):
    table = make(client, f"{namespace}.orders")
    for change in (AddColumn("a..b", "int"), AddColumn("a", "no type"), RenameColumn("unknown", "a")):
        refused(table, change)


def test_a_table_that_hudi_cannot_read_is_warned_of_before_it_is_created(
    client: chronolake.Client, namespace: str, log: pytest.LogCaptureFixture
):
    definition = CreateTable(
        f"{namespace}.orders", f"s3://lake/{namespace}", [NewField("id", "int"), NewField("a b", "int")], ["id"]
    )
    client.check_new_table(definition)
    assert "Avro" in log.text

    log.clear()
    with pytest.raises(errors.InvalidTable):
        client.create_table(**msgspec.structs.asdict(msgspec.structs.replace(definition, base_path="no:path")))
    assert "Avro" in log.text


def test_the_command_line_says_it_before_the_command_and_once(
    cli: Cli, client: chronolake.Client, namespace: str
):
    name = f"{namespace}.spaced"
    create = [
        "tables",
        "create",
        name,
        "--base-path",
        f"s3://lake/{name}",
        "--key",
        "id",
        "--field",
        "id:bigint",
    ]
    created = cli(*create, "--field", "a b:int")
    assert created.err.count("Note: Hudi's readers will not see") == 1
    assert created.err.startswith(f"Note: Hudi's readers will not see {name}: Avro")

    renamed = make(client, f"{namespace}.orders")
    expecting = ["--expect", str(WRONG_VERSION)]
    changed = cli("schema", "change", renamed.name, "--rename", "name=label", *expecting)
    note, refusal = changed.err.split("\n", 1)
    assert "until the files with the former name are rewritten" in note
    assert "99" in refusal
