"""What may go wrong, as one tree; each error has a stable ``code``.

    ChronolakeError
    ├── ConnectionFailed            no answer came: unreachable, broken off, timed out
    ├── ServerError                 the server failed, or answered something that is not this API
    ├── StorageFailed               the table's storage, not the server, refused or failed
    ├── ServerUnavailable           502, 503, 504: not now; the client has retried already
    │   ├── Overloaded
    │   ├── TooManyStreams          429: this client has as many streams open as it may
    │   └── DatabaseUnavailable
    └── RequestRefused              a definite no: nothing was changed
        ├── InvalidRequest          the request is at fault: mend it
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
        │   ├── ReaderNotFound      its lease has ended, and a clean may have come
        │   └── OutcomeNotFound
        └── Conflict                the request is fine, the present state is against it
            ├── NamespaceExists
            ├── NamespaceNotEmpty
            ├── TableExists
            ├── BasePathTaken       choose another one, or reuse that of a dropped table
            ├── BasePathShared      nothing is deleted, as other files may be another table's
            ├── MetastoreMoved      nothing is deleted before an operator claims the tables
            ├── IllegalTransition
            ├── LeaseLive
            ├── WriteConflict
            ├── UnreconciledMarkers     delete what they name, report it, and complete again
            ├── UndeletedFiles      delete them, report it, and complete again
            ├── Savepointed
            ├── IncompatibleSchema
            ├── SchemaChanged       another change came first: read the schema, and try again
            ├── InstantRolledBack   the writer must stop
            └── HistoryCleaned      the table is not served as of that time any more: use a later one

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

UNEXPECTED_ANSWER = "unexpected-answer"
"""The code of an answer that is not this API's: another server, a proxy's page, or a newer server."""


class ChronolakeError(Exception):
    """Any expected failure of this client.

    ``problem`` is the server's problem document (RFC 9457); None when no answer came. ``idempotency_key`` is
    that of the command that failed; None when it was no command.
    """

    idempotency_key: str | None = None

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        # The message alone goes into args: so the error pickles (the rest travels in its __dict__).
        super().__init__(message)
        self.problem = problem

    @property
    def code(self) -> str:
        """The stable code: one of ``ProblemCode``, of a newer server, or of this module."""
        return CONNECTION_FAILED if self.problem is None else self.problem.code

    @property
    def context(self) -> Mapping[str, Any]:
        """Details for a program: the present state, the winner of a conflict."""
        return {} if self.problem is None else self.problem.context


class StorageFailed(ChronolakeError):
    """The storage of a table refused or failed, also when retried."""

    @property
    def code(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """``storage-failed``."""
        return STORAGE_FAILED


class ConnectionFailed(ChronolakeError):
    """No answer came, also when retried; a command may or may not have been executed."""


class ServerError(ChronolakeError):
    """The server failed, or the answer is not from a Chronolake server that this client understands."""


class ServerUnavailable(ChronolakeError):
    """The server, or a gateway before it, cannot serve now; the client has retried already."""

    retry_after_seconds: float = 0.0
    """How long the client shall wait, as the server said; 0 when it did not."""


class Overloaded(ServerUnavailable):
    """The server has more requests waiting than it accepts."""


class TooManyStreams(ServerUnavailable):
    """This client's address has as many streams of events open as it may."""


class DatabaseUnavailable(ServerUnavailable):
    """The server cannot reach its database."""


class RequestRefused(ChronolakeError):
    """A definite no: the request changed nothing."""


class InvalidRequest(RequestRefused):
    """The request itself is at fault."""


class IdempotencyKeyReused(InvalidRequest):
    """The idempotency key belongs to another request."""


class InvalidTable(InvalidRequest):
    """The table's definition contradicts itself."""


class InvalidWriteStat(InvalidRequest):
    """A write stat does not fit its instant."""


class InvalidMarker(InvalidRequest):
    """A marker is of no data file that its instant could write."""


class InvalidDeletion(InvalidRequest):
    """A file that was reported as deleted has no marker, or is published; ``context`` names it."""


class InvalidPlan(InvalidRequest):
    """The plan, or the file groups that are named, do not fit the table."""


class InvalidFilter(InvalidRequest):
    """A filter names a column that the table does not have, or a literal that is not of its type."""


class ActionNotSupported(InvalidRequest):
    """The table does not take this action."""


class NotFound(RequestRefused):
    """What the request names does not exist."""


class NamespaceNotFound(NotFound):
    """There is no such namespace."""


class TableNotFound(NotFound):
    """There is no such table."""


class InstantNotFound(NotFound):
    """The table's timeline has no such instant."""


class SchemaNotFound(NotFound):
    """The table's schema has no such version."""


class ReaderNotFound(NotFound):
    """The table has no such lease of a reader: it has ended, and a clean may have deleted files of its time."""


class OutcomeNotFound(NotFound):
    """No request with this idempotency key was executed so far; one under way may be executed later."""


class Conflict(RequestRefused):
    """The request is fine in itself, but the present state is against it."""


class NamespaceExists(Conflict):
    """There is a namespace of this name already."""


class NamespaceNotEmpty(Conflict):
    """The namespace still has tables."""


class TableExists(Conflict):
    """There is a table of this name already."""


class BasePathTaken(Conflict):
    """The base path is another table's, or overlaps with one; a dropped table's can be reused."""


class BasePathShared(Conflict):
    """Nothing of the table is deleted: its base path overlaps with another table's, or cannot be compared."""


class MetastoreMoved(Conflict):
    """Nothing is deleted: the metastore's database was copied, restored or promoted, and not claimed since."""


class IllegalTransition(Conflict):
    """The instant's present state, named in ``context``, does not allow this."""


class LeaseLive(Conflict):
    """The instant's writer still holds its lease; only the writer may roll it back now."""


class WriteConflict(Conflict):
    """Another instant wrote the same file groups first; ``context`` names it and the groups."""


class UnreconciledMarkers(Conflict):
    """Files that the instant marked are neither published nor reported as deleted; ``context`` names them."""


class UndeletedFiles(Conflict):
    """Files that the plan of a clean names are not reported as deleted; ``context`` says how many."""


class Savepointed(Conflict):
    """A savepoint pins an instant that would be rolled back; ``context`` names the savepoint."""


class IncompatibleSchema(Conflict):
    """The table's schema does not allow this change; the message says why, and which changes it allows."""


class SchemaChanged(Conflict):
    """The table's schema is of another version than was expected; ``context`` has the present one."""


class InstantRolledBack(Conflict):
    """The instant was rolled back: its writer must stop, nothing that it wrote will be seen."""


class HistoryCleaned(Conflict):
    """The table is not served as of that time any more; ``context`` has its ``first_servable_time``."""


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
    """The typed error of ``problem``; for a code that only a newer server knows, the status decides."""
    return class_of(problem)(f"{problem.title}: {problem.detail}", problem)


def class_of(problem: Problem) -> type[ChronolakeError]:
    """The class of ``problem`` in the tree."""
    if known := _CLASS_OF.get(problem.code) or _CLASS_OF_STATUS.get(problem.status):
        return known
    return RequestRefused if 400 <= problem.status < 500 else ServerError
