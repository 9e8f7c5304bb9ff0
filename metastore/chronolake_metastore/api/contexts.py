"""From a request to its context, and from the answer of a command to a response.

A handler takes the context as ``caller`` if it executes a command, which has an idempotency key, and else as
``ctx``.
"""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from litestar import Request, Response
from litestar.types import HTTPScope

from chronolake_metastore.api import addresses, parameters, problems
from chronolake_metastore.api.parameters import ACTOR_HEADER, KEY_HEADER, ActorHeader, IdempotencyKey
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.service.service import Service

ANONYMOUS = "anonymous"


def provide_caller(
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    chronolake_actor: ActorHeader = None,
) -> Context:
    """The context of a command that takes Litestar's path."""
    return of_command(request.scope, idempotency_key, chronolake_actor, parameters.expected_table(request))


def provide_context(request: Request[Any, Any, Any]) -> Context:
    """The context of a note or a read that takes Litestar's path."""
    actor = request.headers.get(ACTOR_HEADER)
    return of_request(request.scope, actor, parameters.expected_table(request))


def of_command(scope: HTTPScope, key: str | None, actor: str | None, table_id: UUID | None) -> Context:
    """The context of a command; a command without a key gets one of its own.

    With this key the command is executed only once, also if the database fails meanwhile.
    """
    request_id = _new_id() if key is None else parameters.header(KEY_HEADER, key)
    problems.remember_key(scope, request_id)
    return _context(scope, request_id, actor, table_id)


def of_request(scope: HTTPScope, actor: str | None, table_id: UUID | None) -> Context:
    """The context of a request that is no command."""
    return _context(scope, _new_id(), actor, table_id)


def _new_id() -> str:
    return f"server-{uuid.uuid4()}"


def _context(scope: HTTPScope, request_id: str, actor: str | None, table_id: UUID | None) -> Context:
    client = scope["client"]
    return Context(
        actor=ANONYMOUS if actor is None else parameters.header(ACTOR_HEADER, actor),
        request_id=request_id,
        # Where the connection comes from: behind a proxy that is the proxy.
        address=None if client is None else client[0],
        path=addresses.sent(scope),
        table_id=table_id,
    )


async def execute(service: Service, caller: Context, command: Command) -> Response[Any]:
    """Execute ``command``, and answer when it is durable."""
    answer = await service.execute(caller, command)
    # A caller that sent no key may ask for the outcome under the one that the server made up.
    headers = {KEY_HEADER: caller.request_id}
    if not answer.body:
        return Response(None, status_code=answer.status, headers=headers)
    return Response(answer.body, status_code=answer.status, media_type="application/json", headers=headers)
