"""The errors of the client, as one tree; each has a stable ``code``.

    ChronolakeError
    ├── ConnectionFailed            no answer: server unreachable, connection lost, or timeout
    ├── ServerError                 the server failed, or the answer is not from this API
    ├── StorageFailed               the table's storage, not the server, refused or failed
    ├── BuffersFull                 a streaming task cannot write yet: give it the rows again later
    ├── ServerUnavailable           502, 503, 504: temporary; the client has retried already
    │   ├── Overloaded
    │   ├── TooManyStreams          429: the limit of open streams is reached
    │   └── DatabaseUnavailable
    └── RequestRefused              the server refused the request: nothing was changed
        ├── InvalidRequest          the request is invalid: correct it
        │   ├── IdempotencyKeyReused
        │   ├── InvalidTable
        │   ├── InvalidWriteStat
        │   ├── InvalidMarker
        │   ├── InvalidDeletion
        │   ├── InvalidPlan
        │   ├── InvalidFilter
        │   └── ActionNotSupported
        ├── NotFound
        │   ├── NamespaceNotFound
        │   ├── TableNotFound
        │   ├── InstantNotFound
        │   ├── SchemaNotFound
        │   ├── ReaderNotFound      its lease has ended, and a clean may have deleted files
        │   ├── StreamNotFound
        │   └── OutcomeNotFound
        └── Conflict                the request is valid, but the present state does not allow it
            ├── NamespaceExists
            ├── NamespaceNotEmpty
            ├── TableExists
            ├── BasePathTaken       choose another base path, or reuse that of a dropped table
            ├── BasePathShared      no file is deleted: it may belong to another table
            ├── MetastoreMoved      the server's database is a copy, or a copy continues it
            ├── IllegalTransition
            ├── LeaseLive
            ├── WriteConflict
            ├── UnreconciledMarkers delete the marked files, report it, and complete again
            ├── UndeletedFiles      delete the files, report it, and complete again
            ├── Savepointed
            ├── IncompatibleSchema
            ├── NotPublished        its property or a reason that Hudi's readers have; see the message
            ├── NotPublishedYet     wait until the plan is published, and take it again
            ├── PublicationFenced   another publisher has taken over
            ├── StreamFenced        the stream was opened again, or closed: stop
            ├── CheckpointPassed    ask with the id of the last barrier that the task has passed
            ├── CheckpointIncomplete  a task has not reported its last batch, or not all have ended
            ├── UnknownCheckpoint   acknowledge with the id of the checkpoint that is complete
            ├── InstantNotYet       buffer, and ask again
            ├── MayConflict         ask for instants with blocking, or write log files
            ├── SchemaChanged       another change came first: read the schema, and try again
            ├── InstantRolledBack   the writer must stop
            └── HistoryCleaned      files of that time were cleaned: use a later time

After ``ConnectionFailed``, ``ServerError`` and ``ServerUnavailable`` a command may or may not have been
executed: ``Client.outcome(error.idempotency_key)`` says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronolake_model.problems import Problem, ProblemCode

CONNECTION_FAILED = "connection-failed"
"""The code of an error without an answer."""

STORAGE_FAILED = "storage-failed"
"""The code of an error of a table's storage."""

BUFFERS_FULL = "buffers-full"
"""The code of an error of a streaming task whose buffers have no room."""

UNEXPECTED_ANSWER = "unexpected-answer"
"""The code of an answer that is not from this API: from another server, a proxy, or a newer server."""


class ChronolakeError(Exception):
    """Any expected failure of this client.

    ``problem`` is the server's problem document (RFC 9457); None without an answer. ``idempotency_key`` is that
    of the failed command; None if it was not a command.
    """

    idempotency_key: str | None = None

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        # Only the message is in args, so that the error can be pickled (other fields are in its __dict__).
        super().__init__(message)
        self.problem = problem

    @property
    def code(self) -> str:
        """The stable code: one of ``ProblemCode`` or of this module, or one of a newer server."""
        return CONNECTION_FAILED if self.problem is None else self.problem.code

    @property
    def context(self) -> Mapping[str, Any]:
        """Details for a program: the present state, the winner of a conflict."""
        return {} if self.problem is None else self.problem.context


class StorageFailed(ChronolakeError):
    """The storage of a table refused or failed, also after retries."""

    @property
    def code(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """``storage-failed``."""
        return STORAGE_FAILED


class BuffersFull(ChronolakeError):
    """The buffers of a streaming task have no room for more rows, and cannot be flushed yet."""

    @property
    def code(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """``buffers-full``."""
        return BUFFERS_FULL


class ConnectionFailed(ChronolakeError):
    """No answer came, also after retries; a command may or may not have been executed."""

    is_final: bool = False
    """Whether retries cannot help, because the URL or the certificates are wrong."""


class ServerError(ChronolakeError):
    """The server failed, or the answer is not from a Chronolake server that this client understands."""


class ServerUnavailable(ChronolakeError):
    """The server, or a gateway before it, cannot serve now; the client has retried already."""

    retry_after_seconds: float = 0.0
    """The server's Retry-After in seconds; 0 if it gave none."""


class Overloaded(ServerUnavailable):
    """The request queue of the server is full."""


class TooManyStreams(ServerUnavailable):
    """This client's address has reached the limit of open event streams."""


class DatabaseUnavailable(ServerUnavailable):
    """The server cannot reach its database."""


class RequestRefused(ChronolakeError):
    """The server refused the request, which changed nothing."""


class InvalidRequest(RequestRefused):
    """The request itself is invalid."""


class IdempotencyKeyReused(InvalidRequest):
    """The idempotency key belongs to another request."""


class InvalidTable(InvalidRequest):
    """The table cannot have this definition, or the history that it is to be adopted with."""


class InvalidWriteStat(InvalidRequest):
    """A write stat does not fit its instant."""


class InvalidMarker(InvalidRequest):
    """A marker does not name a data file that its instant can write."""


class InvalidDeletion(InvalidRequest):
    """A file reported as deleted has no marker, or is published; ``context`` names it."""


class InvalidPlan(InvalidRequest):
    """The plan or its file groups do not fit the table."""


class InvalidFilter(InvalidRequest):
    """A filter names an unknown column, or has a literal that is not of the column's type."""


class ActionNotSupported(InvalidRequest):
    """The table does not support this action."""


class NotFound(RequestRefused):
    """The object of the request does not exist."""


class NamespaceNotFound(NotFound):
    """There is no such namespace."""


class TableNotFound(NotFound):
    """There is no such table."""


class InstantNotFound(NotFound):
    """The table's timeline has no such instant."""


class SchemaNotFound(NotFound):
    """The table's schema has no such version."""


class ReaderNotFound(NotFound):
    """The table has no such reader lease: it has ended, and a clean may have deleted files of its time."""


class StreamNotFound(NotFound):
    """The table has no such stream."""


class OutcomeNotFound(NotFound):
    """No request with this idempotency key was executed so far; one in flight may be executed later."""


class Conflict(RequestRefused):
    """The request is valid, but the present state does not allow it."""


class NamespaceExists(Conflict):
    """A namespace of this name exists already."""


class NamespaceNotEmpty(Conflict):
    """The namespace still has tables."""


class TableExists(Conflict):
    """A table of this name exists already."""


class BasePathTaken(Conflict):
    """The base path overlaps with that of another table; that of a dropped table can be reused."""


class BasePathShared(Conflict):
    """No file of the table is deleted: its base path overlaps with another table's, or cannot be compared."""


class MetastoreMoved(Conflict):
    """The server only reads: its database is a copy, or a copy continues it; an operator renews the claims."""


class IllegalTransition(Conflict):
    """The present state of the instant does not allow this; ``context`` has the state."""


class LeaseLive(Conflict):
    """Another writer of the instant, or another publisher of the table, still holds its lease."""


class WriteConflict(Conflict):
    """Another instant wrote the same file groups first; ``context`` names it and the groups."""


class UnreconciledMarkers(Conflict):
    """Marked files of the instant are neither published nor reported as deleted; ``context`` lists them."""


class UndeletedFiles(Conflict):
    """Files in the plan of a clean are not reported as deleted; ``context`` has their number."""


class Savepointed(Conflict):
    """A savepoint pins an instant that would be rolled back; ``context`` names the savepoint."""


class IncompatibleSchema(Conflict):
    """The table's schema does not allow this change; the message has the reason and the allowed changes."""


class SchemaChanged(Conflict):
    """The table's schema does not have the expected version; ``context`` has the present one."""


class NotPublished(Conflict):
    """The table's publication for Hudi's readers is off or paused; the message has the reason."""


class NotPublishedYet(Conflict):
    """The plan of the compaction is not published for Hudi's readers yet; ``context`` has the versions."""


class PublicationFenced(Conflict):
    """Another publisher publishes the table now."""


class StreamFenced(Conflict):
    """The stream was opened again or closed, or the task was restarted: this one must stop."""


class CheckpointPassed(Conflict):
    """The stream is past this checkpoint, so no task can have it as its last barrier."""


class CheckpointIncomplete(Conflict):
    """Tasks have not reported all of their files, or not all have reported the end of their input."""


class UnknownCheckpoint(Conflict):
    """The id is far above all checkpoints that the stream has seen."""


class InstantNotYet(Conflict):
    """The stream gives no new instant yet; the same request gets one later."""


class MayConflict(Conflict):
    """Completing could conflict later, which only an instant in blocking mode may risk."""


class InstantRolledBack(Conflict):
    """The instant was rolled back: its writer must stop, and its files are never published."""


class HistoryCleaned(Conflict):
    """The table cannot be read as of that time any more; ``context`` has its ``first_servable_time``."""


_CLASS_OF: dict[str, type[ChronolakeError]] = {
    ProblemCode.INVALID_REQUEST: InvalidRequest,
    ProblemCode.INVALID_PARAMETER: InvalidRequest,
    ProblemCode.INVALID_CURSOR: InvalidRequest,
    ProblemCode.ROUTE_NOT_FOUND: NotFound,
    ProblemCode.NAMESPACE_NOT_FOUND: NamespaceNotFound,
    ProblemCode.TABLE_NOT_FOUND: TableNotFound,
    ProblemCode.INSTANT_NOT_FOUND: InstantNotFound,
    ProblemCode.SCHEMA_NOT_FOUND: SchemaNotFound,
    ProblemCode.READER_NOT_FOUND: ReaderNotFound,
    ProblemCode.STREAM_NOT_FOUND: StreamNotFound,
    ProblemCode.OUTCOME_NOT_FOUND: OutcomeNotFound,
    ProblemCode.METHOD_NOT_ALLOWED: InvalidRequest,
    ProblemCode.NAMESPACE_EXISTS: NamespaceExists,
    ProblemCode.NAMESPACE_NOT_EMPTY: NamespaceNotEmpty,
    ProblemCode.TABLE_EXISTS: TableExists,
    ProblemCode.BASE_PATH_TAKEN: BasePathTaken,
    ProblemCode.BASE_PATH_SHARED: BasePathShared,
    ProblemCode.METASTORE_MOVED: MetastoreMoved,
    ProblemCode.ILLEGAL_TRANSITION: IllegalTransition,
    ProblemCode.LEASE_LIVE: LeaseLive,
    ProblemCode.WRITE_CONFLICT: WriteConflict,
    ProblemCode.UNRECONCILED_MARKERS: UnreconciledMarkers,
    ProblemCode.UNDELETED_FILES: UndeletedFiles,
    ProblemCode.SAVEPOINTED: Savepointed,
    ProblemCode.INCOMPATIBLE_SCHEMA: IncompatibleSchema,
    ProblemCode.SCHEMA_CHANGED: SchemaChanged,
    ProblemCode.NOT_PUBLISHED: NotPublished,
    ProblemCode.NOT_PUBLISHED_YET: NotPublishedYet,
    ProblemCode.PUBLICATION_FENCED: PublicationFenced,
    ProblemCode.STREAM_FENCED: StreamFenced,
    ProblemCode.CHECKPOINT_PASSED: CheckpointPassed,
    ProblemCode.CHECKPOINT_INCOMPLETE: CheckpointIncomplete,
    ProblemCode.UNKNOWN_CHECKPOINT: UnknownCheckpoint,
    ProblemCode.INSTANT_NOT_YET: InstantNotYet,
    ProblemCode.MAY_CONFLICT: MayConflict,
    ProblemCode.INSTANT_ROLLED_BACK: InstantRolledBack,
    ProblemCode.HISTORY_CLEANED: HistoryCleaned,
    ProblemCode.BODY_TOO_LARGE: InvalidRequest,
    ProblemCode.BODY_TOO_SLOW: InvalidRequest,
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: InvalidRequest,
    ProblemCode.IDEMPOTENCY_KEY_REUSED: IdempotencyKeyReused,
    ProblemCode.INVALID_TABLE: InvalidTable,
    ProblemCode.INVALID_WRITE_STAT: InvalidWriteStat,
    ProblemCode.INVALID_MARKER: InvalidMarker,
    ProblemCode.INVALID_DELETION: InvalidDeletion,
    ProblemCode.INVALID_PLAN: InvalidPlan,
    ProblemCode.INVALID_FILTER: InvalidFilter,
    ProblemCode.ACTION_NOT_SUPPORTED: ActionNotSupported,
    ProblemCode.INTERNAL_ERROR: ServerError,
    ProblemCode.OVERLOADED: Overloaded,
    ProblemCode.TOO_MANY_STREAMS: TooManyStreams,
    ProblemCode.DATABASE_UNAVAILABLE: DatabaseUnavailable,
}

_CLASS_OF_STATUS: dict[int, type[ChronolakeError]] = {
    404: NotFound,
    409: Conflict,
    410: Conflict,
    502: ServerUnavailable,
    503: ServerUnavailable,
    504: ServerUnavailable,
}


def error_of(problem: Problem) -> ChronolakeError:
    """The typed error of ``problem``; for the unknown code of a newer server, the status decides."""
    return class_of(problem)(f"{problem.title}: {problem.detail}", problem)


def class_of(problem: Problem) -> type[ChronolakeError]:
    """The class of ``problem`` in the tree."""
    if known := _CLASS_OF.get(problem.code) or _CLASS_OF_STATUS.get(problem.status):
        return known
    return RequestRefused if 400 <= problem.status < 500 else ServerError
