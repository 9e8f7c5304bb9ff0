"""The table of problems (RFC 9457): each code with its status, its title and the advice for the caller.

The classes of errors of server and client are written from it by ``tools/write_errors.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "https://chronolake.dev/problems/"


class ProblemCode(enum.StrEnum):
    """Why a request was refused. A code, once released, keeps its meaning.

    ``advice`` is for the reference of REST and for readers of the client's errors, in Markdown.
    """

    status: int
    title: str  # type: ignore[assignment]  # str.title(): it is never called on a code
    advice: str

    INVALID_REQUEST = (
        "invalid-request",
        400,
        "The request's body does not have the documented form",
        "Correct the body; `detail` names the field.",
    )
    INVALID_PARAMETER = (
        "invalid-parameter",
        400,
        "A parameter in the path, query or header is not valid",
        "Correct the parameter; `detail` names it.",
    )
    INVALID_CURSOR = (
        "invalid-cursor",
        400,
        "The cursor does not come from this list",
        "Start the list again without a cursor.",
    )
    UNAUTHENTICATED = (
        "unauthenticated",
        401,
        "The request has no token that the server accepts",
        "Send a valid token: `Authorization: Bearer …`. The answer is the same for each reason.",
    )
    FORBIDDEN = (
        "forbidden",
        403,
        "The caller may not do this",
        "Ask an administrator for the right; `detail` names it.",
    )
    ROUTE_NOT_FOUND = (
        "route-not-found",
        404,
        "There is nothing at this address",
        "Check the path; `/openapi.json` lists all of them.",
    )
    NAMESPACE_NOT_FOUND = (
        "namespace-not-found",
        404,
        "There is no such namespace",
        "Create the namespace first.",
    )
    TABLE_NOT_FOUND = (
        "table-not-found",
        404,
        "There is no such table",
        "Create the table first, or check its name.",
    )
    INSTANT_NOT_FOUND = (
        "instant-not-found",
        404,
        "The table's timeline has no such instant",
        "Check the requested time and the table.",
    )
    SCHEMA_NOT_FOUND = (
        "schema-not-found",
        404,
        "The table's schema has no such version",
        "List the versions of the table's schema.",
    )
    READER_NOT_FOUND = (
        "reader-not-found",
        404,
        "The table has no such lease of a reader",
        (
            "Take another lease, and begin to read again: this one has ended, or never existed, and a "
            "clean may have deleted files of its time."
        ),
    )
    STREAM_NOT_FOUND = (
        "stream-not-found",
        404,
        "The table has no such stream",
        "Open the stream first, or check its name.",
    )
    OUTCOME_NOT_FOUND = (
        "outcome-not-found",
        404,
        "No request with this idempotency key was executed so far",
        "It may still be under way. Send it again under its key: it runs once.",
    )
    METHOD_NOT_ALLOWED = (
        "method-not-allowed",
        405,
        "This address does not accept this method",
        "Use a method that the path takes; `/openapi.json` lists them.",
    )
    BODY_TOO_SLOW = (
        "body-too-slow",
        408,
        "The request's body came too slowly",
        "Send the request again, faster or in smaller parts. It was not executed.",
    )
    NAMESPACE_EXISTS = (
        "namespace-exists",
        409,
        "There is a namespace of this name already",
        "Use the namespace, or choose another name.",
    )
    NAMESPACE_NOT_EMPTY = (
        "namespace-not-empty",
        409,
        "The namespace still has tables",
        "Drop the namespace's tables first.",
    )
    TABLE_EXISTS = (
        "table-exists",
        409,
        "There is a table of this name already",
        "Use the table, or choose another name.",
    )
    BASE_PATH_TAKEN = (
        "base-path-taken",
        409,
        "The base path belongs to another table, or overlaps with that of one",
        (
            "Choose another base path. If `context.dropped`, `reuse_base_path` takes it over from the "
            "dropped table."
        ),
    )
    BASE_PATH_SHARED = (
        "base-path-shared",
        409,
        "Nothing is deleted: the base path may belong to another table too",
        "See `detail` for the other table; drop one of them, or load it elsewhere.",
    )
    METASTORE_MOVED = (
        "metastore-moved",
        409,
        "The server's database is a copy, or a copy continues it",
        (
            "Send the request to a server of the database that has the claims. If it is to be this one, "
            "run `chronolake-metastore claim`."
        ),
    )
    ILLEGAL_TRANSITION = (
        "illegal-transition",
        409,
        "The instant's present state does not allow this",
        "Check the present state, `context.state`.",
    )
    LEASE_LIVE = (
        "lease-live",
        409,
        "Another writer or publisher still holds its lease",
        "Ask the writer or publisher, or wait for `context.lease_seconds_left` seconds.",
    )
    WRITE_CONFLICT = (
        "write-conflict",
        409,
        "Another instant wrote the same file groups first",
        (
            "Roll back, read as of `context.rebase_on` or later, write again. `context.winner` is the "
            "instant that won, `context.file_groups` the file groups in common."
        ),
    )
    UNRECONCILED_MARKERS = (
        "unreconciled-markers",
        409,
        "Files that the instant marked are neither published nor reported as deleted",
        (
            "Delete the files in `context`, report that (`POST …/deletions`); complete, new key. At a "
            "checkpoint of a stream first make sure that all tasks have passed its barrier: a slow task "
            "may still write such a file."
        ),
    )
    UNDELETED_FILES = (
        "undeleted-files",
        409,
        "Files that the plan names are not reported as deleted",
        "Delete the files of the plan, report that, and complete again; `context` has their number.",
    )
    SAVEPOINTED = (
        "savepointed",
        409,
        "A savepoint pins the instant",
        "Release the savepoint first; `context` names it.",
    )
    INCOMPATIBLE_SCHEMA = (
        "incompatible-schema",
        409,
        "The table's schema cannot be changed in this way",
        "Request another change; `detail` says why, and what is allowed.",
    )
    SCHEMA_CHANGED = (
        "schema-changed",
        409,
        "The table's schema has another version now",
        "Read schema version `context.schema_version`, and repeat the change.",
    )
    NOT_PUBLISHED = (
        "not-published",
        409,
        "The table is not published for Hudi's readers now",
        "Wait; `detail` says why nothing is to be published.",
    )
    NOT_PUBLISHED_YET = (
        "not-published-yet",
        409,
        "The plan is not published for Hudi's readers yet; try again a little later",
        "Request the compaction first; take it inflight a little later. `context` has the versions.",
    )
    PUBLICATION_FENCED = (
        "publication-fenced",
        409,
        "Another publisher publishes the table now",
        "Stop, or take the lease again.",
    )
    STREAM_FENCED = (
        "stream-fenced",
        409,
        "The stream was opened again, or closed; its earlier writers must stop",
        "Stop: another job, or another attempt of the task, has taken over.",
    )
    CHECKPOINT_PASSED = (
        "checkpoint-passed",
        409,
        "The stream is past this checkpoint",
        "Ask with the id of the last barrier that the task has passed.",
    )
    CHECKPOINT_INCOMPLETE = (
        "checkpoint-incomplete",
        409,
        "Tasks of the stream have not reported all of their files",
        (
            "Report the last batches of the tasks in `context`, and acknowledge again. If the tasks are "
            "gone, restore the job: open the stream with `restored_checkpoint`."
        ),
    )
    UNKNOWN_CHECKPOINT = (
        "unknown-checkpoint",
        409,
        "The stream has seen no checkpoint near this id",
        "Acknowledge with the id that the engine gave to the checkpoint.",
    )
    TOO_MANY_LEASES = (
        "too-many-leases",
        409,
        "The caller has too many leases of the table as a reader",
        "End those that are not needed, or take one when some have expired.",
    )
    CREDENTIALS_NOT_VENDED = (
        "credentials-not-vended",
        409,
        "The server gives no keys for the table's storage",
        "Use keys of your own; `detail` says why.",
    )
    INSTANT_NOT_YET = (
        "instant-not-yet",
        409,
        "The stream gives no new instant yet; ask again a little later",
        "Buffer, and send the same request again when a checkpoint is complete.",
    )
    MAY_CONFLICT = (
        "may-conflict",
        409,
        "Completing could conflict later; only an instant in blocking mode may do this",
        "Write log files or another file group, or ask for instants with `blocking`.",
    )
    INSTANT_ROLLED_BACK = (
        "instant-rolled-back",
        410,
        "The instant was rolled back; its writer must stop",
        "Stop writing; begin another instant.",
    )
    HISTORY_CLEANED = (
        "history-cleaned",
        410,
        "The table's history of that time was cleaned",
        (
            "Use `first_servable_time` of the `context`, which is also the meaning of `earliest`, or a "
            "later time. A reader of changes begins anew: the snapshot as of `earliest`, then the changes "
            "from it."
        ),
    )
    BODY_TOO_LARGE = (
        "body-too-large",
        413,
        "The request's body is larger than the server accepts",
        "Send less, or raise the server's `--max-body-bytes`.",
    )
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported-media-type",
        415,
        "The server does not accept this type of body",
        "Send JSON in UTF-8, with `Content-Type: application/json`.",
    )
    IDEMPOTENCY_KEY_REUSED = (
        "idempotency-key-reused",
        422,
        "The idempotency key belongs to another request",
        "Use a new key for a new request.",
    )
    INVALID_TABLE = (
        "invalid-table",
        422,
        "The table cannot have this definition or history",
        "`detail` says what is wrong, and what to do.",
    )
    LOCATION_NOT_ALLOWED = (
        "location-not-allowed",
        422,
        "The namespace may not have tables at this base path",
        (
            "Choose a base path in one of `context.locations`, or ask the operator of the server to run the "
            "command in `detail`."
        ),
    )
    INVALID_WRITE_STAT = (
        "invalid-write-stat",
        422,
        "A write stat does not fit its instant",
        "Correct the write stat; `detail` says which and why.",
    )
    INVALID_MARKER = (
        "invalid-marker",
        422,
        "The marker does not name a data file of its instant",
        "Correct the marker; `detail` says which and why.",
    )
    INVALID_DELETION = (
        "invalid-deletion",
        422,
        "A file may not be reported as deleted",
        "Report only files that this instant may delete; `detail` names the file.",
    )
    INVALID_PLAN = (
        "invalid-plan",
        422,
        "The plan or the named file groups do not fit the table",
        "Correct the plan; `detail` says what does not fit.",
    )
    INVALID_FILTER = (
        "invalid-filter",
        422,
        "The filter does not fit the table's columns",
        "Correct the filter at `context.place`; `detail` says what is expected there.",
    )
    ACTION_NOT_SUPPORTED = (
        "action-not-supported",
        422,
        "The table does not take this action",
        "Use an action of the table's type; `detail` says why.",
    )
    TOO_MANY_STREAMS = (
        "too-many-streams",
        429,
        "The caller has too many open streams",
        "Close one, or wait for the seconds in `Retry-After`.",
    )
    RATE_LIMITED = (
        "rate-limited",
        429,
        "The caller sends too many requests",
        "Send it again after the seconds in `Retry-After`.",
    )
    INTERNAL_ERROR = (
        "internal-error",
        500,
        "The server failed because of a bug",
        "See the server's log. Send it again under the same key: it runs at most once.",
    )
    OVERLOADED = (
        "overloaded",
        503,
        "The server has too many waiting requests",
        "Send the request again later, under the same key.",
    )
    DATABASE_UNAVAILABLE = (
        "database-unavailable",
        503,
        "The server cannot reach its database",
        "Send it again under the same key; see the server's log.",
    )
    CREDENTIALS_UNAVAILABLE = (
        "credentials-unavailable",
        503,
        "The server gets no keys from STS now",
        "Try again later; the server's log has the reason.",
    )
    ARCHIVE_UNAVAILABLE = (
        "archive-unavailable",
        503,
        "The server cannot read the archive of the log, which has what was asked for",
        "Send the request again later, under the same key. If `detail` names a file, run `archive verify`.",
    )
    ARCHIVE_NOT_SET = (
        "archive-not-set",
        503,
        "The database does not have the beginning of the log, and the server was not told where its archive is",
        "An operator must start the server with `--archive`.",
    )

    def __new__(cls, code: str, status: int, title: str, advice: str) -> ProblemCode:
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.title = title
        member.advice = advice
        return member

    @property
    def class_name(self) -> str:
        """The name of its class of errors, in server and client: ``TableNotFound``."""
        return "".join(word.capitalize() for word in self.split("-"))


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem document (RFC 9457), as ``application/problem+json``.

    ``code`` is the stable name to program against; ``detail`` says what failed, with which id, and what to do.
    ``context`` has the same facts for programs (the present state, the winner of a conflict).
    ``idempotency_key`` is that of the refused command, also if the server made it.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    instance: str | None = None
    context: dict[str, Any] = {}
    idempotency_key: str | None = None


def problem(
    code: ProblemCode,
    detail: str,
    instance: str,
    context: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
) -> Problem:
    """The problem ``code`` of a request to the path ``instance``."""
    return Problem(
        type=TYPE_PREFIX + code,
        title=code.title,
        status=code.status,
        code=code,
        detail=detail,
        instance=instance,
        context=dict(context),
        idempotency_key=idempotency_key,
    )
