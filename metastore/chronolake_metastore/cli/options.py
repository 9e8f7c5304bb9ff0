"""Options that several commands share, and the database that they name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from chronolake_metastore import embedded, errors
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.store import diagnosis
from chronolake_metastore.telemetry import LogFormat, LogLevel

_DSN_VARIABLE: Final = "CHRONOLAKE_DSN"

Dsn = Annotated[
    str | None,
    typer.Option(
        envvar=_DSN_VARIABLE,
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
StorageEndpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-endpoint",
        envvar="CHRONOLAKE_STORAGE_ENDPOINTS",
        help="An endpoint of S3, as a URL, that tables may name as their property storage.endpoint_override. "
        "Credentials are sent to no other one. May be given several times; the variable separates by spaces.",
        metavar="URL",
    ),
]
Reader = Annotated[str, typer.Option(help="The role to take on in the database; one that may read is enough.")]
Log = Annotated[LogFormat, typer.Option(envvar="CHRONOLAKE_LOG_FORMAT", help="How log lines look.")]
Level = Annotated[
    LogLevel,
    typer.Option(
        envvar="CHRONOLAKE_LOG_LEVEL", case_sensitive=False, help="Lines below this level are left out."
    ),
]


class Source(msgspec.Struct, frozen=True):
    """The database that a command line names; ``embedded`` when this process has started it."""

    dsn: str
    embedded: EmbeddedPostgres | None = None


def dsn_of(given: str | None, data_dir: Path) -> str:
    """The DSN of ``source_of``."""
    return source_of(given, data_dir).dsn


def existing_dsn_of(given: str | None, data_dir: Path) -> str:
    """The DSN of ``source_of``, for a command that makes no sense on an empty database.

    Raises ``ConfigurationError`` also when the embedded PostgreSQL was never made: nothing is made then.
    """
    if given is None and _DSN_VARIABLE not in os.environ and not embedded.has_database(data_dir):
        raise errors.ConfigurationError(
            f"there is no embedded database in {data_dir}; name the data folder of the server with --data-dir, "
            "or its PostgreSQL with --dsn"
        )
    return dsn_of(given, data_dir)


def source_of(given: str | None, data_dir: Path) -> Source:
    """The DSN that was given, or that of the embedded PostgreSQL, which is started.

    Raises ``ConfigurationError``, also for an empty DSN: somebody meant a database, and what was to name it did
    not. An empty one of our own would look as if all tables were lost.
    """
    if given is None and _DSN_VARIABLE not in os.environ:
        started = embedded.start(data_dir)
        return Source(started.dsn, started)
    if not (given or "").strip():
        raise errors.ConfigurationError(
            f"the DSN is empty; let --dsn or {_DSN_VARIABLE} name a PostgreSQL, or give neither (unset "
            f"{_DSN_VARIABLE}) to use the embedded one"
        )
    assert given is not None
    diagnosis.refuse_malformed(given)
    return Source(given)
