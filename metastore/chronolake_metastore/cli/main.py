"""``chronolake-metastore``: serve, migrate, verify, heads, rebuild, claim, openapi."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated, NoReturn

import typer

from chronolake_metastore import errors, telemetry
from chronolake_metastore.app import create_app
from chronolake_metastore.cli import claiming, proving, serving
from chronolake_metastore.cli.options import (
    DataDir,
    Dsn,
    Level,
    Log,
    Reader,
    StorageEndpoints,
    dsn_of,
    existing_dsn_of,
    source_of,
)
from chronolake_metastore.proof import verification
from chronolake_metastore.settings import DATA_DIR, RequestLog, Settings
from chronolake_metastore.store import migrations
from chronolake_metastore.telemetry import LogFormat, LogLevel

app = typer.Typer(
    name="chronolake-metastore",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
def serve(  # noqa: PLR0913 - one argument per setting
    *,
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    host: Annotated[
        str, typer.Option(envvar="CHRONOLAKE_HOST", help="The address to listen at.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="CHRONOLAKE_PORT", min=0, max=65_535, help="The port to listen at.")
    ] = 7077,
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
        int,
        typer.Option(
            envvar="CHRONOLAKE_LANES",
            min=1,
            max=64,
            help="Connections for commands. One carries out all, in groups; when it is held up, another does.",
        ),
    ] = 4,
    marker_batch_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_MARKER_BATCH_MAX",
            min=1,
            help="Markers that are created in one transaction at most; a request with more has one of its own.",
        ),
    ] = 5_000,
    marker_interval_ms: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_MARKER_INTERVAL_MS",
            min=0.0,
            max=1_000.0,
            help="How long a batch of markers takes at least, so that more gather behind it: fewer "
            "transactions, longer waits. The first one never waits.",
        ),
    ] = 0.0,
    silent_seconds: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_SILENT_SECONDS",
            min=1.0,
            help="How long the database may be silent in the middle of a transaction before its connection is "
            "given up and the commands are sent again.",
        ),
    ] = 20.0,
    answer_seconds: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_ANSWER_SECONDS",
            min=1.0,
            help="How long after its last byte a request is answered at the latest: with 503 when the "
            "database takes longer. Streams must have begun by then. A body must be complete as long after its "
            "first byte, and a second more for each 64 KiB of it.",
        ),
    ] = 30.0,
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
    deleter_seconds: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_DELETER_SECONDS",
            min=0.0,
            help="How often to look for rollbacks and cleans that wait, and delete their files from "
            "storage, which this server must reach as writers do. 0: leave it to clients and other servers.",
        ),
    ] = 0.0,
    deleter_lease_seconds: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_DELETER_LEASE_SECONDS",
            min=1,
            max=86_400,
            help="How long a rollback or a clean stays with a server that went silent while it deleted the "
            "files.",
        ),
    ] = 60,
    storage_endpoints: StorageEndpoints = None,
    page_bytes_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_PAGE_BYTES_MAX",
            min=1_024,
            help="Bytes of a page of a list, about: it ends there, or at its limit of entries.",
        ),
    ] = 4 * 1024 * 1024,
    bodies_bytes_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_BODIES_BYTES_MAX",
            min=1_024,
            help="Bytes of large requests under way (over 1 MiB each), and as many of small ones; beyond that "
            "503. One address may have half of either.",
        ),
    ] = 128 * 1024 * 1024,
    max_body_bytes: Annotated[
        int,
        typer.Option(envvar="CHRONOLAKE_MAX_BODY_BYTES", min=1024, help="The largest request body accepted."),
    ] = 64 * 1024 * 1024,
    followers_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_FOLLOWERS_MAX",
            min=1,
            help="Streams of events that this server has open at most; more are answered 503.",
        ),
    ] = 2_000,
    followers_per_client_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_FOLLOWERS_PER_CLIENT_MAX",
            min=1,
            help="Streams of events that one address has open at most; more are answered 429. Behind a proxy "
            "all clients have one address.",
        ),
    ] = 1_000,
    follower_stall_seconds: Annotated[
        float,
        typer.Option(
            envvar="CHRONOLAKE_FOLLOWER_STALL_SECONDS",
            min=1.0,
            help="How long the reader of a stream, of events or as Arrow, may take nothing while there is "
            "something to read; then its connection is ended.",
        ),
    ] = 30.0,
    arrow_streams_per_client_max: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_ARROW_STREAMS_PER_CLIENT_MAX",
            min=1,
            help="Answers as Arrow that one address reads at a time, of the 8 of a server; more wait up to 10 "
            "seconds, and are then answered 429. Behind a proxy all clients have one address.",
        ),
    ] = 4,
    ring_bytes: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_RING_BYTES",
            min=1024,
            help="Memory for the newest events, which all followers share; a stream that falls behind them is "
            "ended.",
        ),
    ] = 32 * 1024 * 1024,
    catch_up_bytes: Annotated[
        int,
        typer.Option(
            envvar="CHRONOLAKE_CATCH_UP_BYTES",
            min=1024,
            help="Memory for large events on their way to followers that catch up with the log.",
        ),
    ] = 32 * 1024 * 1024,
    request_log: Annotated[
        RequestLog,
        typer.Option(
            envvar="CHRONOLAKE_REQUEST_LOG", help="Log each request that was answered, at this level, or not."
        ),
    ] = RequestLog.OFF,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Serve the REST API until stopped (Ctrl-C, SIGTERM)."""
    telemetry.configure(log_format, log_level)
    serving.refuse_open_door(host, allow_anonymous=allow_anonymous)
    source = source_of(dsn, data_dir)
    if dsn is None if migrate is None else migrate:
        serving.migrate(source.dsn)
    settings = Settings(
        dsn=source.dsn,
        host=host,
        port=port,
        role=role,
        lanes=lanes,
        marker_batch_max=marker_batch_max,
        marker_interval_ms=marker_interval_ms,
        silent_seconds=silent_seconds,
        answer_seconds=answer_seconds,
        pool_size=pool_size,
        drift_max_ms=drift_max_ms,
        reaper_seconds=reaper_seconds,
        deleter_seconds=deleter_seconds,
        deleter_lease_seconds=deleter_lease_seconds,
        storage_endpoints=storage_endpoints or (),
        page_bytes_max=page_bytes_max,
        bodies_bytes_max=bodies_bytes_max,
        max_body_bytes=max_body_bytes,
        followers_max=followers_max,
        followers_per_client_max=followers_per_client_max,
        follower_stall_seconds=follower_stall_seconds,
        arrow_streams_per_client_max=arrow_streams_per_client_max,
        ring_bytes=ring_bytes,
        catch_up_bytes=catch_up_bytes,
        request_log=request_log,
    )
    serving.run(settings, source.embedded)


@app.command()
def migrate(
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Bring the database to the schema that this server knows, and grant the roles what they need.

    Safe to run again, and from several places.
    """
    telemetry.configure(log_format, log_level)
    done = migrations.upgrade(dsn_of(dsn, data_dir))
    for warning in done.warnings:
        typer.echo(f"PostgreSQL: {warning}", err=True)
    before, after = done.before, done.after
    typer.echo(f"schema {after}, as before" if before == after else f"schema {before or 'none'} -> {after}")


@app.command()
def verify(  # noqa: PLR0913 - one argument per setting
    *,
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    role: Reader = "chronolake_server",
    table: Annotated[
        str | None,
        typer.Option(help="One table, namespace.table; its own log and projections alone.", metavar="TABLE"),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="A folder of heads: say of each whether the log still contains it.", metavar="FOLDER or URI"
        ),
    ] = None,
    findings_max: Annotated[
        int, typer.Option("--max-findings", min=1, help="How many findings to show; more are counted.")
    ] = verification.FINDINGS_MAX,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Prove the event log, and that the projections are what a replay of it gives, while servers go on writing.

    Ends with 0 when all holds, with 1 when something does not, each finding in a line, and with 2 when it
    cannot tell.
    """
    telemetry.configure(log_format, log_level)
    settings = Settings(dsn=existing_dsn_of(dsn, data_dir), role=role)
    report = proving.verify(settings, table, heads, findings_max)
    proving.show(report, as_json=as_json)
    if not report.holds:
        raise typer.Exit(1)


@app.command()
def heads(
    *,
    to: Annotated[
        str,
        typer.Option(
            help="A folder that whoever can change the database cannot change: a path or a URI (s3://...).",
            metavar="FOLDER or URI",
        ),
    ],
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    role: Reader = "chronolake_server",
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Write the last hash of each table's log into a new document; verify --heads holds the log to it."""
    telemetry.configure(log_format, log_level)
    typer.echo(proving.keep_heads(Settings(dsn=existing_dsn_of(dsn, data_dir), role=role), to))


@app.command()
def rebuild(
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Make the projections what the event log says, beside servers that go on writing.

    The log is replayed into temporary tables; commands wait only while rows that differ are put right.
    """
    telemetry.configure(log_format, log_level)
    typer.echo(proving.rebuild(Settings(dsn=existing_dsn_of(dsn, data_dir))))


@app.command()
def claim(  # noqa: PLR0913 - one argument per setting
    *,
    dsn: Dsn = None,
    data_dir: DataDir = DATA_DIR,
    role: Annotated[
        str, typer.Option(help="The role to take on in the database; one that servers have.")
    ] = "chronolake_server",
    table: Annotated[
        str | None, typer.Option(help="One table, namespace.table, and no other.", metavar="TABLE")
    ] = None,
    new_id: Annotated[
        bool,
        typer.Option(
            "--new-id",
            help="Give the metastore a new identity in any case, and claim all tables under it. For one of two "
            "databases that are copies of each other: the other one deletes nothing from then on.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Take the claims of other metastores too, and those that cannot be read."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
    storage_endpoints: StorageEndpoints = None,
    log_format: Log = LogFormat.CONSOLE,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Claim the storage of all tables for this database, after it was moved, restored or promoted.

    The metastore gets a new identity if its PostgreSQL is another one than before, or with --new-id. From
    then on servers and clients of the old database delete nothing. Storage is reached as servers reach it. It
    may be run again.
    Ends with 1 when a table was not claimed: each says why. A table that was never written has nothing to
    claim: its first writer makes the claim.
    """
    if new_id and table is not None:
        raise typer.BadParameter(
            "a new identity is claimed for all tables: leave --table out", param_hint="--new-id"
        )
    telemetry.configure(log_format, log_level)
    settings = Settings(
        dsn=existing_dsn_of(dsn, data_dir), role=role, storage_endpoints=storage_endpoints or ()
    )
    if not claiming.claim(settings, table, new_id=new_id, force=force, dry_run=dry_run):
        raise typer.Exit(1)


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
        _fail(f"{exc}")
    except errors.Unavailable as exc:
        reason = exc.context.get("reason", "")
        _fail(f"{exc.detail}{f' ({reason})' if reason else ''}")


def _fail(why: str) -> NoReturn:
    # Not 1: that is what verify says when the log does not hold.
    typer.echo(f"chronolake-metastore: {why}", err=True)
    sys.exit(2)
