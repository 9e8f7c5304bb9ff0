"""The entry point of ``chronolake``: registers the commands, and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final, NoReturn

import typer
from typer.core import TyperGroup

from chronolake import _http, errors
from chronolake.cli import (
    checks,
    cleans,
    context,
    cuts,
    events,
    files,
    health,
    hudi,
    instants,
    namespaces,
    options,
    orphans,
    outcomes,
    output,
    plugins,
    rows,
    savepoints,
    schemas,
    services,
    snapshot,
    streams,
    sweeps,
    tables,
    timeline,
    versions,
)
from chronolake_model import environment

_MISSPELLED: Final = 0.6
"""A variable that is as like one of the client's is meant for it. Others may be those of a server."""


class _Commands(TyperGroup):
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
    """The commands, with the plug-ins that ``args`` may need."""
    app = typer.Typer(cls=_Commands, name="chronolake", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback(epilog=output.EXIT_CODES)(_common)
    app.add_typer(namespaces.app())
    app.add_typer(tables.app())
    app.add_typer(schemas.app())
    app.command("timeline")(options.with_common_options(timeline.timeline))
    app.command("instant")(options.with_common_options(instants.instant))
    app.command("rollback")(options.with_common_options(instants.rollback))
    app.command("finish-rollbacks")(options.with_common_options(instants.finish_rollbacks))
    app.command("streams")(options.with_common_options(streams.streams))
    app.command("markers")(options.with_common_options(instants.markers))
    app.command("conflicts")(options.with_common_options(instants.conflicts))
    app.add_typer(savepoints.app())
    app.command("restore")(options.with_common_options(savepoints.restore))
    app.command("head")(options.with_common_options(rows.head))
    app.command("query")(options.with_common_options(rows.query))
    app.command("diff")(options.with_common_options(versions.diff))
    app.command("history")(options.with_common_options(versions.history))
    app.command("snapshot")(options.with_common_options(snapshot.snapshot))
    app.command("cut")(options.with_common_options(cuts.cut))
    app.command("changes")(options.with_common_options(snapshot.changes))
    app.command("files")(options.with_common_options(files.files))
    app.command("partitions")(options.with_common_options(files.partitions))
    app.command("file-group")(options.with_common_options(files.file_group))
    app.command("clean")(options.with_common_options(cleans.clean))
    app.add_typer(services.app())
    app.command("health")(options.with_common_options(health.health))
    app.command("check")(options.with_common_options(checks.check))
    app.command("orphans")(options.with_common_options(orphans.orphans))
    app.add_typer(hudi.app())
    app.add_typer(hudi.archive_app())
    app.command("sweep")(options.with_common_options(sweeps.sweep))
    app.command("events")(options.with_common_options(events.events))
    app.command("outcome")(options.with_common_options(outcomes.outcome))
    app.command("time")(options.with_common_options(timeline.time))
    plugins.add_to(app, args)
    return app


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"chronolake {_http.version()}")
        raise typer.Exit


def _common(
    url: options.UrlOption = None,
    json: options.JsonOption = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Chronolake: the timeline of lakehouse tables."""
    context.note(url=url, wants_json=json)
