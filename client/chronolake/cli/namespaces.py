"""``chronolake namespaces``."""

from __future__ import annotations

from typing import Annotated

import typer

from chronolake.cli import context, options, output
from chronolake_model.tables import Namespace

_Name = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="The namespace.", callback=options.namespace_name, show_default=False
    ),
]


def app() -> typer.Typer:
    """The commands of ``chronolake namespaces``."""
    return options.group(
        "namespaces",
        "List, create and drop namespaces.",
        ("list", list_namespaces),
        ("create", create_namespace),
        ("drop", drop_namespace),
    )


def list_namespaces() -> None:
    """List all namespaces."""
    with context.client() as client:
        namespaces = list(client.namespaces())
    output.show(
        {"namespaces": namespaces},
        lambda console: output.print_table(
            console,
            output.table_of(
                ("name", "properties~", "created"),
                (
                    (namespace.name, namespace.properties, f"{namespace.created_at:%Y-%m-%d %H:%M:%S}")
                    for namespace in namespaces
                ),
            ),
        ),
    )


def create_namespace(
    name: _Name,
    property_: options.PropertyOption = None,
    if_not_exists: options.IfNotExistsOption = False,
) -> None:
    """Create a namespace."""
    with context.client() as client:
        made: Namespace = client.create_namespace(
            name, options.properties(property_ or []), if_not_exists=if_not_exists
        )
    output.show(made, lambda console: console.print(f"namespace {made.name}"))


def drop_namespace(name: _Name, yes: options.YesOption = False) -> None:
    """Drop a namespace that has no tables."""
    options.confirm(f"Drop namespace {name}?", yes)
    with context.client() as client:
        client.drop_namespace(name)
    output.show({"dropped": name}, lambda console: console.print(f"dropped namespace {name}"))
