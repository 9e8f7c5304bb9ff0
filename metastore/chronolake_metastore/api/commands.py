"""From a request to a command, and from its answer to a response."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from litestar import Request as LitestarRequest, Response

from chronolake_metastore.api import addresses, parameters, problems
from chronolake_metastore.api.parameters import KEY_HEADER, ActorHeader, IdempotencyKey
from chronolake_metastore.api.requests import refuse_nul
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands.group import Request
from chronolake_metastore.domain import commands

ANONYMOUS = "anonymous"


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request, under which request id, to which path, and from which address if that is known.

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
    """The caller, from the headers; a request without a key gets one of its own.

    With a key of its own it is still carried out once only, if the database goes away in the middle.
    """
    request_id = (
        f"server-{uuid.uuid4()}" if idempotency_key is None else parameters.header(KEY_HEADER, idempotency_key)
    )
    problems.remember_key(request, request_id)
    return Caller(
        request_id=request_id,
        actor=ANONYMOUS
        if chronolake_actor is None
        else parameters.header("Chronolake-Actor", chronolake_actor),
        path=addresses.sent(request.scope),
        # Where the connection comes from: behind a proxy that is the proxy.
        address=None if request.client is None else request.client.host,
        # From the state of the application: a dependency more would cost what a fifth of a request does.
        sequencer=request.app.state.sequencer,
    )


async def submit(caller: Caller, command: commands.Command) -> Response[Any]:
    """Have ``command`` carried out and answer when that is durable."""
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
    )
    answer = await caller.sequencer.submit(request)
    # A caller that sent no key may ask for the outcome under the one that the server made up.
    headers = {KEY_HEADER: caller.request_id}
    if not answer.body:
        return Response(None, status_code=answer.status, headers=headers)
    return Response(answer.body, status_code=answer.status, media_type="application/json", headers=headers)
