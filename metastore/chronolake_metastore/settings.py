"""How a server is set up: each setting is a flag of ``serve`` and an environment variable."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Final

import msgspec

DATA_DIR: Final = Path("~/.local/share/chronolake")
"""Where the embedded database lives unless told otherwise."""


class RequestLog(enum.StrEnum):
    """Whether requests are logged, and at which level."""

    OFF = "off"
    DEBUG = "debug"
    INFO = "info"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a running server needs to know. The defaults suit one machine and the embedded database."""

    dsn: str
    """The PostgreSQL to use, as a libpq connection string or URL."""
    host: str = "127.0.0.1"
    port: int = 7077
    role: str = "chronolake_server"
    """The role that the server takes on in the database; it may append to the log and not change it."""
    lanes: int = 4
    """Connections for commands. One carries out all, in groups; when it is held up, another does."""
    queue_max: int = 10_000
    """Commands that may wait in a lane; more are answered 503."""
    group_max: int = 512
    """Commands in one transaction at most."""
    group_files_max: int = 10_000
    """Write stats in one transaction at most; a command with more has a transaction of its own."""
    marker_lanes: int = 2
    """Connections for creating markers. One creates all, in batches; when it is held up, another does."""
    marker_batch_max: int = 5_000
    """Markers in one transaction at most; a request with more has a transaction of its own."""
    marker_interval_ms: float = 0.0
    """How long a batch of markers takes at least, so that more gather behind it; the first one never waits."""
    retry_seconds: float = 15.0
    """How long a command waits for a database that went away before it is answered 503."""
    silent_seconds: float = 20.0
    """How long the database may be silent in the middle of a group before its connection is given up."""
    pool_size: int = 8
    """Connections for reading."""
    drift_max_ms: int = 1_000
    """How far a table's clock may run ahead of the wall before its writers are made to wait."""
    reaper_seconds: float = 5.0
    """How often expired leases are looked for; 0 leaves that to other servers."""
    deleter_seconds: float = 0.0
    """How often files to delete are looked for; 0 leaves them to clients and other servers."""
    deleter_lease_seconds: int = 60
    """How long whoever deletes files may stay silent."""
    max_body_bytes: int = 64 * 1024 * 1024
    request_log: RequestLog = RequestLog.OFF
    """At which level each request is logged that was answered."""
