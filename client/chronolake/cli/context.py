"""The common options of the command line, and the interface for plug-ins.

A plug-in is a function with typer's annotations, registered as an entry point of the group
``chronolake.commands``. The common options (``--url``, ``--profile``, ``--json``, …) are added
to its own, so it must not define them. It reads them through this module::

    from chronolake.cli import context, output

    def ingest(path: Annotated[Path, typer.Argument()]) -> None:
        with context.client(retry_seconds=60) as client:
            ...
        output.show(result, lambda console: console.print("done"))

``output.show`` writes the result as a JSON document if ``wants_json()``; progress goes to stderr. ``fail``
reports a failure that is not a ``ChronolakeError``. A plug-in imports large packages when it runs, not when
it is imported.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
import typer
from typing_extensions import override

import chronolake
from chronolake._credentials import CREDENTIALS_LOGGER
from chronolake._definitions import HUDI_LOGGER
from chronolake._http import RETRY_LOGGER
from chronolake_model.visible_text import visible

RETRY_SECONDS = 5.0
"""The default is short, because a user waits at the terminal."""


class CommonOptions(msgspec.Struct, frozen=True):
    """The options that every command has."""

    url: str | None = None
    profile: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    json: bool = False


_options: contextvars.ContextVar[CommonOptions] = contextvars.ContextVar(
    "chronolake_options",
    default=CommonOptions(),  # noqa: B039  # frozen
)


def client(
    *, retry_seconds: float | None = None, storage_options: Mapping[str, str] | None = None
) -> chronolake.Client:
    """A client of the server in ``--url``; an invalid URL, token or CA is a usage error.

    By default it retries for ``RETRY_SECONDS``.
    """
    common = _options.get()
    try:
        return chronolake.connect(
            common.url,
            retry_seconds=RETRY_SECONDS if retry_seconds is None else retry_seconds,
            storage_options=storage_options,
            token_file=common.token_file,
            ca_file=common.ca_file,
            profile=common.profile,
        )
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--url, --profile, --token-file, --ca-file") from exc


def wants_json() -> bool:
    """Whether stdout must be one JSON document."""
    return _options.get().json


def progress(message: str) -> None:
    """Print what the command is doing to stderr, because stdout has only the result."""
    print(visible(message), file=sys.stderr, flush=True)


def fail(message: str, *, exit_code: int = 1) -> NoReturn:
    """End the command with ``exit_code``, and print ``message`` to stderr (as JSON with ``--json``)."""
    text = (
        json.dumps({"title": "The command failed", "detail": message}) if wants_json() else f"Error: {message}"
    )
    print(visible(text), file=sys.stderr)
    raise typer.Exit(exit_code)


def fail_without(extras: str, exc: ImportError) -> NoReturn:
    """End the command because a package of these extras is not installed."""
    fail(f"{exc}: the command needs the extras of pip install 'chronolake[{extras}]'")


def note(
    *,
    url: str | None = None,
    profile: str | None = None,
    token_file: Path | None = None,
    ca_file: Path | None = None,
    wants_json: bool = False,
) -> None:
    """Set the options that are given; the others keep their values."""
    before = _options.get()
    _options.set(
        CommonOptions(
            url or before.url,
            profile or before.profile,
            token_file or before.token_file,
            ca_file or before.ca_file,
            wants_json or before.json,
        )
    )


class _Notes(logging.Handler):
    """Prints what the client logs of files with secrets, of Hudi's readers and of retries."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        progress(f"Note: {record.getMessage()}")


@contextlib.contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print, during a run, warnings of files with secrets, long retries, and tables that Hudi will not see."""
    handler = _Notes()
    with contextlib.ExitStack() as stack:
        for logger in map(logging.getLogger, (CREDENTIALS_LOGGER, HUDI_LOGGER, RETRY_LOGGER)):
            stack.callback(setattr, logger, "propagate", logger.propagate)
            stack.callback(logger.setLevel, logger.level)
            stack.callback(logger.removeHandler, handler)
            logger.propagate = False
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
        yield


@contextlib.contextmanager
def of_one_run() -> Iterator[None]:
    """Reset the options before and after one run, because several runs may share a process."""
    token = _options.set(CommonOptions())
    try:
        yield
    finally:
        _options.reset(token)
