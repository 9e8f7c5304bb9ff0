"""Refusals and failures in the dialect of Iceberg: its ErrorModel, with names of its own exceptions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import parameters, problems
from chronolake_metastore.iceberg.catalog import NotReady
from chronolake_metastore.iceberg.schemas import AmbiguousName
from chronolake_model.problems import ProblemCode

PREFIX: Final = "/iceberg"
READ_ONLY: Final = (
    "this catalog is read-only: write to the table through Chronolake, whose tables Iceberg's clients read here"
)
_log = telemetry.logger(__name__)

_TYPES: Final = {
    ProblemCode.TABLE_NOT_FOUND: "NoSuchTableException",
    ProblemCode.NAMESPACE_NOT_FOUND: "NoSuchNamespaceException",
}
_TYPES_BY_STATUS: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    409: "CommitFailedException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
}


def answer(status: int, message: str, kind: str | None = None) -> Response[Any]:
    """An error as the specification has it; ``kind`` is the name of an exception."""
    name = kind or _TYPES_BY_STATUS.get(
        status, "InternalServerError" if status >= 500 else "BadRequestException"
    )
    headers = {"Retry-After": problems.RETRY_AFTER_SECONDS} if status in (429, 503) else {}
    return Response(
        {"error": {"message": message, "type": name, "code": status}},
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


def refused(request: Request[Any, Any, Any], exc: Exception) -> Response[Any]:
    """The answer to an exception of a handler, or of the search for one."""
    match exc:
        case errors.TimelineError():
            return answer(exc.code.status, exc.detail, _TYPES.get(exc.code))
        case errors.ConfigurationError():
            # The storage of the table, which an operator has to look at.
            is_refused = isinstance(exc.__cause__, errors.LocationNotAllowed)
            status = HTTPStatus.UNPROCESSABLE_ENTITY if is_refused else HTTPStatus.SERVICE_UNAVAILABLE
            return answer(status, str(exc))
        case NotReady():
            return answer(HTTPStatus.SERVICE_UNAVAILABLE, str(exc))
        case AmbiguousName():
            return answer(
                HTTPStatus.BAD_REQUEST,
                f"the table has files without field ids, and the name {exc.args[0]!r} stood for two columns in "
                "them, which Iceberg's readers cannot tell apart; rewrite those files (cluster the table)",
            )
        case HTTPException():
            return _http(request, exc)
        case _:
            path = parameters.path_as_sent(request.scope)
            _log.error("request failed", method=request.method, path=path, exc_info=exc)
            return answer(
                HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug of the server, and its log has the traceback"
            )


def _http(request: Request[Any, Any, Any], exc: HTTPException) -> Response[Any]:
    is_read = request.method in ("GET", "HEAD")
    match exc.status_code:
        case HTTPStatus.METHOD_NOT_ALLOWED | HTTPStatus.NOT_FOUND if not is_read:
            return answer(HTTPStatus.NOT_ACCEPTABLE, READ_ONLY)
        case HTTPStatus.NOT_FOUND:
            path = parameters.path_as_sent(request.scope)
            detail = f"{request.method} {path}: the catalog has no such endpoint"
            return answer(HTTPStatus.NOT_FOUND, f"{detail}; GET /iceberg/v1/config lists them")
        case _:
            return answer(exc.status_code, exc.detail)


def is_of_iceberg(path: str) -> bool:
    """Whether a request to this path is answered in the dialect of Iceberg."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def by_dialect() -> ExceptionHandlersMap:
    """The handlers of a server with both dialects: requests below ``/iceberg`` get its errors."""

    def handler(request: Request[Any, Any, Any], exc: Exception) -> Response[Any]:
        of_dialect = refused if is_of_iceberg(request.scope["path"]) else problems.refused
        return of_dialect(request, exc)

    return dict.fromkeys(problems.HANDLERS, handler)
