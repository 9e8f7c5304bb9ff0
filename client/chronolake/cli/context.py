"""The options of the command line, for its commands; also the interface for plug-ins.

A plug-in is a plain function with typer's annotations, named by an entry point of the group
``chronolake.commands``. It gets ``--url`` and ``--json`` added to its own options (and so must not define
them), and gets them from here::

    from chronolake.cli import context, output

    def ingest(path: Annotated[Path, typer.Argument()]) -> None:
        with context.client(retry_seconds=60) as client:
            ...
        output.show(result, lambda console: console.print("done"))

``output.show`` writes the result as a JSON document when ``wants_json()``; progress goes to stderr. A failure
that is no ``ChronolakeError`` is reported by ``fail``. A plug-in imports large packages when it runs, not when
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

import chronolake

RETRY_SECONDS = 5.0
"""Short, because a person waits at the terminal."""


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
) -> chronolake.Client:
    """A client of the server that the command line names; a bad ``--url`` is a usage error.

    It retries for ``RETRY_SECONDS`` unless given.
    """
    seconds = RETRY_SECONDS if retry_seconds is None else retry_seconds
    try:
        return chronolake.connect(_options.get().url, retry_seconds=seconds, storage_options=storage_options)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--url") from exc


def wants_json() -> bool:
    """Whether stdout must be one JSON document."""
    return _options.get().json


def fail(message: str, *, exit_code: int = 1) -> NoReturn:
    """End the command: ``message`` on stderr (a document with ``--json``), ``exit_code`` to the shell."""
    text = (
        json.dumps({"title": "The command failed", "detail": message}) if wants_json() else f"Error: {message}"
    )
    print(text, file=sys.stderr)
    raise typer.Exit(exit_code)


def note(*, url: str | None, wants_json: bool) -> None:
    """Set the options that one part of the command line gives; the others stay."""
    before = _options.get()
    _options.set(CommonOptions(url or before.url, wants_json or before.json))


@contextlib.contextmanager
def of_one_run() -> Iterator[None]:
    """Reset the options before and after one run: several runs may share a process."""
    token = _options.set(CommonOptions())
    try:
        yield
    finally:
        _options.reset(token)
