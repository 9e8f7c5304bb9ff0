"""Namespaces: created, and dropped when they are empty."""

from __future__ import annotations

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import NamespaceCreated, NamespaceDropped
from chronolake_model.times import Micros


class Namespace(msgspec.Struct, frozen=True):
    """A namespace."""

    name: str
    properties: dict[str, str]
    created_at: Micros


class CreateNamespace(Command, frozen=True):
    name: str
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class DropNamespace(Command, frozen=True):
    name: str


def create(existing: Namespace | None, command: CreateNamespace) -> NamespaceCreated:
    """Create a namespace; raises ``NamespaceExists``."""
    if existing is not None:
        raise errors.NamespaceExists(
            f"the namespace {existing.name!r} exists already; use it, or choose another name",
            namespace=existing.name,
        )
    return NamespaceCreated(name=command.name, properties=command.properties)


def drop(existing: Namespace | None, tables: int, command: DropNamespace) -> NamespaceDropped:
    """Drop a namespace that has no tables; raises ``NamespaceNotFound`` or ``NamespaceNotEmpty``."""
    if existing is None:
        raise errors.NamespaceNotFound(command.name)
    if tables:
        raise errors.NamespaceNotEmpty(
            f"the namespace {command.name!r} still has {tables} table(s); drop them first",
            namespace=command.name,
            tables=tables,
        )
    return NamespaceDropped(name=command.name)


def evolve_created(event: NamespaceCreated, time: Micros) -> Namespace:
    """The namespace that ``event`` created."""
    return Namespace(event.name, event.properties, time)
