"""The errors of the client, as one tree; each has a stable ``code``.

    ChronolakeError
    ├── ConnectionFailed            no answer: server unreachable, connection lost, or timeout
    ├── ServerError                 the server failed, or the answer is not from this API
    ├── StorageFailed               the table's storage, not the server, refused or failed
    ├── BuffersFull                 a streaming task cannot write yet: give it the rows again later
    ├── ServerUnavailable           429, 502, 503, 504: temporary; the client has retried already
    └── RequestRefused              the server refused the request: nothing was changed
        ├── InvalidRequest          the request is invalid: correct it
        ├── AccessRefused           the server does not know the caller, or the caller lacks a right
        ├── NotFound                the object of the request does not exist
        └── Conflict                the request is valid, but the present state does not allow it

Each code of ``ProblemCode`` has its class below one of these, by its status.

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


class RequestRefused(ChronolakeError):
    """The server refused the request, which changed nothing."""


class InvalidRequest(RequestRefused):
    """The request itself is invalid."""


class AccessRefused(RequestRefused):
    """The server does not know the caller, or the caller lacks a right."""


class NotFound(RequestRefused):
    """The object of the request does not exist."""


class Conflict(RequestRefused):
    """The request is valid, but the present state does not allow it."""


# ---- Written from chronolake_model.problems by tools/write_errors.py (`make sync`): do not edit.


class InvalidParameter(InvalidRequest):
    """A parameter in the path, query or header is not valid. Correct the parameter; `detail` names it."""


class InvalidCursor(InvalidRequest):
    """The cursor does not come from this list. Start the list again without a cursor."""


class Unauthenticated(AccessRefused):
    """The request has no token that the server accepts.

    Send a valid token: `Authorization: Bearer …`. The answer is the same for each reason.
    """


class Forbidden(AccessRefused):
    """The caller may not do this. Ask an administrator for the right; `detail` names it."""


class RouteNotFound(NotFound):
    """There is nothing at this address. Check the path; `/openapi.json` lists all of them."""


class NamespaceNotFound(NotFound):
    """There is no such namespace. Create the namespace first."""


class TableNotFound(NotFound):
    """There is no such table. Create the table first, or check its name."""


class InstantNotFound(NotFound):
    """The table's timeline has no such instant. Check the requested time and the table."""


class SchemaNotFound(NotFound):
    """The table's schema has no such version. List the versions of the table's schema."""


class ReaderNotFound(NotFound):
    """The table has no such lease of a reader.

    Take another lease, and begin to read again: this one has ended, or never existed, and a clean
    may have deleted files of its time.
    """


class StreamNotFound(NotFound):
    """The table has no such stream. Open the stream first, or check its name."""


class OutcomeNotFound(NotFound):
    """No request with this idempotency key was executed so far.

    It may still be under way. Send it again under its key: it runs once.
    """


class MethodNotAllowed(InvalidRequest):
    """This address does not accept this method.

    Use a method that the path takes; `/openapi.json` lists them.
    """


class BodyTooSlow(InvalidRequest):
    """The request's body came too slowly.

    Send the request again, faster or in smaller parts. It was not executed.
    """


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


class MetastoreMoved(Conflict):
    """The server's database is a copy, or a copy continues it.

    Send the request to a server of the database that has the claims. If it is to be this one, run
    `chronolake-metastore claim`.
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


class NotPublished(Conflict):
    """The table is not published for Hudi's readers now.

    Wait; `detail` says why nothing is to be published.
    """


class NotPublishedYet(Conflict):
    """The plan is not published for Hudi's readers yet; try again a little later.

    Request the compaction first; take it inflight a little later. `context` has the versions.
    """


class PublicationFenced(Conflict):
    """Another publisher publishes the table now. Stop, or take the lease again."""


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


class TooManyLeases(Conflict):
    """The caller has too many leases of the table as a reader.

    End those that are not needed, or take one when some have expired.
    """


class CredentialsNotVended(Conflict):
    """The server gives no keys for the table's storage. Use keys of your own; `detail` says why."""


class InstantNotYet(Conflict):
    """The stream gives no new instant yet; ask again a little later.

    Buffer, and send the same request again when a checkpoint is complete.
    """


class MayConflict(Conflict):
    """Completing could conflict later; only an instant in blocking mode may do this.

    Write log files or another file group, or ask for instants with `blocking`.
    """


class InstantRolledBack(Conflict):
    """The instant was rolled back; its writer must stop. Stop writing; begin another instant."""


class HistoryCleaned(Conflict):
    """The table's history of that time was cleaned.

    Use `first_servable_time` of the `context`, which is also the meaning of `earliest`, or a later
    time. A reader of changes begins anew: the snapshot as of `earliest`, then the changes from it.
    """


class BodyTooLarge(InvalidRequest):
    """The request's body is larger than the server accepts.

    Send less, or raise the server's `--max-body-bytes`.
    """


class UnsupportedMediaType(InvalidRequest):
    """The server does not accept this type of body.

    Send JSON in UTF-8, with `Content-Type: application/json`.
    """


class IdempotencyKeyReused(InvalidRequest):
    """The idempotency key belongs to another request. Use a new key for a new request."""


class InvalidTable(InvalidRequest):
    """The table cannot have this definition or history. `detail` says what is wrong, and what to do."""


class LocationNotAllowed(InvalidRequest):
    """The namespace may not have tables at this base path.

    Choose a base path in one of `context.locations`, or ask the operator of the server to run the
    command in `detail`.
    """


class InvalidWriteStat(InvalidRequest):
    """A write stat does not fit its instant. Correct the write stat; `detail` says which and why."""


class InvalidMarker(InvalidRequest):
    """The marker does not name a data file of its instant.

    Correct the marker; `detail` says which and why.
    """


class InvalidDeletion(InvalidRequest):
    """A file may not be reported as deleted.

    Report only files that this instant may delete; `detail` names the file.
    """


class InvalidPlan(InvalidRequest):
    """The plan or the named file groups do not fit the table.

    Correct the plan; `detail` says what does not fit.
    """


class InvalidFilter(InvalidRequest):
    """The filter does not fit the table's columns.

    Correct the filter at `context.place`; `detail` says what is expected there.
    """


class ActionNotSupported(InvalidRequest):
    """The table does not take this action. Use an action of the table's type; `detail` says why."""


class TooManyStreams(ServerUnavailable):
    """The caller has too many open streams. Close one, or wait for the seconds in `Retry-After`."""


class RateLimited(ServerUnavailable):
    """The caller sends too many requests. Send it again after the seconds in `Retry-After`."""


class InternalError(ServerError):
    """The server failed because of a bug.

    See the server's log. Send it again under the same key: it runs at most once.
    """


class Overloaded(ServerUnavailable):
    """The server has too many waiting requests. Send the request again later, under the same key."""


class DatabaseUnavailable(ServerUnavailable):
    """The server cannot reach its database. Send it again under the same key; see the server's log."""


class CredentialsUnavailable(ServerUnavailable):
    """The server gets no keys from STS now. Try again later; the server's log has the reason."""


class ArchiveUnavailable(ServerUnavailable):
    """The server cannot read the archive of the log, which has what was asked for.

    Send the request again later, under the same key. If `detail` names a file, run `archive
    verify`.
    """


class ArchiveNotSet(ServerUnavailable):
    """The database does not have the beginning of the log, and the server was not told where its archive is.

    An operator must start the server with `--archive`.
    """


# ---- End of the written classes.

_CLASS_OF: dict[str, type[ChronolakeError]] = {code: globals()[code.class_name] for code in ProblemCode}
_CLASS_OF_STATUS: dict[int, type[ChronolakeError]] = {
    404: NotFound,
    409: Conflict,
    410: Conflict,
    429: ServerUnavailable,
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
