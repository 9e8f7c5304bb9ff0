"""Every kind of command has a handler."""

from __future__ import annotations

from collections.abc import Iterator

from chronolake_metastore.commands.registry import HANDLERS
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.streams import StreamCommand


def kinds(parent: type[Command]) -> Iterator[type[Command]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_kind_of_command_has_a_handler() -> None:
    assert set(HANDLERS) == set(kinds(Command)) - {InstantCommand, StreamCommand}
