"""The settings of a server: options, environment variables, defaults and documentation are made from them."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from chronolake_metastore import errors
from chronolake_model import decoding, machine

FormT = TypeVar("FormT")

_KIB: Final = 1_024
_MIB: Final = 1_024 * _KIB


class RequestLog(enum.StrEnum):
    """Whether requests are logged, and at which level."""

    OFF = "off"
    DEBUG = "debug"
    INFO = "info"


class Access(enum.StrEnum):
    """Whether callers must say who they are."""

    OFF = "off"
    ON = "on"


class TlsVersion(enum.StrEnum):
    """The lowest version of TLS."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class LogLineFormat(enum.StrEnum):
    """The form of log lines."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """The lowest level of log lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes of a setting beside its type and its default: its meaning, its range, its names."""

    help: str
    min: float | None = None
    max: float | None = None
    flag: str | None = None
    """Where it is not ``--`` and the name of the setting."""
    metavar: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as the command line and the documentation have it."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"CHRONOLAKE_{self.name.upper()}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server. The defaults are for one machine and the embedded database."""

    dsn: Annotated[
        str,
        Option(
            help="The PostgreSQL (15 or newer), as a URL or a libpq connection string. Without it, the "
            "embedded PostgreSQL in the data folder, which is started."
        ),
    ] = ""
    data_dir: Annotated[
        Path, Option(help="The folder of the embedded PostgreSQL, which is used if there is no DSN.")
    ] = Path("~/.local/share/chronolake")
    host: Annotated[str, Option(help="The address to listen at.")] = "127.0.0.1"
    port: Annotated[int, Option(help="The port to listen at.", min=0, max=65_535)] = 7077
    access: Annotated[
        Access,
        Option(
            help="off: every client that reaches the port may do everything. on: every request needs a token, "
            "and its subject a role."
        ),
    ] = Access.OFF
    admin_token_file: Annotated[
        Path | None,
        Option(
            help="A file with the token of the static admin, who is known also without a database. It is "
            "read again when it changes.",
            metavar="FILE",
        ),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        Option(
            help="The server's certificate, with those between it and its CA, as PEM: it then serves https "
            "alone. Restart it for a new one.",
            metavar="FILE",
        ),
    ] = None
    tls_key: Annotated[
        Path | None, Option(help="The key of the certificate, as PEM without a password.", metavar="FILE")
    ] = None
    tls_version: Annotated[TlsVersion, Option(help="The lowest version of TLS; older clients need 1.2.")] = (
        TlsVersion.TLS_1_3
    )
    tls_client_ca: Annotated[
        Path | None,
        Option(
            help="CAs of clients, as PEM: connections without a certificate of one of them are refused. It "
            "says who may connect, and not who calls.",
            metavar="FILE",
        ),
    ] = None
    oidc_file: Annotated[
        Path | None,
        Option(
            help="A TOML file with the issuers of OpenID Connect whose tokens are accepted.", metavar="FILE"
        ),
    ] = None
    credentials_file: Annotated[
        Path | None,
        Option(
            help="A TOML file with the roles by which clients get short-lived credentials for tables in S3.",
            metavar="FILE",
        ),
    ] = None
    token_key_file: Annotated[
        Path | None,
        Option(
            help="A file with the keys under which tokens are verified, one a line in base64; the first is for "
            "new tokens. An embedded database has one in its data folder.",
            metavar="FILE",
        ),
    ] = None
    requests_per_second: Annotated[
        float,
        Option(
            help="With access on, requests of one subject a second, on average over 10 seconds; further ones "
            "are answered 429 before their body is read. The static admin has no limit. 0: nobody has one.",
            min=0.0,
        ),
    ] = 0.0
    allow_anonymous: Annotated[
        bool,
        Option(
            help=(
                "Listen at an address that other machines reach, although access is off: every client that "
                "reaches the port may do everything."
            )
        ),
    ] = False
    migrate: Annotated[
        bool | None,
        Option(help="Migrate the database first. The default is yes for the embedded one, no for a given DSN."),
    ] = None
    role: Annotated[
        str,
        Option(
            help="The role in the database that the login takes on. A server needs the rights of "
            "chronolake_server; heads, archive and audit need to read, as chronolake_auditor may; verify also "
            "creates temporary tables."
        ),
    ] = "chronolake_server"
    lanes: Annotated[
        int,
        Option(
            help="Connections for commands. One executes all commands, in groups. While it waits for a "
            "table, another one executes commands on other tables.",
            min=1,
            max=64,
        ),
    ] = 4
    queue_max: Annotated[
        int, Option(help="Commands in the queue at most; further ones are answered 503.", min=1)
    ] = 10_000
    queue_bytes_max: Annotated[
        int,
        Option(
            help="Bytes of the commands in the queue, about; further ones are answered 503. One command "
            "always fits.",
            min=_KIB,
        ),
    ] = 64 * _MIB
    group_max: Annotated[int, Option(help="Commands in one transaction at most.", min=1)] = 512
    group_files_max: Annotated[
        int,
        Option(
            help="Write stats in one transaction at most. A command with more has a transaction of its own.",
            min=1,
        ),
    ] = 10_000
    group_bytes_max: Annotated[
        int,
        Option(
            help="Bytes of the commands in one transaction, about. A larger command has a transaction of "
            "its own.",
            min=_KIB,
        ),
    ] = 16 * _MIB
    marker_lanes: Annotated[
        int,
        Option(
            help="Connections for creating markers. One creates all markers, in batches. While it waits "
            "for a table, another one creates markers in other tables.",
            min=1,
            max=64,
        ),
    ] = 2
    marker_batch_max: Annotated[
        int,
        Option(
            help="Markers in one transaction at most. A request with more has a transaction of its own.", min=1
        ),
    ] = 5_000
    marker_interval_ms: Annotated[
        float,
        Option(
            help="The least duration of a batch of markers. A longer one gathers more markers: fewer "
            "transactions, longer waits. The first batch never waits.",
            min=0.0,
            max=1_000.0,
        ),
    ] = 0.0
    retry_seconds: Annotated[
        float,
        Option(
            help="How long a command is retried after its arrival while the database is unavailable; then it "
            "is answered 503.",
            min=0.0,
        ),
    ] = 15.0
    silent_seconds: Annotated[
        float,
        Option(
            help="How long the database may be silent within a transaction. Then the connection is "
            "closed, and the commands are sent again.",
            min=1.0,
        ),
    ] = 20.0
    answer_seconds: Annotated[
        float,
        Option(
            help="The longest time from the last byte of a request to its answer, which is 503 if the "
            "database takes longer. Streams must have begun by then. A body must be complete in the "
            "same time after its first byte, and a second more for each 64 KiB.",
            min=1.0,
        ),
    ] = 30.0
    pool_size: Annotated[int, Option(help="Connections for reading.", min=1, max=1_000)] = 8
    drift_max_ms: Annotated[
        int,
        Option(
            help="How far the clock of a table may be ahead of the wall clock before its writers wait.", min=0
        ),
    ] = 1_000
    reaper_seconds: Annotated[
        float,
        Option(
            help=(
                "The interval at which the server searches instants with an expired lease and rolls them back. "
                "0: only other servers do it."
            ),
            min=0.0,
        ),
    ] = 5.0
    deleter_seconds: Annotated[
        float,
        Option(
            help=(
                "The interval at which the server searches pending rollbacks and cleans, and deletes their "
                "files from storage. It must reach the storage as writers do. 0: only clients and other "
                "servers do it."
            ),
            min=0.0,
        ),
    ] = 0.0
    deleter_lease_seconds: Annotated[
        int,
        Option(
            help="The lease of a server on the rollback or clean that it executes. When the server fails,"
            " another one continues after this time.",
            min=1,
            max=86_400,
        ),
    ] = 60
    publisher_seconds: Annotated[
        float,
        Option(
            help=(
                "The interval at which the server looks for tables to publish for Hudi's readers; commands of "
                "this server wake it at once. It must reach the storage as writers do. 0: only clients and "
                "other servers do it."
            ),
            min=0.0,
        ),
    ] = 1.0
    archive: Annotated[
        str | None,
        Option(
            help="The location of the archive of the log, as a path or a URI (s3://...), if it is not the one "
            "that was recorded when old answers left the database.",
            metavar="FOLDER or URI",
        ),
    ] = None
    storage_endpoints: Annotated[
        Sequence[str],
        Option(
            help="An endpoint of S3, as a URL, that tables may name in their property "
            "storage.endpoint_override. Credentials are sent to no other one. May be given several "
            "times; the variable separates by spaces.",
            flag="--storage-endpoint",
            metavar="URL",
        ),
    ] = ()
    locations: Annotated[
        Sequence[str],
        Option(
            help="A folder, as a path or a URI (s3://...), in which tables may have their base paths, for "
            "each namespace without locations of its own (chronolake-metastore locations). May be given "
            "several times; the variable separates by spaces. Without it, tables may be anywhere; with the "
            "embedded database, in the folder tables of the data folder.",
            flag="--location",
            metavar="FOLDER or URI",
        ),
    ] = ()
    iceberg_snapshots_max: Annotated[
        int,
        Option(
            help="The newest states of a table that the Iceberg catalog, at /iceberg, has as snapshots. The "
            "server writes their metadata, so it must reach the storage as writers do. 0: no catalog.",
            min=0,
            max=10_000,
        ),
    ] = 1_000
    iceberg_expiry_seconds: Annotated[
        float,
        Option(
            help="The interval at which the server searches metadata of the Iceberg catalog that no retained "
            "state needs. What it finds twice it removes. 0: only other servers do it.",
            min=0.0,
        ),
    ] = 3_600.0
    page_bytes_max: Annotated[
        int,
        Option(
            help="Bytes of a page of a list, about. A page ends there or at its limit of entries, and has"
            " one entry at least.",
            min=_KIB,
        ),
    ] = 4 * _MIB
    max_body_bytes: Annotated[int, Option(help="The largest request body.", min=_KIB)] = 64 * _MIB
    bodies_bytes_max: Annotated[
        int,
        Option(
            help="Bytes of all large requests in progress (over 1 MiB each), and as many of small ones; "
            "further ones are answered 503. One caller may have half of either, so this must be "
            "twice the largest body at least.",
            min=_KIB,
        ),
    ] = 128 * _MIB
    followers_max: Annotated[
        int, Option(help="Open streams of events of this server; further ones are answered 503.", min=1)
    ] = 2_000
    followers_per_client_max: Annotated[
        int,
        Option(
            help="Open streams of events of one caller (a subject; with access off an address, which all "
            "clients behind a proxy share); further ones are answered 429.",
            min=1,
        ),
    ] = 1_000
    follower_stall_seconds: Annotated[
        float,
        Option(
            help="How long the reader of a stream, of events or as Arrow, may take nothing of what is "
            "sent. Then its connection is closed.",
            min=1.0,
        ),
    ] = 30.0
    arrow_streams_per_client_max: Annotated[
        int,
        Option(
            help="Answers as Arrow that one caller (a subject; with access off an address) reads at a time, "
            "of the 8 of a server. Further ones wait up to 10 seconds, and are then answered 429.",
            min=1,
        ),
    ] = 4
    ring_bytes: Annotated[
        int,
        Option(
            help="Memory for the newest events, which all followers share. A stream that falls behind "
            "them is closed.",
            min=_KIB,
        ),
    ] = 32 * _MIB
    catch_up_bytes: Annotated[
        int,
        Option(help="Memory for large events on their way to followers that catch up with the log.", min=_KIB),
    ] = 32 * _MIB
    request_log: Annotated[
        RequestLog, Option(help="The level at which each answered request is logged, or off.")
    ] = RequestLog.OFF
    log_format: Annotated[LogLineFormat, Option(help="The form of log lines.")] = LogLineFormat.CONSOLE
    log_level: Annotated[LogLevel, Option(help="The lowest level of log lines that are written.")] = (
        LogLevel.INFO
    )


_ANYWHERE: Final = (
    "the server uses its credentials at any base path that a client names, in each namespace without locations "
    "of its own; give --location, or run chronolake-metastore locations allow"
)

_PLAIN: Final = (
    "tokens travel without encryption: give --tls-certificate and --tls-key, unless only a proxy with TLS "
    "reaches this address"
)


def is_open_to_network(settings: Settings) -> bool:
    """Whether unknown callers of other machines may do everything."""
    return settings.access is Access.OFF and not machine.is_loopback(settings.host)


def warnings_of(settings: Settings) -> list[str]:
    """Dangers of these settings, which the log has at each start and ``/ready`` always."""
    warnings = [] if settings.locations else [_ANYWHERE]
    if is_open_to_network(settings):
        warnings.append(f"access is off: every client that reaches {settings.host} may do everything")
    if (
        settings.access is Access.ON
        and settings.tls_certificate is None
        and not machine.is_loopback(settings.host)
    ):
        warnings.append(_PLAIN)
    return warnings


def read_toml(path: Path, form: type[FormT], noun: str, example: str) -> FormT:
    """The content of a file that a setting names; raises ``ConfigurationError`` with an example of the form."""
    try:
        return decoding.convert(tomllib.loads(path.expanduser().read_text("utf-8")), form)
    except OSError as exc:
        raise errors.ConfigurationError(f"the {noun} {path} cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as exc:
        raise errors.ConfigurationError(f"{path}: {exc}; {example}") from exc


def all_settings() -> list[Setting]:
    """Every setting, in the order of the class."""
    hints = get_type_hints(Settings, include_extras=True)
    return [_setting(field, hints[field.name]) for field in msgspec.structs.fields(Settings)]


def _setting(field: msgspec.structs.FieldInfo, hint: Any) -> Setting:
    value_type, option = get_args(hint)
    return Setting(name=field.name, type=value_type, default=field.default, option=option)
