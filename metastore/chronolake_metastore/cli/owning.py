"""Commands that only the login that owns the schema may execute, such as those of tokens and locations."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.cli.options import existing
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.subjects import SERVER, actor_of
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import diagnosis
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import machine

ResultT = TypeVar("ResultT")


def run(settings: Settings, action: str, work: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """Work with the database, as the login itself; ``action`` is what only the owner may do.

    Raises ``ConfigurationError``.
    """
    settings = existing(settings)
    # PostgreSQL refuses the events to the role of the servers.
    owner = msgspec.structs.replace(settings, role="none")

    async def running() -> ResultT:
        await readiness.check_at_start(settings)
        await diagnosis.refuse_unless_owner(owner, action)
        database = Database(owner)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(running())


async def execute(database: Database, command: Command, kind: str) -> AnyResult:
    """Execute a command, whose request id begins with ``kind``.

    Raises ``ConfigurationError`` for one that is refused, and ``Unavailable``.
    """
    ctx = Context(actor_of(SERVER, machine.user()), f"{kind}-{uuid.uuid4()}", subject=SERVER)
    session = Session(database)
    try:
        [result] = (await group.run(session, [group.request_of(ctx, command)], drift_max_us=0)).results
    finally:
        await session.close()
    if isinstance(result, errors.Unavailable):
        raise result
    if not isinstance(result, Answer):
        raise errors.ConfigurationError(result.detail) from result
    return result.result
