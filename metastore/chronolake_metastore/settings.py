"""How a server is set up: each setting is a flag of ``serve`` and an environment variable."""

from __future__ import annotations

import enum
from collections.abc import Sequence
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
    """How long after its arrival a command waits for a database that went away; then it is answered 503."""
    answer_seconds: float = 30.0
    """How long after its last byte a request is answered at the latest, with 503 if need be."""
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
    bodies_bytes_max: int = 128 * 1024 * 1024
    """Bytes of large requests (over 1 MiB) under way, and as many of small ones; more are answered 503.

    One address has half of either at most. Twice ``max_body_bytes`` at least, or larger bodies never fit.
    """
    queue_bytes_max: int = 64 * 1024 * 1024
    """Bytes of the commands that may wait in a lane, about; more are answered 503. One may always wait."""
    group_bytes_max: int = 16 * 1024 * 1024
    """Bytes of the commands in one transaction, about; a larger command has a transaction of its own."""
    page_bytes_max: int = 4 * 1024 * 1024
    """Bytes of a page, about: a page ends there, or at its ``limit`` of entries, and has one entry at least."""
    storage_endpoints: Sequence[str] = ()
    """Endpoints of S3, as URLs, that tables may name in their properties, beside that of the environment."""
    max_body_bytes: int = 64 * 1024 * 1024
    followers_max: int = 2_000
    """Streams of events that this server has open at most; more are answered 503."""
    followers_per_client_max: int = 1_000
    """Streams of events that one address has open at most; more are answered 429."""
    follower_stall_seconds: float = 30.0
    """How long a reader of a stream, of events or as Arrow, may take nothing of it; then it is cut off."""
    arrow_streams_per_client_max: int = 4
    """Answers as Arrow that one address reads at a time; more wait, and are then answered 429."""
    ring_bytes: int = 32 * 1024 * 1024
    """The newest events, kept in memory for all followers; one that falls behind them is cut off."""
    catch_up_bytes: int = 32 * 1024 * 1024
    """Large events on their way to followers that catch up with the log; more of them wait."""
    request_log: RequestLog = RequestLog.OFF
    """At which level each request is logged that was answered."""
