"""Every kind of command has a handler, and commands, notes and reads have rights."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from chronolake_metastore import app as composition, notes, queries
from chronolake_metastore.commands.registry import HANDLERS
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.streams import StreamCommand
from chronolake_metastore.queries import instants, tables
from chronolake_metastore.service import registry


def kinds(parent: type[Command]) -> Iterator[type[Command]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_kind_of_command_has_a_handler() -> None:
    assert set(HANDLERS) == set(kinds(Command)) - {InstantCommand, StreamCommand}


def test_every_kind_of_command_has_a_right() -> None:
    assert set(registry.COMMANDS) == set(HANDLERS)


def test_every_note_has_a_right() -> None:
    assert set(registry.NOTES) == set(public_coroutines(notes))


def test_every_query_that_takes_a_context_has_a_right() -> None:
    asked = {query for query in public_coroutines(queries) if takes_context(query)}
    assert set(registry.READS) == asked - {tables.expected, tables.find, instants.find}


def test_no_handler_passes_the_service_by() -> None:
    handlers = [handler for handler in composition.V1 if "database" in handler.parsed_fn_signature.parameters]
    assert handlers == []


def takes_context(query: Callable[..., Any]) -> bool:
    return "ctx" in inspect.signature(query).parameters


def public_coroutines(package: ModuleType) -> Iterator[Callable[..., Any]]:
    """The async functions that the modules of a package define for others."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if (
                inspect.iscoroutinefunction(value)
                and value.__module__ == module.__name__
                and not name.startswith("_")
            ):
                yield value
