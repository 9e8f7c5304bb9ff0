"""``chronolake schema``."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output, tables
from chronolake_model.schemas import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    TableSchema,
    WidenColumn,
)

_Texts = list[str] | None


def app() -> typer.Typer:
    """The commands of ``chronolake schema``."""
    return options.group(
        "schema",
        "List, show and change the schema of a table.",
        ("list", list_schemas),
        ("show", show_schema),
        ("change", change_schema),
    )


def list_schemas(table: options.TableArgument) -> None:
    """List all versions of a table's schema, oldest first."""
    with context.client() as client:
        schemas = list(client.table(table).schemas())
    columns = ("schema#", "made (UTC)", "log version#", "columns#", "names~")
    rows = (
        (
            schema.schema_version,
            f"{schema.created_at:%Y-%m-%d %H:%M:%S}",
            schema.version,
            len(schema.fields),
            [field.name for field in schema.fields],
        )
        for schema in schemas
    )
    output.show(
        {"schemas": schemas}, lambda console: output.print_table(console, output.table_of(columns, rows))
    )


def show_schema(
    table: options.TableArgument,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="NUMBER", min=1, help="The version to show. The default is the present one."
        ),
    ] = None,
) -> None:
    """Show one version of a table's schema: its columns and their field ids."""
    with context.client() as client:
        lake_table = client.table(table)
        schema = lake_table.schema(version or lake_table.definition.schema_version)
    output.show(schema, lambda console: _print_schema(console, schema))


def change_schema(  # one option per kind of change
    table: options.TableArgument,
    rename: Annotated[
        _Texts, typer.Option("--rename", metavar="NAME=NEW", help="Rename a column; may be repeated.")
    ] = None,
    widen: Annotated[
        _Texts,
        typer.Option("--widen", metavar="NAME:TYPE", help="Give a column a wider type; may be repeated."),
    ] = None,
    make_nullable: Annotated[
        _Texts, typer.Option("--make-nullable", metavar="NAME", help="Let a column be null; may be repeated.")
    ] = None,
    drop: Annotated[
        _Texts, typer.Option("--drop", metavar="NAME", help="Drop a column; may be repeated.")
    ] = None,
    add: Annotated[
        _Texts, typer.Option("--add", metavar="NAME:TYPE", help="Add a nullable column; may be repeated.")
    ] = None,
    expect: Annotated[
        int | None,
        typer.Option(
            "--expect", metavar="NUMBER", min=1, help="Change it only if this is still the present version."
        ),
    ] = None,
) -> None:
    """Change the columns of a table: all changes of the command, or none. Files are not rewritten.

    Columns are renamed first, then widened, made nullable, dropped, and added.
    """
    changes: list[SchemaChange] = [
        *(RenameColumn(*_pair(text, "=", "--rename")) for text in rename or []),
        *(WidenColumn(*_pair(text, ":", "--widen")) for text in widen or []),
        *map(SetNullable, make_nullable or []),
        *map(DropColumn, drop or []),
        *(AddColumn(*_pair(text, ":", "--add")) for text in add or []),
    ]
    if not changes:
        raise typer.BadParameter("give a change: --rename, --widen, --make-nullable, --drop or --add")
    with context.client() as client:
        made = client.table(table).change_schema(changes, expected_schema_version=expect)
    output.show(made, lambda console: _print_schema(console, made))


def _pair(text: str, separator: str, option: str) -> tuple[str, str]:
    # A separator within backquotes belongs to a name.
    match = re.match(rf"((?:[^`{separator}]|`[^`]*`)*){separator}(.*)", text, re.DOTALL)
    name, other = match.groups() if match else ("", "")
    if not name or not other:
        raise typer.BadParameter(
            f"it must be two words with {separator!r} between them, not {text!r}", param_hint=option
        )
    return name, other


def _print_schema(console: Console, schema: TableSchema) -> None:
    pairs = (
        ("table", schema.table),
        ("schema version", schema.schema_version),
        ("made", f"{schema.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("log version", schema.version),
    )
    output.print_table(console, output.pairs_of(pairs))
    tables.print_columns(console, schema.fields)
