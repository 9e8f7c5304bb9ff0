"""Why a request is refused: one tree, each leaf with its stable code.

TimelineError                      the request cannot be carried out; answered as a problem (RFC 9457)
|__InvalidParameter                invalid-parameter
|__InvalidCursor                   invalid-cursor
|__NotFound
|  |__NamespaceNotFound            namespace-not-found
|  |__TableNotFound                table-not-found
|  |__InstantNotFound              instant-not-found
|__Conflict
|  |__NamespaceExists              namespace-exists
|  |__NamespaceNotEmpty            namespace-not-empty
|  |__TableExists                  table-exists
|  |__IllegalTransition            illegal-transition
|  |__LeaseLive                    lease-live
|  |__WriteConflict                write-conflict
|__InstantRolledBack               instant-rolled-back
|__Unprocessable
|  |__IdempotencyKeyReused         idempotency-key-reused
|  |__InvalidTable                 invalid-table
|  |__InvalidWriteStat             invalid-write-stat
|  |__ActionNotSupported           action-not-supported
|__Unavailable                     nothing was decided; the same request may be sent again
   |__Overloaded                   overloaded
   |__DatabaseUnavailable          database-unavailable
ConfigurationError                 the server cannot start as it is set up; said to whoever starts it
"""

from __future__ import annotations

from typing import Any, ClassVar

from chronolake_model.problems import ProblemCode


class TimelineError(Exception):
    """An expected refusal. ``context`` is what a program may need of it, in the field's words."""

    code: ClassVar[ProblemCode]

    def __init__(self, detail: str, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context


class InvalidParameter(TimelineError):
    code = ProblemCode.INVALID_PARAMETER


class InvalidCursor(TimelineError):
    code = ProblemCode.INVALID_CURSOR


class NotFound(TimelineError):
    """What the request names is not there."""


class NamespaceNotFound(NotFound):
    code = ProblemCode.NAMESPACE_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no namespace {name!r}; POST /v1/namespaces makes one", namespace=name)


class TableNotFound(NotFound):
    code = ProblemCode.TABLE_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no table {name!r}; POST /v1/tables makes one", table=name)


class InstantNotFound(NotFound):
    code = ProblemCode.INSTANT_NOT_FOUND

    def __init__(self, table: str, requested_time: str) -> None:
        super().__init__(
            f"the timeline of {table!r} has no instant requested at {requested_time}",
            table=table,
            requested_time=requested_time,
        )


class Conflict(TimelineError):
    """The present state does not allow the request."""


class NamespaceExists(Conflict):
    code = ProblemCode.NAMESPACE_EXISTS


class NamespaceNotEmpty(Conflict):
    code = ProblemCode.NAMESPACE_NOT_EMPTY


class TableExists(Conflict):
    code = ProblemCode.TABLE_EXISTS


class IllegalTransition(Conflict):
    code = ProblemCode.ILLEGAL_TRANSITION


class LeaseLive(Conflict):
    code = ProblemCode.LEASE_LIVE


class WriteConflict(Conflict):
    code = ProblemCode.WRITE_CONFLICT


class InstantRolledBack(TimelineError):
    code = ProblemCode.INSTANT_ROLLED_BACK


class Unprocessable(TimelineError):
    """Well formed, but it contradicts itself or what is known."""


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


class ActionNotSupported(Unprocessable):
    code = ProblemCode.ACTION_NOT_SUPPORTED


class Unavailable(TimelineError):
    """Nothing was decided; the same request may be sent again, with the same idempotency key."""


class Overloaded(Unavailable):
    code = ProblemCode.OVERLOADED


class DatabaseUnavailable(Unavailable):
    code = ProblemCode.DATABASE_UNAVAILABLE


class ConfigurationError(Exception):
    """The server cannot start as it is set up; the message says what to change."""
