"""``chronolake tables``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.console import Console

from chronolake import Table as LakeTable
from chronolake.cli import context, options, output
from chronolake_model import nested_fields
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.tables import BucketIndex, Field, NestedField, SchemaField, Table, index_of
from chronolake_model.times import Tick
from chronolake_model.vocabulary import IndexType, TableType

_REQUIRED = ":required"


def app() -> typer.Typer:
    """The commands of ``chronolake tables``."""
    return options.group(
        "tables",
        "List, show, create, change and drop tables.",
        ("list", list_tables),
        ("show", show_table),
        ("create", create_table),
        ("set", set_properties),
        ("unset", unset_properties),
        ("rename", rename_table),
        ("drop", drop_table),
    )


def list_tables(
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="List tables of this namespace only.")
    ] = None,
) -> None:
    """List all tables."""
    with context.client() as client:
        definitions = [table.definition for table in client.tables(namespace)]
    columns = ("name", "type", "key~", "partition~", "index", "base path~", "created")
    rows = (
        (
            definition.name,
            definition.type,
            definition.record_key_fields,
            definition.partition_fields,
            _index(definition),
            definition.base_path,
            f"{definition.created_at:%Y-%m-%d %H:%M:%S}",
        )
        for definition in definitions
    )
    left_out_first = ("created", "index")

    def render(console: Console) -> None:
        output.print_table(console, output.fitting_table(console, columns, rows, left_out_first))

    output.show({"tables": definitions}, render)


def show_table(table: options.TableArgument) -> None:
    """Show a table's definition."""
    with context.client() as client:
        definition = client.table(table).definition
    output.show(definition, lambda console: _print_definition(console, definition))


def create_table(  # noqa: PLR0913, PLR0917  # one option per part of a table's definition
    table: options.TableArgument,
    base_path: Annotated[
        str, typer.Option("--base-path", metavar="URI", help="The table's folder in object storage.")
    ],
    field: Annotated[
        list[str],
        typer.Option(
            "--field",
            metavar="NAME:TYPE[:required]",
            help="A column, with a type as in Spark SQL. Repeat it for each column, in order.",
        ),
    ],
    key: Annotated[list[str], typer.Option("--key", help="A record key column; may be repeated.")],
    partition: Annotated[
        list[str] | None, typer.Option("--partition", help="A partition column; may be repeated.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            "--ordering",
            help="The ordering field: of two records with one key, the one with the greater value wins.",
        ),
    ] = None,
    index: Annotated[
        IndexType, typer.Option("--index", help="How a record key finds its file group.")
    ] = IndexType.BUCKET,
    buckets: Annotated[
        int | None,
        typer.Option(
            "--buckets",
            min=1,
            max=100_000,
            show_default=str(BucketIndex().buckets),
            help="Buckets per partition, of the bucket index only.",
        ),
    ] = None,
    type_: Annotated[
        TableType, typer.Option("--type", help="How the table stores updates.")
    ] = TableType.COPY_ON_WRITE,
    tick: Annotated[Tick, typer.Option("--tick", help="The step of the table's clock.")] = Tick.MILLISECOND,
    property_: options.PropertyOption = None,
    if_not_exists: options.IfNotExistsOption = False,
    reuse_base_path: options.ReuseBasePathOption = False,
) -> None:
    """Create a table."""
    schema = [field_of(text) for text in field]
    try:
        found_by = index_of(index, buckets)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--buckets") from exc
    with context.client() as client:
        created = client.create_table(
            table,
            base_path=base_path,
            schema=schema,
            record_key_fields=key,
            type=type_,
            partition_fields=partition or (),
            ordering_field=ordering,
            index=found_by,
            tick=tick,
            properties=options.properties(property_ or []),
            if_not_exists=if_not_exists,
            reuse_base_path=reuse_base_path,
        )
    made = created.definition
    output.show(made, lambda console: _print_definition(console, made))


def set_properties(
    table: options.TableArgument,
    properties: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="The properties.", show_default=False)
    ],
) -> None:
    """Set properties of a table; its other properties do not change."""
    named = options.properties(properties, "NAME=VALUE")
    with context.client() as client:
        _show_altered(client.table(table).alter(set=named))


def unset_properties(
    table: options.TableArgument,
    properties: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="The properties.", show_default=False)
    ],
) -> None:
    """Remove properties of a table. Those that it does not have are ignored, unless misspelled."""
    with context.client() as client:
        _show_altered(client.table(table).alter(unset=properties))


def rename_table(
    table: options.TableArgument,
    new_name: Annotated[
        str,
        typer.Argument(
            metavar="NEW_NAMESPACE.NEW_TABLE",
            help="The new name.",
            callback=options.table_name,
            show_default=False,
        ),
    ],
) -> None:
    """Rename a table, also into another namespace. Its files, its timeline and its id do not change."""
    with context.client() as client:
        _show_altered(client.table(table).alter(name=new_name))


def drop_table(table: options.TableArgument, yes: options.YesOption = False) -> None:
    """Drop a table's metadata. Its data files are not deleted."""
    options.confirm(f"Drop table {table}?", yes)
    with context.client() as client:
        client.drop_table(table)
    output.show({"dropped": table}, lambda console: console.print(f"dropped table {table}; its files remain"))


def field_of(text: str) -> Field:
    """The column of a text ``name:type`` or ``name:type:required``; a type may contain colons."""
    described = text.removesuffix(_REQUIRED)
    name, _, type_ = described.partition(":")
    if not name or not type_:
        raise typer.BadParameter(
            f"a field must be name:type or name:type:required, not {text!r}", param_hint="--field"
        )
    return Field(name, type_, nullable=described == text)


def _show_altered(table: LakeTable) -> None:
    definition = table.definition
    output.show(definition, lambda console: _print_definition(console, definition))


def _print_definition(console: Console, table: Table) -> None:
    pairs = (
        ("table", table.name),
        ("id", table.table_id),
        ("type", table.type),
        ("base path", table.base_path),
        ("record key", table.record_key_fields),
        ("partition", table.partition_fields),
        ("ordering", list(table.ordering_fields) or None),
        ("index", _index(table)),
        ("tick", table.tick),
        ("properties", _properties(table)),
        ("created", f"{table.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("schema version", table.schema_version),
    )
    output.print_table(console, output.pairs_of(pairs))
    print_columns(console, table.schema)


def _index(table: Table) -> str:
    index = table.index
    return output.count(index.buckets, "bucket") if index.type is IndexType.BUCKET else str(index.type)


def _properties(table: Table) -> dict[str, str]:
    """The properties, without the text of the former hoodie.properties, which has many lines."""
    former = table.properties.get(ADOPTED_PROPERTY)
    if former is None:
        return table.properties
    lines = output.count(len(former.splitlines()), "line")
    return table.properties | {ADOPTED_PROPERTY: f"({lines} of the former hoodie.properties; --json has them)"}


def print_columns(console: Console, fields: Iterable[SchemaField]) -> None:
    """Print the columns of a schema, one per line, each followed by its nested fields."""
    rows = [row for field in fields for row in _rows_of(field)]
    output.print_table(console, output.table_of(("id#", "column", "type~", "nullable"), rows))


def _rows_of(field: SchemaField) -> Iterator[tuple[object, ...]]:
    path = nested_fields.join([field.name])
    yield field.field_id, path, field.type, field.nullable
    yield from _nested_rows(path, field.nested)


def _nested_rows(path: str, nested: Iterable[NestedField]) -> Iterator[tuple[object, ...]]:
    for field in nested:
        path_of_field = f"{path}.{nested_fields.join([field.name])}"
        yield field.field_id, path_of_field, None, None
        yield from _nested_rows(path_of_field, field.nested)
