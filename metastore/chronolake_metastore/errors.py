"""Why a request is refused: one tree, each leaf with its stable code.

TimelineError                      the request cannot be carried out; answered as a problem (RFC 9457)
|__AccessRefused                   401, 403
|__NotFound                        404
|__Conflict                        409
|__Unprocessable                   422
|__UnknownOutcome                  recorded by another release of the server, which alone can answer with it
|__Unavailable                     429, 503: nothing was decided; the same request may be sent again
ConfigurationError                 the server cannot start as it is set up; shown to the operator

A class that is named as a row of ``ProblemCode`` has its code. A class is written from its row, unless its
constructor makes the message.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final
from uuid import UUID

from chronolake_model.problems import ProblemCode

_CODES: Final = {code.class_name: code for code in ProblemCode}


class TimelineError(Exception):
    """An expected refusal. ``context`` has its details for programs, in the field's words.

    ``answer`` is the body of its answer, in the dialect of the caller, when it is the outcome of a command.
    """

    code: ClassVar[ProblemCode]
    answer: bytes | None = None
    denial: Forbidden | None = None
    """The reason for the log, if the caller learns only that something does not exist."""

    def __init__(self, detail: str, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context

    def __init_subclass__(cls) -> None:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        if (code := _CODES.get(cls.__name__)) is not None:
            cls.code = code


class AccessRefused(TimelineError):
    """The caller is unknown, or lacks a right."""


class Unauthenticated(AccessRefused):
    """``reason`` is for the log and the metrics of the server: a stranger learns only that there is one."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the request needs a token that this server accepts; send the header Authorization: Bearer <token>"
        )
        self.reason = reason


class NotFound(TimelineError):
    """The request names an object that does not exist."""


class NamespaceNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no namespace {name!r}; create it first, or check the name", namespace=name)


class TableNotFound(NotFound):
    """``renamed_to`` is the present name of the table, ``table_id`` the id that the request expected."""

    def __init__(self, name: str, renamed_to: str | None = None, *, table_id: UUID | None = None) -> None:
        context = {"table": name}
        if table_id is None:
            detail = f"there is no table {name!r}"
            advice = "create it first, or check the name"
        else:
            context["table_id"] = str(table_id)
            detail = f"{name!r} is not the name of the table with the id {table_id}"
            advice = (
                "that table was dropped, or never existed; if another table has the name now, open that one"
            )
        if renamed_to is not None:
            context["renamed_to"] = renamed_to
            advice = f"it was renamed to {renamed_to!r}, use that name"
        super().__init__(f"{detail}; {advice}", **context)


class InstantNotFound(NotFound):
    def __init__(self, table: str, requested_time: str, renamed_to: str | None = None) -> None:
        context = {"table": table, "requested_time": requested_time}
        detail = f"the timeline of {table!r} has no instant requested at {requested_time}"
        if renamed_to is not None:
            context["renamed_to"] = renamed_to
            detail += f"; a table that had this name was renamed to {renamed_to!r}, look there"
        super().__init__(detail, **context)


class SchemaNotFound(NotFound):
    def __init__(self, table: str, schema_version: int) -> None:
        super().__init__(
            f"the schema of {table!r} has no version {schema_version}; GET the table for its present version",
            table=table,
            schema_version=schema_version,
        )


class ReaderNotFound(NotFound):
    def __init__(self, table: str, lease_id: str) -> None:
        super().__init__(
            f"no reader of {table!r} holds the lease {lease_id!r}; if it has ended, take a new lease and begin "
            "to read again",
            table=table,
            lease_id=lease_id,
        )


class StreamNotFound(NotFound):
    def __init__(self, table: str, stream: str) -> None:
        super().__init__(
            f"the table {table!r} has no stream {stream!r}; open it first", table=table, stream=stream
        )


class OutcomeNotFound(NotFound):
    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"no request with the idempotency key {request_id!r} was executed so far. A request that is still "
            "under way may be executed later: send it again with its key, and it is executed once",
            request_id=request_id,
        )


class Conflict(TimelineError):
    """The present state does not allow the request."""


class MetastoreMoved(Conflict):
    def __init__(self, metastore_id: str, reason: str) -> None:
        super().__init__(
            f"this server does not act for the metastore {metastore_id}: {reason}. It takes no writes, "
            "publishes nothing and deletes nothing until an operator runs `chronolake-metastore claim` for its "
            "database, when no other database of this metastore is used any more",
            metastore_id=metastore_id,
        )


class NotPublished(Conflict):
    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"{table!r} is not published for Hudi's readers now: {reason}", table=table)


class InstantsArchived(NotPublished):
    """Instants that a publication needs have left the database."""


class NotPublishedYet(Conflict):
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


class TooManyLeases(Conflict):
    def __init__(self, table: str, leases_max: int) -> None:
        super().__init__(
            f"you have {leases_max:,} leases of the table {table!r} as a reader: end those that you do not "
            f"need (GET /v1/tables/{table}/readers lists them, DELETE .../readers/<lease_id> ends one), or "
            "wait: those of readers that have stopped expire by themselves",
            table=table,
            leases_max=leases_max,
        )


class PublicationFenced(Conflict):
    def __init__(self, table: str, publisher: str) -> None:
        super().__init__(
            f"{publisher!r} does not publish {table!r} any more: another publisher has taken over; take a new "
            "lease, and continue at its position",
            table=table,
            publisher=publisher,
        )


class HistoryCleaned(TimelineError):
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
    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {key!r} was used for another request; a new request needs a new key",
            idempotency_key=key,
        )


class UnknownOutcome(TimelineError):
    """Another release of the server recorded the outcome in a form that this one cannot answer with."""

    code = ProblemCode.INTERNAL_ERROR

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"the request {request_id!r} was decided, and another release of the server recorded its outcome; "
            "ask a server of that release for the answer",
            request_id=request_id,
        )


class Unavailable(TimelineError):
    """Nothing was decided; the same request may be sent again, with the same idempotency key."""


class InstantNotYet(Unavailable):
    """The stream gives no new instant yet."""


class DatabaseUnavailable(Unavailable):
    """The server cannot reach its database."""


class ConnectionLost(DatabaseUnavailable):
    """A connection to the database was lost, or could not be made; ``store.postgres.outages`` logs it."""


class SchemaUnknown(Unavailable):
    """A later release has migrated the database; to try again on this server does not help."""

    code = ProblemCode.DATABASE_UNAVAILABLE


class ConfigurationError(Exception):
    """The server cannot start as it is set up; the message says what to change."""


# ---- Written from chronolake_model.problems by tools/write_errors.py (`make sync`): do not edit.


class InvalidRequest(TimelineError):
    """The request's body does not have the documented form.

    Correct the body; `detail` names the field.
    """


class InvalidParameter(TimelineError):
    """A parameter in the path, query or header is not valid. Correct the parameter; `detail` names it."""


class InvalidCursor(TimelineError):
    """The cursor does not come from this list. Start the list again without a cursor."""


class Forbidden(AccessRefused):
    """The caller may not do this. Ask an administrator for the right; `detail` names it."""


class NamespaceExists(Conflict):
    """There is a namespace of this name already. Use the namespace, or choose another name."""


class NamespaceNotEmpty(Conflict):
    """The namespace still has tables. Drop the namespace's tables first."""


class TableExists(Conflict):
    """There is a table of this name already. Use the table, or choose another name."""


class BasePathTaken(Conflict):
    """The base path belongs to another table, or overlaps with that of one.

    Choose another base path. If `context.dropped`, `reuse_base_path` takes it over from the dropped
    table.
    """


class BasePathShared(Conflict):
    """Nothing is deleted: the base path may belong to another table too.

    See `detail` for the other table; drop one of them, or load it elsewhere.
    """


class IllegalTransition(Conflict):
    """The instant's present state does not allow this. Check the present state, `context.state`."""


class LeaseLive(Conflict):
    """Another writer or publisher still holds its lease.

    Ask the writer or publisher, or wait for `context.lease_seconds_left` seconds.
    """


class WriteConflict(Conflict):
    """Another instant wrote the same file groups first.

    Roll back, read as of `context.rebase_on` or later, write again. `context.winner` is the instant
    that won, `context.file_groups` the file groups in common.
    """


class UnreconciledMarkers(Conflict):
    """Files that the instant marked are neither published nor reported as deleted.

    Delete the files in `context`, report that (`POST …/deletions`); complete, new key. At a
    checkpoint of a stream first make sure that all tasks have passed its barrier: a slow task may
    still write such a file.
    """


class UndeletedFiles(Conflict):
    """Files that the plan names are not reported as deleted.

    Delete the files of the plan, report that, and complete again; `context` has their number.
    """


class Savepointed(Conflict):
    """A savepoint pins the instant. Release the savepoint first; `context` names it."""


class IncompatibleSchema(Conflict):
    """The table's schema cannot be changed in this way.

    Request another change; `detail` says why, and what is allowed.
    """


class SchemaChanged(Conflict):
    """The table's schema has another version now.

    Read schema version `context.schema_version`, and repeat the change.
    """


class StreamFenced(Conflict):
    """The stream was opened again, or closed; its earlier writers must stop.

    Stop: another job, or another attempt of the task, has taken over.
    """


class CheckpointPassed(Conflict):
    """The stream is past this checkpoint.

    Ask with the id of the last barrier that the task has passed.
    """


class CheckpointIncomplete(Conflict):
    """Tasks of the stream have not reported all of their files.

    Report the last batches of the tasks in `context`, and acknowledge again. If the tasks are gone,
    restore the job: open the stream with `restored_checkpoint`.
    """


class UnknownCheckpoint(Conflict):
    """The stream has seen no checkpoint near this id.

    Acknowledge with the id that the engine gave to the checkpoint.
    """


class CredentialsNotVended(Conflict):
    """The server gives no keys for the table's storage. Use keys of your own; `detail` says why."""


class MayConflict(Conflict):
    """Completing could conflict later; only an instant in blocking mode may do this.

    Write log files or another file group, or ask for instants with `blocking`.
    """


class InstantRolledBack(TimelineError):
    """The instant was rolled back; its writer must stop. Stop writing; begin another instant."""


class InvalidTable(Unprocessable):
    """The table cannot have this definition or history. `detail` says what is wrong, and what to do."""


class LocationNotAllowed(Unprocessable):
    """The namespace may not have tables at this base path.

    Choose a base path in one of `context.locations`, or ask the operator of the server to run the
    command in `detail`.
    """


class InvalidWriteStat(Unprocessable):
    """A write stat does not fit its instant. Correct the write stat; `detail` says which and why."""


class InvalidMarker(Unprocessable):
    """The marker does not name a data file of its instant.

    Correct the marker; `detail` says which and why.
    """


class InvalidDeletion(Unprocessable):
    """A file may not be reported as deleted.

    Report only files that this instant may delete; `detail` names the file.
    """


class InvalidPlan(Unprocessable):
    """The plan or the named file groups do not fit the table.

    Correct the plan; `detail` says what does not fit.
    """


class InvalidFilter(Unprocessable):
    """The filter does not fit the table's columns.

    Correct the filter at `context.place`; `detail` says what is expected there.
    """


class ActionNotSupported(Unprocessable):
    """The table does not take this action. Use an action of the table's type; `detail` says why."""


class TooManyStreams(Unavailable):
    """The caller has too many open streams. Close one, or wait for the seconds in `Retry-After`."""


class RateLimited(Unavailable):
    """The caller sends too many requests. Send it again after the seconds in `Retry-After`."""


class Overloaded(Unavailable):
    """The server has too many waiting requests. Send the request again later, under the same key."""


class CredentialsUnavailable(Unavailable):
    """The server gets no keys from STS now. Try again later; the server's log has the reason."""


class ArchiveUnavailable(Unavailable):
    """The server cannot read the archive of the log, which has what was asked for.

    Send the request again later, under the same key. If `detail` names a file, run `archive
    verify`.
    """


class ArchiveNotSet(Unavailable):
    """The database does not have the beginning of the log, and the server was not told where its archive is.

    An operator must start the server with `--archive`.
    """


# ---- End of the written classes.


def of_code(code: str, detail: str, context: dict[str, Any]) -> TimelineError:
    """A recorded refusal, in the class of its code."""
    error_class = _CLASS_OF[code]
    # Past the class's own constructor, which makes the detail that is here already.
    error = error_class.__new__(error_class)
    TimelineError.__init__(error, detail, **context)
    return error


_CLASS_OF: Final[dict[str, type[TimelineError]]] = {
    code: globals()[name] for name, code in _CODES.items() if name in globals()
}
