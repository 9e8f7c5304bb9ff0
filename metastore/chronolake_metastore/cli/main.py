"""``chronolake-metastore``: serve, migrate, verify, heads, archive, rebuild, claim, backup and others."""

from __future__ import annotations

import importlib.metadata
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from chronolake_metastore import errors
from chronolake_metastore.app import create_app
from chronolake_metastore.cli import (
    archiving,
    auditing,
    backing_up,
    claiming,
    encryption,
    granting,
    locating,
    namespace_auditors,
    proving,
    serving,
    tokens,
)
from chronolake_metastore.cli.options import (
    EVERY,
    FindingsMax,
    OptionalArchive,
    ReportAsJson,
    existing,
    of_settings,
    of_source,
    source_of,
)
from chronolake_metastore.identification import token_keys
from chronolake_metastore.proof import verification
from chronolake_metastore.settings import Access, LogLevel, Settings
from chronolake_metastore.store.postgres import migrations
from chronolake_model.visible_text import visible

app = typer.Typer(
    name="chronolake-metastore",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(archiving.app, name="archive")
app.add_typer(auditing.app, name="audit")
app.add_typer(namespace_auditors.app, name="auditors")
app.add_typer(locating.app, name="locations")
app.add_typer(granting.app, name="grants")
app.add_typer(tokens.app, name="token")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"chronolake-metastore {importlib.metadata.version('chronolake')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """The Chronolake server: the timeline of lakehouse tables, kept in PostgreSQL, served by REST."""


@app.command()
@of_settings(*EVERY)
def serve(settings: Settings) -> None:
    """Serve the REST API until stopped (Ctrl-C, SIGTERM)."""
    serving.refuse_anonymous_network(settings)
    encryption.options(settings)  # Before a database is made.
    serving.refuse_taken_port(settings)
    source = source_of(settings)
    if source.embedded is not None if settings.migrate is None else settings.migrate:
        serving.migrate(source.dsn)
    key_file = token_keys.file_of(settings) if settings.access is Access.ON else None
    given = of_source(settings, source)
    serving.run(msgspec.structs.replace(given, token_key_file=key_file), source.embedded)


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def migrate(settings: Settings) -> None:
    """Migrate the database to the schema that this server knows, and grant the roles their rights.

    It may run again, and from several machines at once.
    """
    done = migrations.upgrade(source_of(settings).dsn)
    for warning in done.warnings:
        typer.echo(f"PostgreSQL: {warning}", err=True)
    before, after = done.before, done.after
    typer.echo(f"schema {after}, as before" if before == after else f"schema {before or 'none'} -> {after}")


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def dsn(settings: Settings) -> None:
    """Print the DSN of an embedded database, for psql and other programs: it runs as long as its server."""
    typer.echo(existing(settings).dsn)


@app.command()
@of_settings("role", log_level=LogLevel.WARNING)
def verify(
    settings: Settings,
    *,
    table: Annotated[
        str | None,
        typer.Option(
            help="Verify only this table, namespace.table: its log and its projections.", metavar="TABLE"
        ),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="A folder of heads: check for each whether the log still contains it.", metavar="FOLDER or URI"
        ),
    ] = None,
    archive: OptionalArchive = None,
    findings_max: FindingsMax = verification.FINDINGS_MAX,
    as_json: ReportAsJson = False,
) -> None:
    """Prove the event log, and compare the projections with a replay of it, while servers write.

    Exits with 0 if all holds, with 1 and a line for each finding otherwise, and with 2 if it could not check.
    """
    report = proving.verify(existing(settings), table, heads, archive, findings_max)
    proving.show(report, as_json=as_json)
    if not report.holds:
        raise typer.Exit(1)


@app.command()
@of_settings("role", log_level=LogLevel.WARNING)
def heads(
    settings: Settings,
    *,
    to: Annotated[
        str,
        typer.Option(
            help=(
                "A folder, as a path or a URI (s3://...). People who can change the database should not be "
                "able to change it."
            ),
            metavar="FOLDER or URI",
        ),
    ],
) -> None:
    """Write the last hash of each table's log into a new document, for verify --heads."""
    typer.echo(proving.write_heads(existing(settings), to))


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def rebuild(
    settings: Settings,
    *,
    archive: OptionalArchive = None,
    with_instants: Annotated[
        bool,
        typer.Option(
            "--with-instants",
            help="Bring back the instants that have left the database, so that a table can be published anew.",
        ),
    ] = False,
) -> None:
    """Make the projections equal to a replay of the event log, while servers write.

    The log is replayed into temporary tables. Commands wait only while rows that differ are corrected.
    """
    typer.echo(proving.rebuild(existing(settings), archive, with_instants=with_instants))


@app.command()
@of_settings("role", "storage_endpoints", "locations", log_level=LogLevel.WARNING)
def claim(
    settings: Settings,
    *,
    table: Annotated[
        str | None, typer.Option(help="Claim only this table, namespace.table.", metavar="TABLE")
    ] = None,
    new_id: Annotated[
        bool,
        typer.Option(
            "--new-id",
            help=(
                "Give the metastore a new identity in any case, and claim all tables under it. Use it for one "
                "of two databases that are copies of each other: from then on, the other one deletes nothing."
            ),
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also replace claims of other metastores, and claims that cannot be read."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
    ] = False,
) -> None:
    """Claim the storage of all tables for this database, after it was moved, restored or promoted.

    The metastore gets a new identity if its PostgreSQL has changed, or with --new-id. From then on, servers and
    clients of the old database delete nothing. The command accesses storage as servers do. It may run again. It
    exits with 1 if a table was not claimed; a line for each table has the reason. A table that was never
    written has nothing to claim: its first writer makes the claim.
    """
    if new_id and table is not None:
        raise typer.BadParameter(
            "a new identity is claimed for all tables: leave --table out", param_hint="--new-id"
        )
    if not claiming.claim(existing(settings), table, new_id=new_id, force=force, dry_run=dry_run):
        raise typer.Exit(1)


_Folder = Annotated[Path, typer.Argument(help="The folder of the backup.", metavar="FOLDER")]


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def backup(settings: Settings, *, folder: _Folder) -> None:
    """Write a backup of the database into a new folder, while servers write.

    Of an embedded database it is a copy of its data folder, of another one a dump of the schema chronolake.
    Data files of tables are not part of it.
    """
    typer.echo(backing_up.backup(settings, folder))


@app.command()
@of_settings("role", log_level=LogLevel.WARNING)
def restore(settings: Settings, *, folder: _Folder) -> None:
    """Restore a backup, into a new --data-dir or into a database without a schema chronolake.

    A server on the restored database only reads until the claims are renewed (chronolake-metastore claim).
    """
    typer.echo(backing_up.restore(settings, folder))


@app.command()
def openapi() -> None:
    """Print the OpenAPI document, which a running server has at /openapi.json."""
    schema = create_app(Settings()).openapi_schema
    typer.echo(serving.as_json(schema.to_schema()))


def main() -> None:
    """Run the command line. An error that an operator can correct is one line, not a traceback."""
    try:
        app()
    except errors.ConfigurationError as exc:
        _fail(f"{exc}")
    except errors.Unavailable as exc:
        reason = exc.context.get("reason", "")
        _fail(f"{exc.detail}{f' ({reason})' if reason else ''}")
    except Exception:
        # A bug. Python ends with 1 after it, which verify would mean by a finding.
        traceback.print_exc()
        sys.exit(2)


def _fail(why: str) -> NoReturn:
    # Not 1: that is what verify says when the log does not hold.
    typer.echo(visible(f"chronolake-metastore: {why}"), err=True)
    sys.exit(2)
