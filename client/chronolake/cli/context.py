"""What a command knows of the command line it was called from; also the interface for plug-ins.

A plug-in is a plain function with typer's annotations, named by an entry point of the group
``chronolake.commands``. It gets ``--url`` and ``--json`` added to its own options (and so must not define
them), and asks here what they said::

    from chronolake.cli import context, output

    def ingest(path: Annotated[Path, typer.Argument()]) -> None:
        with context.client(retry_seconds=60) as client:
            ...
        output.show(result, lambda console: console.print("done"))

``output.show`` writes the result as a JSON document when ``wants_json()``; progress goes to stderr. A failure
that is no ``ChronolakeError`` is reported by ``fail``. A plug-in imports what is heavy when it runs, not when
it is imported.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

import msgspec
import typer

from chronolake import _client

RETRY_SECONDS = 5.0
"""Somebody sits before the terminal: a server that is not there is soon reported."""


class CommonOptions(msgspec.Struct, frozen=True):
    """The options that every command has."""

    url: str | None = None
    json: bool = False


_options: contextvars.ContextVar[CommonOptions] = contextvars.ContextVar(
    "chronolake_options",
    default=CommonOptions(),  # noqa: B039  # frozen
)


def client(
    *, retry_seconds: float | None = None, storage_options: Mapping[str, str] | None = None
) -> _client.Client:
    """A client of the server that the command line names; a bad ``--url`` is a usage error.

    It retries for ``RETRY_SECONDS`` unless told otherwise.
    """
    patience = RETRY_SECONDS if retry_seconds is None else retry_seconds
    try:
        return _client.connect(_options.get().url, retry_seconds=patience, storage_options=storage_options)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--url") from exc


def wants_json() -> bool:
    """Whether stdout is to be one JSON document."""
    return _options.get().json


def fail(message: str, *, exit_code: int = 1) -> NoReturn:
    """End the command: ``message`` on stderr (a document with ``--json``), ``exit_code`` to the shell."""
    text = (
        json.dumps({"title": "The command failed", "detail": message}) if wants_json() else f"Error: {message}"
    )
    print(text, file=sys.stderr)
    raise typer.Exit(exit_code)


def note(*, url: str | None, wants_json: bool) -> None:
    """Take over what one place of the command line says; what it leaves out stays as it was."""
    before = _options.get()
    _options.set(CommonOptions(url or before.url, wants_json or before.json))


@contextlib.contextmanager
def of_one_run() -> Iterator[None]:
    """Start from no options, and forget them at the end: several runs may share a process."""
    token = _options.set(CommonOptions())
    try:
        yield
    finally:
        _options.reset(token)
