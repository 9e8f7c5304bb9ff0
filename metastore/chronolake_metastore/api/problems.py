"""Problems (RFC 9457): how every refusal and every failure is answered."""

from __future__ import annotations

import enum
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ExceptionHandlersMap

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import parameters
from chronolake_metastore.api.parameters import KEY_HEADER
from chronolake_model.operations.declaring import ApiOperation
from chronolake_model.problems import MEDIA_TYPE, Problem, ProblemCode, problem

RETRY_AFTER_SECONDS: Final = "1"
BUG: Final = (
    "this is a bug of the server, and its log has the traceback. It is unknown whether the request was "
    "executed: send it again with the same idempotency key"
)

_log = telemetry.logger(__name__)

_BY_STATUS: Final = {
    404: ProblemCode.ROUTE_NOT_FOUND,
    405: ProblemCode.METHOD_NOT_ALLOWED,
    413: ProblemCode.BODY_TOO_LARGE,
}
_WHERE_TO_LOOK: Final = {
    ProblemCode.ROUTE_NOT_FOUND: "; GET /openapi.json lists all addresses",
    ProblemCode.METHOD_NOT_ALLOWED: "; the header Allow lists the methods",
}
_ICEBERG_PATHS: Final = ("/v1/config", "/v1/oauth/tokens")
"""The first requests of Iceberg's clients."""
_OF_ICEBERG: Final = "; the URL for Iceberg's clients is that of this server with /iceberg at its end"
_PARAMETERS: Final = {
    "data": "body",
    "states": "state",
    "actions": "action",
    "after": "from",
    "until": "to",
    "idempotency_key": "Idempotency-Key",
    "chronolake_actor": "Chronolake-Actor",
}
"""Parameters with other names in Python than in a request."""
_ALWAYS: Final = (
    ProblemCode.UNAUTHENTICATED,
    ProblemCode.FORBIDDEN,
    ProblemCode.RATE_LIMITED,
    ProblemCode.INVALID_PARAMETER,
    ProblemCode.INTERNAL_ERROR,
    ProblemCode.DATABASE_UNAVAILABLE,
)
_OF_BODIES: Final = (
    ProblemCode.INVALID_REQUEST,
    ProblemCode.BODY_TOO_SLOW,
    ProblemCode.BODY_TOO_LARGE,
    ProblemCode.UNSUPPORTED_MEDIA_TYPE,
)
_OF_COMMANDS: Final = (
    ProblemCode.IDEMPOTENCY_KEY_REUSED,
    ProblemCode.METASTORE_MOVED,
    ProblemCode.OVERLOADED,
)


def documented(codes: Iterable[ProblemCode]) -> dict[int, ResponseSpec]:
    """Problems of an operation for its OpenAPI, beside those of every operation."""
    by_status: dict[int, list[ProblemCode]] = defaultdict(list)
    for code in dict.fromkeys((*codes, *_ALWAYS)):
        by_status[code.status].append(code)
    return {
        status: ResponseSpec(
            Problem,
            description=" or ".join(f"`{code}`" for code in of_status),
            media_type=MEDIA_TYPE,
            generate_examples=False,
        )
        for status, of_status in sorted(by_status.items())
    }


def of_operation(operation: ApiOperation[Any, Any]) -> dict[int, ResponseSpec]:
    """The problems of an operation for its OpenAPI."""
    of_body = _OF_BODIES if operation.takes_body else ()
    of_command = _OF_COMMANDS if operation.is_command else ()
    return documented((*operation.problems, *of_body, *of_command))


def answer(
    request: Request[Any, Any, Any], code: ProblemCode, detail: str, context: dict[str, Any] | None = None
) -> Response[Problem]:
    """The problem ``code`` as an answer to ``request``."""
    key = parameters.remembered_key(request.scope)
    path = parameters.path_as_sent(request.scope)
    document = problem(code, detail, path, told(code, context or {}), idempotency_key=key)
    headers = _headers(request)
    if code.status in (429, 503) or code is ProblemCode.NOT_PUBLISHED_YET:
        headers["Retry-After"] = RETRY_AFTER_SECONDS
    return Response(document, status_code=code.status, media_type=MEDIA_TYPE, headers=headers)


def told(code: ProblemCode, context: Mapping[str, Any]) -> dict[str, Any]:
    """The context of a problem as callers get it: where the database is, only the server's log says."""
    hidden = "reason" if code is ProblemCode.DATABASE_UNAVAILABLE else None
    return {name: value for name, value in context.items() if name != hidden}


def _headers(request: Request[Any, Any, Any]) -> dict[str, str]:
    key = parameters.remembered_key(request.scope)
    return {} if key is None else {KEY_HEADER: key}


def _refused(request: Request[Any, Any, Any], exc: errors.TimelineError) -> Response[Any]:
    if exc.answer:
        return Response(
            exc.answer, status_code=exc.code.status, media_type=MEDIA_TYPE, headers=_headers(request)
        )
    return answer(request, exc.code, exc.detail, exc.context)


def _invalid(request: Request[Any, Any, Any], exc: ValidationException) -> Response[Problem]:
    extra = exc.extra if isinstance(exc.extra, list) else []
    places = [_place(request, entry) for entry in extra]
    in_body = request.method != "GET" and (
        not extra or any(entry.get("source", "body") == "body" for entry in extra)
    )
    code = ProblemCode.INVALID_REQUEST if in_body else ProblemCode.INVALID_PARAMETER
    return answer(request, code, "; ".join(places) or str(exc.detail))


def _place(request: Request[Any, Any, Any], entry: dict[str, str]) -> str:
    key, message = entry.get("key", ""), entry.get("message", "")
    if message == "'data'":  # how a body that is not there is reported
        return "the request needs a JSON body"
    if message.startswith("Invalid enum value"):
        message += f"; it is one of {', '.join(_words(request, key))}"
    return f"{_PARAMETERS.get(key, key)}: {message}"


def _words(request: Request[Any, Any, Any], parameter: str) -> list[str]:
    """The closed list of words that a parameter of the handler takes."""
    for name, field in request.route_handler.parsed_fn_signature.parameters.items():
        if parameter in (name, getattr(field.kwarg_definition, "name", None)):
            return [str(word) for enum in _enums_in(field.annotation) for word in enum]
    return []


def _enums_in(annotation: object) -> Iterator[type[enum.Enum]]:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _enums_in(part)


def _http(request: Request[Any, Any, Any], exc: HTTPException) -> Response[Problem]:
    code = _BY_STATUS.get(exc.status_code)
    if code is None:
        code = ProblemCode.INVALID_REQUEST if exc.status_code < 500 else ProblemCode.INTERNAL_ERROR
    path = parameters.path_as_sent(request.scope)
    advice = _OF_ICEBERG if path in _ICEBERG_PATHS else _WHERE_TO_LOOK.get(code, "")
    detail = f"{request.method} {path}: {exc.detail}{advice}"
    response = answer(request, code, detail)
    for name, value in (exc.headers or {}).items():
        response.headers[name] = allowed(value.split(", ")) if name.lower() == "allow" else value
    return response


def allowed(methods: Iterable[str]) -> str:
    """The header ``Allow``: a path that takes GET takes HEAD."""
    return ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))


def _bug(request: Request[Any, Any, Any], exc: Exception) -> Response[Problem]:
    _log.error(
        "request failed", method=request.method, path=parameters.path_as_sent(request.scope), exc_info=exc
    )
    return answer(request, ProblemCode.INTERNAL_ERROR, BUG)


HANDLERS: Final[ExceptionHandlersMap] = {
    errors.TimelineError: _refused,
    ValidationException: _invalid,
    HTTPException: _http,
    Exception: _bug,
}


def refused(request: Request[Any, Any, Any], exc: Exception) -> Response[Any]:
    """The answer of the handler in ``HANDLERS`` that Litestar calls for ``exc``."""
    handler = next(HANDLERS[kind] for kind in type(exc).__mro__ if kind in HANDLERS)
    response: Response[Any] = handler(request, exc)
    return response
