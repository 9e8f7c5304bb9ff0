"""Why a request is refused: one tree, each leaf with its stable code.

TimelineError                      the request cannot be carried out; answered as a problem (RFC 9457)
|__InvalidRequest                  invalid-request
|__InvalidParameter                invalid-parameter
|__InvalidCursor                   invalid-cursor
|__NotFound
|  |__NamespaceNotFound            namespace-not-found
|  |__TableNotFound                table-not-found
|  |__InstantNotFound              instant-not-found
|  |__SchemaNotFound               schema-not-found
|  |__ReaderNotFound               reader-not-found
|  |__StreamNotFound               stream-not-found
|  |__OutcomeNotFound              outcome-not-found
|__Conflict
|  |__NamespaceExists              namespace-exists
|  |__NamespaceNotEmpty            namespace-not-empty
|  |__TableExists                  table-exists
|  |__BasePathTaken                base-path-taken
|  |__BasePathShared               base-path-shared
|  |__MetastoreMoved               metastore-moved
|  |__IllegalTransition            illegal-transition
|  |__LeaseLive                    lease-live
|  |__WriteConflict                write-conflict
|  |__UnreconciledMarkers          unreconciled-markers
|  |__UndeletedFiles               undeleted-files
|  |__Savepointed                  savepointed
|  |__IncompatibleSchema           incompatible-schema
|  |__SchemaChanged                schema-changed
|  |__NotPublished                 not-published
|  |__NotPublishedYet              not-published-yet
|  |__PublicationFenced            publication-fenced
|  |__StreamFenced                 stream-fenced
|  |__CheckpointPassed             checkpoint-passed
|  |__CheckpointIncomplete         checkpoint-incomplete
|  |__UnknownCheckpoint            unknown-checkpoint
|  |__MayConflict                  may-conflict
|__InstantRolledBack               instant-rolled-back
|__HistoryCleaned                  history-cleaned
|__Unprocessable
|  |__IdempotencyKeyReused         idempotency-key-reused
|  |__InvalidTable                 invalid-table
|  |__InvalidWriteStat             invalid-write-stat
|  |__InvalidMarker               invalid-marker
|  |__InvalidDeletion              invalid-deletion
|  |__InvalidPlan                  invalid-plan
|  |__InvalidFilter                invalid-filter
|  |__ActionNotSupported           action-not-supported
|__UnknownRefusal                  recorded by a newer server, under a code that this one does not know
|__Unavailable                     nothing was decided; the same request may be sent again
   |__InstantNotYet                instant-not-yet
   |__Overloaded                   overloaded
   |__TooManyStreams               too-many-streams
   |__DatabaseUnavailable          database-unavailable
      |__ConnectionLost            database-unavailable
ConfigurationError                 the server cannot start as it is set up; shown to the operator
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from chronolake_model import decoding
from chronolake_model.problems import Problem, ProblemCode


class Recorded(msgspec.Struct, frozen=True):
    """A refusal as the outcome of its command holds it: the problem, byte for byte, each time."""

    status: int
    document: bytes


class TimelineError(Exception):
    """An expected refusal. ``context`` has its details for programs, in the field's words.

    ``recorded`` is its answer when it was decided on a command, and so is that command's outcome.
    """

    code: ClassVar[ProblemCode]
    recorded: Recorded | None = None

    def __init__(self, detail: str, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context


class InvalidRequest(TimelineError):
    """The body does not have the documented form."""

    code = ProblemCode.INVALID_REQUEST


class InvalidParameter(TimelineError):
    code = ProblemCode.INVALID_PARAMETER


class InvalidCursor(TimelineError):
    code = ProblemCode.INVALID_CURSOR


class NotFound(TimelineError):
    """The request names an object that does not exist."""


class NamespaceNotFound(NotFound):
    code = ProblemCode.NAMESPACE_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no namespace {name!r}; create it first, or check the name", namespace=name)


class TableNotFound(NotFound):
    """``renamed_to`` is the present name of the table, ``table_id`` the id that the request expected."""

    code = ProblemCode.TABLE_NOT_FOUND

    def __init__(self, name: str, renamed_to: str | None = None, *, table_id: UUID | None = None) -> None:
        context = {"table": name}
        if table_id is None:
            detail = f"there is no table {name!r}"
            advice = "create it first, or check the name"
        else:
            context["table_id"] = str(table_id)
            detail = f"{name!r} is not the name of the table with the id {table_id}"
            advice = "that table was dropped, or never existed; open the table again"
        if renamed_to is not None:
            context["renamed_to"] = renamed_to
            advice = f"it was renamed to {renamed_to!r}, use that name"
        super().__init__(f"{detail}; {advice}", **context)


class InstantNotFound(NotFound):
    code = ProblemCode.INSTANT_NOT_FOUND

    def __init__(self, table: str, requested_time: str, renamed_to: str | None = None) -> None:
        context = {"table": table, "requested_time": requested_time}
        detail = f"the timeline of {table!r} has no instant requested at {requested_time}"
        if renamed_to is not None:
            context["renamed_to"] = renamed_to
            detail += f"; a table that had this name was renamed to {renamed_to!r}, look there"
        super().__init__(detail, **context)


class SchemaNotFound(NotFound):
    code = ProblemCode.SCHEMA_NOT_FOUND

    def __init__(self, table: str, schema_version: int) -> None:
        super().__init__(
            f"the schema of {table!r} has no version {schema_version}; GET the table for its present version",
            table=table,
            schema_version=schema_version,
        )


class ReaderNotFound(NotFound):
    code = ProblemCode.READER_NOT_FOUND

    def __init__(self, table: str, lease_id: str) -> None:
        super().__init__(
            f"no reader of {table!r} holds the lease {lease_id!r}; if it has ended, take a new lease and begin "
            "to read again",
            table=table,
            lease_id=lease_id,
        )


class StreamNotFound(NotFound):
    code = ProblemCode.STREAM_NOT_FOUND

    def __init__(self, table: str, stream: str) -> None:
        super().__init__(
            f"the table {table!r} has no stream {stream!r}; open it first", table=table, stream=stream
        )


class OutcomeNotFound(NotFound):
    code = ProblemCode.OUTCOME_NOT_FOUND

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"no request with the idempotency key {request_id!r} was executed so far. A request that is still "
            "under way may be executed later: send it again with its key, and it is executed once",
            request_id=request_id,
        )


class Conflict(TimelineError):
    """The present state does not allow the request."""


class NamespaceExists(Conflict):
    code = ProblemCode.NAMESPACE_EXISTS


class NamespaceNotEmpty(Conflict):
    code = ProblemCode.NAMESPACE_NOT_EMPTY


class TableExists(Conflict):
    code = ProblemCode.TABLE_EXISTS


class BasePathTaken(Conflict):
    code = ProblemCode.BASE_PATH_TAKEN


class BasePathShared(Conflict):
    code = ProblemCode.BASE_PATH_SHARED


class MetastoreMoved(Conflict):
    code = ProblemCode.METASTORE_MOVED

    def __init__(self, metastore_id: str, reason: str) -> None:
        super().__init__(
            f"this server does not act for the metastore {metastore_id}: {reason}. It takes no writes, "
            "publishes nothing and deletes nothing until an operator runs `chronolake-metastore claim` for its "
            "database, when no other database of this metastore is used any more",
            metastore_id=metastore_id,
        )


class IllegalTransition(Conflict):
    code = ProblemCode.ILLEGAL_TRANSITION


class LeaseLive(Conflict):
    code = ProblemCode.LEASE_LIVE


class WriteConflict(Conflict):
    code = ProblemCode.WRITE_CONFLICT


class UnreconciledMarkers(Conflict):
    code = ProblemCode.UNRECONCILED_MARKERS


class UndeletedFiles(Conflict):
    code = ProblemCode.UNDELETED_FILES


class Savepointed(Conflict):
    code = ProblemCode.SAVEPOINTED


class IncompatibleSchema(Conflict):
    code = ProblemCode.INCOMPATIBLE_SCHEMA


class SchemaChanged(Conflict):
    code = ProblemCode.SCHEMA_CHANGED


class NotPublished(Conflict):
    code = ProblemCode.NOT_PUBLISHED

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"{table!r} is not published for Hudi's readers now: {reason}", table=table)


class NotPublishedYet(Conflict):
    code = ProblemCode.NOT_PUBLISHED_YET

    def __init__(self, table: str, version: int, published_version: int) -> None:
        super().__init__(
            f"the plan of the compaction of {table!r} is in version {version} of the log, and the table is "
            f"published for Hudi's readers up to version {published_version}: a file that is written before "
            "its plan is published would hide later log files from them. Request the compaction without "
            "inflight, and take it inflight a little later; GET .../publication shows the progress",
            table=table,
            version=version,
            published_version=published_version,
        )


class PublicationFenced(Conflict):
    code = ProblemCode.PUBLICATION_FENCED

    def __init__(self, table: str, publisher: str) -> None:
        super().__init__(
            f"{publisher!r} does not publish {table!r} any more: another publisher has taken over; take a new "
            "lease, and continue at its position",
            table=table,
            publisher=publisher,
        )


class StreamFenced(Conflict):
    code = ProblemCode.STREAM_FENCED


class CheckpointPassed(Conflict):
    code = ProblemCode.CHECKPOINT_PASSED


class CheckpointIncomplete(Conflict):
    code = ProblemCode.CHECKPOINT_INCOMPLETE


class UnknownCheckpoint(Conflict):
    code = ProblemCode.UNKNOWN_CHECKPOINT


class MayConflict(Conflict):
    code = ProblemCode.MAY_CONFLICT


class InstantRolledBack(TimelineError):
    code = ProblemCode.INSTANT_ROLLED_BACK


class HistoryCleaned(TimelineError):
    code = ProblemCode.HISTORY_CLEANED

    def __init__(self, table: str, time: str, first_servable_time: str) -> None:
        super().__init__(
            f"the history of {table!r} was cleaned: {time} is earlier than {first_servable_time}, the first "
            "time that it is served as of; read as of that time (earliest), or a later one",
            table=table,
            asked=time,
            first_servable_time=first_servable_time,
        )


class Unprocessable(TimelineError):
    """A well-formed request that contradicts itself or known facts."""


class IdempotencyKeyReused(Unprocessable):
    code = ProblemCode.IDEMPOTENCY_KEY_REUSED

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {key!r} was used for another request; a new request needs a new key",
            idempotency_key=key,
        )


class InvalidTable(Unprocessable):
    code = ProblemCode.INVALID_TABLE


class InvalidWriteStat(Unprocessable):
    code = ProblemCode.INVALID_WRITE_STAT


class InvalidMarker(Unprocessable):
    code = ProblemCode.INVALID_MARKER


class InvalidDeletion(Unprocessable):
    code = ProblemCode.INVALID_DELETION


class InvalidPlan(Unprocessable):
    code = ProblemCode.INVALID_PLAN


class InvalidFilter(Unprocessable):
    code = ProblemCode.INVALID_FILTER


class ActionNotSupported(Unprocessable):
    code = ProblemCode.ACTION_NOT_SUPPORTED


class UnknownRefusal(TimelineError):
    """A server of a newer release recorded a refusal that this one has no name for; its document says why."""

    code = ProblemCode.INTERNAL_ERROR


class Unavailable(TimelineError):
    """Nothing was decided; the same request may be sent again, with the same idempotency key."""


class InstantNotYet(Unavailable):
    code = ProblemCode.INSTANT_NOT_YET


class Overloaded(Unavailable):
    code = ProblemCode.OVERLOADED


class TooManyStreams(Unavailable):
    """One client has as many streams open as it may."""

    code = ProblemCode.TOO_MANY_STREAMS


class DatabaseUnavailable(Unavailable):
    code = ProblemCode.DATABASE_UNAVAILABLE


class ConnectionLost(DatabaseUnavailable):
    """A connection to the database was lost, or could not be made; ``store.postgres.outages`` logs it."""


class SchemaUnknown(Unavailable):
    """A later release has migrated the database; to try again on this server does not help."""

    code = ProblemCode.DATABASE_UNAVAILABLE


def of_recorded(recorded: Recorded) -> TimelineError:
    """The refusal that was recorded, in the class of its code."""
    problem = decoding.decode(recorded.document, Problem)
    error_class = next((leaf for leaf in _leaves(TimelineError) if leaf.code == problem.code), UnknownRefusal)
    # Past the class's own constructor, which makes the detail that is here already.
    error = error_class.__new__(error_class)
    TimelineError.__init__(error, problem.detail, **problem.context)
    error.recorded = recorded
    return error


def _leaves(branch: type[TimelineError]) -> Iterator[type[TimelineError]]:
    below = branch.__subclasses__()
    if not below:
        yield branch
    for error_class in below:
        yield from _leaves(error_class)


class ConfigurationError(Exception):
    """The server cannot start as it is set up; the message says what to change."""
