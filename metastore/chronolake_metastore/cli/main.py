"""``chronolake-metastore``: serve, migrate, rebuild, openapi."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from chronolake_metastore import embedded, errors, telemetry
from chronolake_metastore.app import create_app
from chronolake_metastore.cli import serving
from chronolake_metastore.commands import rebuilding
from chronolake_metastore.settings import DATA_DIR, Settings
from chronolake_metastore.store import migrations
from chronolake_metastore.telemetry import LogFormat

app = typer.Typer(
    name="chronolake-metastore",
    help="The Chronolake server: the timeline of lakehouse tables, kept in PostgreSQL, served by REST.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Dsn = Annotated[
    str,
    typer.Option(
        envvar="CHRONOLAKE_DSN",
        help="The PostgreSQL (15 or newer) to use, as a URL or a libpq connection string. "
        "Without one the server starts a PostgreSQL of its own in the data folder.",
    ),
]
DataDir = Annotated[
    Path,
    typer.Option(
        envvar="CHRONOLAKE_DATA_DIR", help="Where the embedded PostgreSQL lives, when no DSN is given."
    ),
]
Log = Annotated[LogFormat, typer.Option(envvar="CHRONOLAKE_LOG_FORMAT", help="How log lines look.")]
Level = Annotated[
    str, typer.Option(envvar="CHRONOLAKE_LOG_LEVEL", help="debug, info, warning or error.", metavar="LEVEL")
]


@app.command()
def serve(  # noqa: PLR0913 - one argument per setting
    *,
    dsn: Dsn = "",
    data_dir: DataDir = DATA_DIR,
    host: Annotated[
        str, typer.Option(envvar="CHRONOLAKE_HOST", help="The address to listen at.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="CHRONOLAKE_PORT", help="The port to listen at.")] = 7077,
    allow_anonymous: Annotated[
        bool,
        typer.Option(
            envvar="CHRONOLAKE_ALLOW_ANONYMOUS",
            help="Listen beyond this machine although no access is configured: whoever reaches the port may "
            "do everything.",
        ),
    ] = False,
    migrate: Annotated[
        bool | None,
        typer.Option(
            envvar="CHRONOLAKE_MIGRATE",
            help="Migrate the database first. On for the embedded one, off for a given DSN.",
            show_default=False,
        ),
    ] = None,
    role: Annotated[
        str, typer.Option(envvar="CHRONOLAKE_ROLE", help="The role the server takes on in the database.")
    ] = "chronolake_server",
    lanes: Annotated[
        int, typer.Option(envvar="CHRONOLAKE_LANES", min=1, max=64, help="Sequencers side by side.")
    ] = 2,
    pool_size: Annotated[
        int, typer.Option(envvar="CHRONOLAKE_POOL_SIZE", min=1, max=1000, help="Connections for reading.")
    ] = 8,
    drift_max_ms: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_DRIFT_MAX_MS",
            min=0,
            help="How far a table's clock may run ahead of the wall before its writers are made to wait.",
        ),
    ] = 1_000,
    reaper_seconds: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_REAPER_SECONDS",
            min=0.0,
            help="How often to look for instants whose lease has ended, and roll them back. 0: leave it to "
            "other servers.",
        ),
    ] = 5.0,
    max_body_bytes: Annotated[
        int,
        typer.Option(envvar="CHRONOLAKE_MAX_BODY_BYTES", min=1024, help="The largest request body accepted."),
    ] = 64 * 1024 * 1024,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = "info",
) -> None:
    """Serve the REST API until stopped (Ctrl-C, SIGTERM)."""
    telemetry.configure(log_format, log_level)
    serving.refuse_open_door(host, allow_anonymous=allow_anonymous)
    is_embedded = not dsn
    dsn = dsn or embedded.start(data_dir)
    if is_embedded if migrate is None else migrate:
        migrations.upgrade(dsn)
    settings = Settings(
        dsn=dsn,
        host=host,
        port=port,
        role=role,
        lanes=lanes,
        pool_size=pool_size,
        drift_max_ms=drift_max_ms,
        reaper_seconds=reaper_seconds,
        max_body_bytes=max_body_bytes,
    )
    serving.run(settings)


@app.command()
def migrate(
    dsn: Dsn = "",
    data_dir: DataDir = DATA_DIR,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = "warning",
) -> None:
    """Bring the database to the schema that this server knows. Safe to run again, and from several places."""
    telemetry.configure(log_format, log_level)
    before, after = migrations.upgrade(dsn or embedded.start(data_dir))
    typer.echo(f"schema {after}, as before" if before == after else f"schema {before or 'none'} -> {after}")


@app.command()
def rebuild(
    dsn: Dsn = "",
    data_dir: DataDir = DATA_DIR,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = "warning",
) -> None:
    """Drop every projection and build it again from the event log. Commands wait while it runs."""
    telemetry.configure(log_format, log_level)
    events = asyncio.run(rebuilding.rebuild(Settings(dsn=dsn or embedded.start(data_dir))))
    typer.echo(f"rebuilt from {events} events")


@app.command()
def openapi() -> None:
    """Print the OpenAPI document, which a running server has at /openapi.json."""
    schema = create_app(Settings(dsn="")).openapi_schema
    typer.echo(serving.as_json(schema.to_schema()))


def main() -> None:
    """Run the command line; what an operator can mend is said in a line, not in a traceback."""
    try:
        app()
    except errors.ConfigurationError as exc:
        sys.exit(f"chronolake-metastore: {exc}")
    except errors.Unavailable as exc:
        reason = exc.context.get("reason", "")
        sys.exit(f"chronolake-metastore: {exc.detail}{f' ({reason})' if reason else ''}")
