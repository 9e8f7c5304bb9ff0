"""The caller of a request: its context, and the service.

A handler of a command takes it as ``keyed_caller``, because a command has an idempotency key; other handlers
take it as ``caller``.
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Final
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.di import Provide
from litestar.types import HTTPScope

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.identification import subject_of
from chronolake_metastore.api.parameters import ACTOR_HEADER, KEY_HEADER, ActorHeader, IdempotencyKey
from chronolake_metastore.api.v1 import rendering
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.subjects import ANONYMOUS, Subject, actor_of, key_in, request_id_of
from chronolake_metastore.service.service import ParametersT, ResultT, Service
from chronolake_metastore.store.postgres.engine import Database

_ACT_FOR_OTHERS: Final = "act-for-others"
"""The right of a subject whose token may name other actors, as denials say it."""
_numbers = itertools.count(1)


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request: it asks the service in its context."""

    ctx: Context
    service: Service

    async def execute(self, command: Command) -> Response[Any]:
        """Execute ``command``, and answer when it is durable."""
        answer = await self.service.execute(self.ctx, command)
        # A caller that sent no key may ask for the outcome under the one that the server made up.
        headers = {KEY_HEADER: key_in(self.ctx.request_id)}
        status = rendering.status_of(answer.result)
        if not answer.body:
            return Response(None, status_code=status, headers=headers)
        return Response(answer.body, status_code=status, media_type="application/json", headers=headers)

    def with_key_of_server(self) -> Caller:
        """The same caller, for a command beside that of its key."""
        request_id = request_id_of(self.ctx.subject, _new_key())
        return Caller(msgspec.structs.replace(self.ctx, request_id=request_id), self.service)

    async def note(
        self,
        note: Callable[Concatenate[Context, Database, ParametersT], Awaitable[ResultT]],
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """As ``Service.note``."""
        return await self.service.note(self.ctx, note, *args, **kwargs)

    async def read(
        self,
        read: Callable[Concatenate[Context, Database, ParametersT], Awaitable[ResultT]],
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """As ``Service.read``."""
        return await self.service.read(self.ctx, read, *args, **kwargs)


def providers(service: Service) -> dict[str, Provide]:
    """The callers of requests that take Litestar's path.

    There is one dependency for a handler: Litestar runs several of them as tasks, which costs a small request
    more than all the rest.
    """

    def keyed_caller(
        request: Request[Any, Any, Any],
        idempotency_key: IdempotencyKey = None,
        chronolake_actor: ActorHeader = None,
    ) -> Caller:
        table_id = parameters.expected_table(request)
        return Caller(of_command(service, request.scope, idempotency_key, chronolake_actor, table_id), service)

    def caller(request: Request[Any, Any, Any]) -> Caller:
        actor = request.headers.get(ACTOR_HEADER)
        return Caller(of_request(service, request.scope, actor, parameters.expected_table(request)), service)

    return {
        "keyed_caller": Provide(keyed_caller, sync_to_thread=False),
        "caller": Provide(caller, sync_to_thread=False),
    }


def of_command(
    service: Service, scope: HTTPScope, key: str | None, actor: str | None, table_id: UUID | None
) -> Context:
    """The context of a command; a command without a key gets one of its own.

    With this key the command is executed only once, also if the database fails meanwhile.
    """
    key = _new_key() if key is None else parameters.header(KEY_HEADER, key)
    parameters.remember_key(scope, key)
    return _context(service, scope, request_id_of(subject_of(scope), key), actor, table_id)


def of_request(service: Service, scope: HTTPScope, actor: str | None, table_id: UUID | None) -> Context:
    """The context of a request that is no command. Its id is for the log of the server only."""
    return _context(service, scope, f"request-{_process_id()}-{next(_numbers)}", actor, table_id)


def _new_key() -> str:
    return f"server-{uuid.uuid4()}"


@functools.cache
def _process_id() -> str:
    # A UUID for each request would cost a tenth of a small one.
    return uuid.uuid4().hex[:12]


def _context(
    service: Service, scope: HTTPScope, request_id: str, actor: str | None, table_id: UUID | None
) -> Context:
    """The context of a request; raises ``Forbidden`` if its header names an actor, and the caller may not."""
    client = scope["client"]
    subject = subject_of(scope)
    name = None if actor is None else parameters.header(ACTOR_HEADER, actor)
    may_name = name is None or subject == ANONYMOUS or subject.may_act_for_others
    ctx = Context(
        actor=_actor(subject, name if may_name else None),
        request_id=request_id,
        # Where the connection comes from: behind a proxy that is the proxy.
        address=None if client is None else client[0],
        place=parameters.path_as_sent(scope),
        table_id=table_id,
        dialect=rendering.V1,
        subject=subject,
    )
    if not may_name:
        denial = errors.Forbidden(
            f"{subject.name} may not act on behalf of others; leave the header {ACTOR_HEADER} out, and the log "
            "names the subject",
            right=_ACT_FOR_OTHERS,
        )
        service.record_denial(ctx, _ACT_FOR_OTHERS, ACTOR_HEADER, denial)
        raise denial
    return ctx


def _actor(subject: Subject, name: str | None) -> str:
    if subject == ANONYMOUS:
        return subject.name if name is None else name
    return actor_of(subject, name)
