"""How an operation of the REST API is declared.

The server's routes and their OpenAPI, the calls of the client, the rights of the service, the reference and the
lists of the tests follow from these declarations (docs/decisions/0078-written-once.md).
"""

from __future__ import annotations

import enum
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from chronolake_model.problems import ProblemCode
from chronolake_model.roles import Right

BodyT = TypeVar("BodyT")
AnswerT = TypeVar("AnswerT")
Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


class OperationKind(enum.Enum):
    """How an operation passes the service of the server (docs/decisions/0076-service-layer.md)."""

    COMMAND = "command"
    """Appends to the log, once for each idempotency key."""
    NOTE = "note"
    """Changes something that is durable but not in the log; it has no key, and may be repeated."""
    READ = "read"
    """Changes nothing."""


class ApiOperation(msgspec.Struct, Generic[BodyT, AnswerT], frozen=True, kw_only=True):
    """An operation: a method at a path, where names in braces are parameters.

    ``body`` is the type of the request's body, and ``NoneType`` if it takes none; ``answer`` likewise.
    """

    kind: OperationKind
    method: Method
    path: str
    summary: str
    tag: str
    """The section of the reference."""
    body: type[BodyT]
    answer: type[AnswerT]
    problems: tuple[ProblemCode, ...]
    """Its own, beside those of every read, body or command."""
    right: Right
    status: int
    """The status of a success. Some commands answer 200 where nothing is created."""
    body_may_be_left_out: bool = False

    @property
    def is_command(self) -> bool:
        """Whether it takes an idempotency key."""
        return self.kind is OperationKind.COMMAND

    @property
    def takes_body(self) -> bool:
        """Whether requests have a body."""
        return self.body is not type(None)


def read(
    path: str,
    summary: str,
    *problems: ProblemCode,
    tag: str,
    answer: type[AnswerT],
    right: Right = Right.READ,
) -> ApiOperation[None, AnswerT]:
    """A GET."""
    return ApiOperation(
        kind=OperationKind.READ,
        method="GET",
        path=path,
        summary=summary,
        tag=tag,
        body=type(None),
        answer=answer,
        problems=problems,
        right=right,
        status=200,
    )


def question(
    path: str,
    summary: str,
    *problems: ProblemCode,
    tag: str,
    body: type[BodyT],
    answer: type[AnswerT],
    right: Right = Right.READ,
) -> ApiOperation[BodyT, AnswerT]:
    """A POST that changes nothing: its parameters are a body."""
    return ApiOperation(
        kind=OperationKind.READ,
        method="POST",
        path=path,
        summary=summary,
        tag=tag,
        body=body,
        answer=answer,
        problems=problems,
        right=right,
        status=_status(answer),
    )


def note(
    method: Method,
    path: str,
    summary: str,
    *problems: ProblemCode,
    tag: str,
    body: type[BodyT],
    answer: type[AnswerT],
    right: Right,
    status: int = 200,
) -> ApiOperation[BodyT, AnswerT]:
    """A change that is durable but not in the log."""
    return ApiOperation(
        kind=OperationKind.NOTE,
        method=method,
        path=path,
        summary=summary,
        tag=tag,
        body=body,
        answer=answer,
        problems=problems,
        right=right,
        status=status,
    )


def command(  # noqa: PLR0913 - a column of the table each
    method: Method,
    path: str,
    summary: str,
    *problems: ProblemCode,
    tag: str,
    body: type[BodyT],
    answer: type[AnswerT],
    right: Right,
    creates: bool = False,
    body_may_be_left_out: bool = False,
) -> ApiOperation[BodyT, AnswerT]:
    """A command. One that ``creates`` something answers 201."""
    return ApiOperation(
        kind=OperationKind.COMMAND,
        method=method,
        path=path,
        summary=summary,
        tag=tag,
        body=body,
        answer=answer,
        problems=problems,
        right=right,
        status=201 if creates else _status(answer),
        body_may_be_left_out=body_may_be_left_out,
    )


def _status(answer: type[Any]) -> int:
    return 204 if answer is type(None) else 200
