"""From a request to a command, and from its answer to a response."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from litestar import Request as LitestarRequest, Response
from litestar.types import HTTPScope

from chronolake_metastore.api import addresses, parameters, problems
from chronolake_metastore.api.parameters import ACTOR_HEADER, KEY_HEADER, ActorHeader, IdempotencyKey
from chronolake_metastore.api.requests import refuse_nul
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands.group import Request
from chronolake_metastore.domain import commands
from chronolake_metastore.queries.tables import expected_id

ANONYMOUS = "anonymous"


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request: actor, request id, path, and address if known.

    ``sequencer`` executes the commands of the caller.
    """

    request_id: str
    actor: str
    path: str
    address: str | None
    sequencer: Sequencer


def provide_caller(
    request: LitestarRequest[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    chronolake_actor: ActorHeader = None,
) -> Caller:
    """The caller of a request that goes Litestar's way."""
    return caller_of(request.scope, idempotency_key, chronolake_actor)


def caller_of(scope: HTTPScope, key: str | None, actor: str | None) -> Caller:
    """The caller, from the headers of a request; a request without a key gets one of its own.

    With this key the command is executed only once, also if the database fails meanwhile.
    """
    request_id = f"server-{uuid.uuid4()}" if key is None else parameters.header(KEY_HEADER, key)
    problems.remember_key(scope, request_id)
    client = scope["client"]
    return Caller(
        request_id=request_id,
        actor=ANONYMOUS if actor is None else parameters.header(ACTOR_HEADER, actor),
        path=addresses.sent(scope),
        # Where the connection comes from: behind a proxy that is the proxy.
        address=None if client is None else client[0],
        # Read from the state of the application: one more dependency would cost a fifth of a request.
        sequencer=scope["litestar_app"].state.sequencer,
    )


async def submit(caller: Caller, command: commands.Command) -> Response[Any]:
    """Execute ``command``, and answer when it is durable."""
    canonical = commands.canonical(command)
    refuse_nul(canonical)
    request = Request(
        command,
        caller.request_id,
        commands.fingerprint(canonical),
        caller.actor,
        path=caller.path,
        address=caller.address,
        size_bytes=len(canonical),
        table_id=expected_id.get(),
    )
    answer = await caller.sequencer.submit(request)
    # A caller that sent no key may ask for the outcome under the one that the server made up.
    headers = {KEY_HEADER: caller.request_id}
    if not answer.body:
        return Response(None, status_code=answer.status, headers=headers)
    return Response(answer.body, status_code=answer.status, media_type="application/json", headers=headers)
