"""/v1/outcomes/{key}"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from litestar import Request
from litestar.di import NamedDependency
from litestar.params import FromPath

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.routes import route
from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.domain.logs import answer_again
from chronolake_metastore.domain.subjects import key_in
from chronolake_metastore.queries import outcomes as queries
from chronolake_model import operations
from chronolake_model.events import Outcome
from chronolake_model.times import to_datetime


@route(operations.catalog.GET_OUTCOME)
async def get_outcome(
    key: FromPath[Path],
    request: Request[Any, Any, Any],
    caller: NamedDependency[Caller],
) -> Outcome:
    """The answer that a request got under its idempotency key, a success or a refusal.

    404 means that the request was not executed *so far*: it may still be under way. For a definite answer, send
    the same request again under its key.
    """
    outcome = await caller.read(queries.get, parameters.header("key", _exact(request)))
    recorded, body = answer_again(outcome, rendering.V1)
    # The bytes are embedded as they are: decoding them would lose digits of totals beyond 64 bits.
    answer = cast("dict[str, Any] | None", msgspec.Raw(body) if body else None)
    return Outcome(
        request_id=key_in(outcome.request_id),
        status=rendering.status_of(recorded),
        answer=answer,
        table=outcome.table,
        version=outcome.version,
        recorded_at=None if outcome.recorded_at is None else to_datetime(outcome.recorded_at),
    )


def _exact(request: Request[Any, Any, Any]) -> str:
    """The key as it was sent: the path that the handler gets has lost double, leading and trailing slashes."""
    raw: bytes = request.scope["raw_path"]
    text = raw.decode(errors="surrogateescape").partition("/outcomes/")[2]
    return unquote(text, errors="surrogateescape")
