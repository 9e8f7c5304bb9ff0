"""Refusals outside of the routes: of a request that reaches no handler, or whose handler is late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from litestar.types import HTTPScope, Send

from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.iceberg import refusals
from chronolake_metastore.api.parameters import KEY_HEADER
from chronolake_model.problems import MEDIA_TYPE, ProblemCode, problem

RETRY_AFTER: Final = (b"retry-after", problems.RETRY_AFTER_SECONDS.encode())


async def refuse(
    scope: HTTPScope,
    send: Send,
    code: ProblemCode,
    detail: str,
    *,
    header: tuple[bytes, bytes] | None = None,
    context: Mapping[str, Any] | None = None,
) -> None:
    """Answer the request with a problem, or below ``/iceberg`` with an error of that dialect."""
    key = parameters.remembered_key(scope)
    document: Any
    if refusals.is_of_iceberg(scope["path"]):
        document, media_type = refusals.answer(code.status, detail).content, "application/json"
    else:
        path = parameters.path_as_sent(scope)
        document = problem(code, detail, path, problems.told(code, context or {}), idempotency_key=key)
        media_type = MEDIA_TYPE
    body = b"" if scope["method"] == "HEAD" else msgspec.json.encode(document)
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", b"%d" % len(body)),
        *([] if header is None else [header]),
        *([] if key is None else [(KEY_HEADER.lower().encode(), key.encode())]),
    ]
    await send({"type": "http.response.start", "status": code.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
