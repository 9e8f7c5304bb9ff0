"""The command lines that documentation and container files show, against those that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from chronolake.cli import main as client_cli
from chronolake_metastore.cli import main as server_cli

_PROGRAM = re.compile(r"(?:\S*/)?(chronolake(?:-metastore)?)(?= )")


class Command(NamedTuple):
    """A command as it exists: its options, and the environment variables that set them."""

    options: frozenset[str]
    variables: frozenset[str]


def server_commands() -> dict[str, Command]:
    """The commands of chronolake-metastore, by name."""
    return dict(_leaves(typer.main.get_command(server_cli.app)))


def client_commands() -> dict[str, Command]:
    """The commands of chronolake, by name."""
    return dict(_leaves(typer.main.get_command(client_cli.app_for(["--help"]))))


def shown(script: str) -> Iterator[tuple[str, list[str]]]:
    """Program and arguments of each line of ``script`` that calls one of ours."""
    for line in script.replace("\\\n", " ").splitlines():
        if match := _PROGRAM.match(line):
            yield match[1], shlex.split(line[match.end() :], comments=True)


def unknown_words(program: str, arguments: list[str]) -> list[str]:
    """The parts of a command line that do not exist: the command, or some of its options."""
    commands = server_commands() if program == "chronolake-metastore" else client_commands()
    for length in (2, 1):
        command = commands.get(" ".join(arguments[:length]))
        if command is not None:
            given = [word for word in arguments if word.startswith("-")]
            return [word for word in given if word not in command.options]
    return arguments[:2]


def _leaves(group: Any) -> Iterator[tuple[str, Command]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", leaf) for inner, leaf in _leaves(command))
        else:
            yield name, _command(command.params)


def _command(parameters: list[Any]) -> Command:
    options = [name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)]
    return Command(
        frozenset(["--help", *options]),
        frozenset(parameter.envvar for parameter in parameters if parameter.envvar is not None),
    )
