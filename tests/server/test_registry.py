"""Every kind of command has a handler and a right, every note a right."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from chronolake_metastore import notes
from chronolake_metastore.commands.registry import HANDLERS
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.streams import StreamCommand
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
