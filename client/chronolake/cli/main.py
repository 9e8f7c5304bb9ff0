"""The entry point of ``chronolake``: registers the commands, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typing_extensions import override

from chronolake import _http, errors
from chronolake.cli import context, options, output, plugins, quick_values
from chronolake_model import environment

_MISSPELLED: Final = 0.6
"""A variable that is as like one of the client's is meant for it. Others may be those of a server."""

_GROUPS: Final = {
    "namespaces": "namespaces",
    "tables": "tables",
    "schema": "schemas",
    "savepoint": "savepoints",
    "services": "services",
    "hudi": "hudi",
    "grants": "access",
    "archive": "hudi",
}
_COMMANDS: Final = {
    "timeline": "timeline",
    "instant": "instants",
    "rollback": "instants",
    "finish-rollbacks": "instants",
    "streams": "streams",
    "markers": "instants",
    "conflicts": "instants",
    "restore": "savepoints",
    "head": "rows",
    "query": "rows",
    "diff": "versions",
    "history": "versions",
    "snapshot": "snapshot",
    "cut": "cuts",
    "changes": "snapshot",
    "files": "files",
    "partitions": "files",
    "file-group": "files",
    "file-name": "statistics",
    "stats": "statistics",
    "clean": "cleans",
    "health": "health",
    "check": "checks",
    "orphans": "orphans",
    "sweep": "sweeps",
    "events": "events",
    "outcome": "outcomes",
    "time": "timeline",
    "quickstart": "quickstart",
    "whoami": "access",
    "can-i": "access",
}
"""The commands and their modules, which are imported when a command line names them: all take a second."""


_VALUED: Final = ("--url", "--profile", "--token-file", "--ca-file")
"""Options with a value that may stand before the command."""


class _Commands(TyperGroup):
    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        quick_values.convert_quickly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override,explicit-override]  # click is untyped
        """Run the command. A wrong value of an option is reported without the word of pydantic for it."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            wrong.message = wrong.message.removeprefix("Value error, ")
            raise


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    for warning in environment.warnings(os.environ, (), _MISSPELLED):
        print(f"chronolake: {warning}", file=sys.stderr)
    with context.of_one_run(), context.notes_on_stderr():
        try:
            app_for(args)(args=list(args), prog_name="chronolake")
        except SystemExit as done:
            return done.code if isinstance(done.code, int) else output.OK
        except errors.ChronolakeError as error:
            return output.report(error)
        except OSError as error:
            if error.filename is None:
                raise
            return output.report_file(error)
    return output.OK


def app_for(args: Sequence[str]) -> typer.Typer:
    """The commands that ``args`` may need: the one that is named, or all, with the plug-ins."""
    app = typer.Typer(cls=_Commands, name="chronolake", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback(epilog=output.EXIT_CODES)(_common)
    named = _named_in(args)
    for name, module in _GROUPS.items():
        if named in (None, name):
            app.add_typer(getattr(_module(module), "archive_app" if name == "archive" else "app")())
    for name, module in _COMMANDS.items():
        if named in (None, name):
            command = options.with_common_options(getattr(_module(module), name.replace("-", "_")))
            app.command(name, cls=quick_values.QuickCommand)(command)
    if named not in _COMMANDS:
        plugins.add_to(app, args)
    return app


def _named_in(args: Sequence[str]) -> str | None:
    """The command or group of this program that a command line names first."""
    words = iter(args)
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif not word.startswith((*(f"{option}=" for option in _VALUED), "--json")):
            return word if word in _COMMANDS or word in _GROUPS else None
    return None


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"chronolake.cli.{name}")


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"chronolake {_http.version()}")
        raise typer.Exit


def _common(
    url: options.UrlOption = None,
    profile: options.ProfileOption = None,
    token_file: options.TokenFileOption = None,
    ca_file: options.CaFileOption = None,
    json: options.JsonOption = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Chronolake: the timeline of lakehouse tables."""
    context.note(url=url, profile=profile, token_file=token_file, ca_file=ca_file, wants_json=json)
