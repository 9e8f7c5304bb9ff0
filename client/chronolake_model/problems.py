"""The closed list of problems (RFC 9457): each code with its status and its title."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "https://chronolake.dev/problems/"


class ProblemCode(enum.StrEnum):
    """Why a request was refused. A code, once released, keeps its meaning."""

    status: int
    title: str  # type: ignore[assignment]  # str.title(): it is never called on a code

    INVALID_REQUEST = "invalid-request", 400, "The request's body does not have the documented form"
    INVALID_PARAMETER = "invalid-parameter", 400, "A parameter in the path, query or header is not valid"
    INVALID_CURSOR = "invalid-cursor", 400, "The cursor does not come from this list"
    ROUTE_NOT_FOUND = "route-not-found", 404, "There is nothing at this address"
    NAMESPACE_NOT_FOUND = "namespace-not-found", 404, "There is no such namespace"
    TABLE_NOT_FOUND = "table-not-found", 404, "There is no such table"
    INSTANT_NOT_FOUND = "instant-not-found", 404, "The table's timeline has no such instant"
    SCHEMA_NOT_FOUND = "schema-not-found", 404, "The table's schema has no such version"
    READER_NOT_FOUND = "reader-not-found", 404, "The table has no such lease of a reader"
    STREAM_NOT_FOUND = "stream-not-found", 404, "The table has no such stream"
    OUTCOME_NOT_FOUND = "outcome-not-found", 404, "No request with this idempotency key was executed so far"
    METHOD_NOT_ALLOWED = "method-not-allowed", 405, "This address does not accept this method"
    BODY_TOO_SLOW = "body-too-slow", 408, "The request's body came too slowly"
    NAMESPACE_EXISTS = "namespace-exists", 409, "There is a namespace of this name already"
    NAMESPACE_NOT_EMPTY = "namespace-not-empty", 409, "The namespace still has tables"
    TABLE_EXISTS = "table-exists", 409, "There is a table of this name already"
    BASE_PATH_TAKEN = (
        "base-path-taken",
        409,
        "The base path belongs to another table, or overlaps with that of one",
    )
    BASE_PATH_SHARED = (
        "base-path-shared",
        409,
        "Nothing is deleted: the base path may belong to another table too",
    )
    METASTORE_MOVED = (
        "metastore-moved",
        409,
        "The server's database is a copy, or a copy continues it",
    )
    ILLEGAL_TRANSITION = "illegal-transition", 409, "The instant's present state does not allow this"
    LEASE_LIVE = "lease-live", 409, "Another writer or publisher still holds its lease"
    WRITE_CONFLICT = "write-conflict", 409, "Another instant wrote the same file groups first"
    UNRECONCILED_MARKERS = (
        "unreconciled-markers",
        409,
        "Files that the instant marked are neither published nor reported as deleted",
    )
    UNDELETED_FILES = "undeleted-files", 409, "Files that the plan names are not reported as deleted"
    SAVEPOINTED = "savepointed", 409, "A savepoint pins the instant"
    INCOMPATIBLE_SCHEMA = "incompatible-schema", 409, "The table's schema cannot be changed in this way"
    SCHEMA_CHANGED = "schema-changed", 409, "The table's schema has another version now"
    NOT_PUBLISHED = "not-published", 409, "The table is not published for Hudi's readers now"
    NOT_PUBLISHED_YET = (
        "not-published-yet",
        409,
        "The plan is not published for Hudi's readers yet; try again a little later",
    )
    PUBLICATION_FENCED = "publication-fenced", 409, "Another publisher publishes the table now"
    STREAM_FENCED = (
        "stream-fenced",
        409,
        "The stream was opened again, or closed; its earlier writers must stop",
    )
    CHECKPOINT_PASSED = "checkpoint-passed", 409, "The stream is past this checkpoint"
    CHECKPOINT_INCOMPLETE = (
        "checkpoint-incomplete",
        409,
        "Tasks of the stream have not reported all of their files",
    )
    UNKNOWN_CHECKPOINT = "unknown-checkpoint", 409, "The stream has seen no checkpoint near this id"
    INSTANT_NOT_YET = "instant-not-yet", 409, "The stream gives no new instant yet; ask again a little later"
    MAY_CONFLICT = (
        "may-conflict",
        409,
        "Completing could conflict later; only an instant in blocking mode may do this",
    )
    INSTANT_ROLLED_BACK = "instant-rolled-back", 410, "The instant was rolled back; its writer must stop"
    HISTORY_CLEANED = "history-cleaned", 410, "The table's history of that time was cleaned"
    BODY_TOO_LARGE = "body-too-large", 413, "The request's body is larger than the server accepts"
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", 415, "The server does not accept this type of body"
    IDEMPOTENCY_KEY_REUSED = "idempotency-key-reused", 422, "The idempotency key belongs to another request"
    INVALID_TABLE = "invalid-table", 422, "The table cannot have this definition or history"
    INVALID_WRITE_STAT = "invalid-write-stat", 422, "A write stat does not fit its instant"
    INVALID_MARKER = "invalid-marker", 422, "The marker does not name a data file of its instant"
    INVALID_DELETION = "invalid-deletion", 422, "A file may not be reported as deleted"
    INVALID_PLAN = "invalid-plan", 422, "The plan or the named file groups do not fit the table"
    INVALID_FILTER = "invalid-filter", 422, "The filter does not fit the table's columns"
    ACTION_NOT_SUPPORTED = "action-not-supported", 422, "The table does not take this action"
    TOO_MANY_STREAMS = "too-many-streams", 429, "The client has too many open streams"
    INTERNAL_ERROR = "internal-error", 500, "The server failed because of a bug"
    OVERLOADED = "overloaded", 503, "The server has too many waiting requests"
    DATABASE_UNAVAILABLE = "database-unavailable", 503, "The server cannot reach its database"

    def __new__(cls, code: str, status: int, title: str) -> ProblemCode:
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.title = title
        return member


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
