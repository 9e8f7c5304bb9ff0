"""How a worker asks the service for something."""

from __future__ import annotations

import uuid

from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.service.service import Service


def context_of(worker: str, actor: str) -> Context:
    """The context of a worker, with a request id of its own that begins with ``worker``."""
    return Context(actor, f"{worker}-{uuid.uuid4()}")


async def submit(
    service: Service, command: Command, worker: str, actor: str, *, records_refusal: bool = True
) -> Answer:
    """Execute a command as ``actor``."""
    return await service.execute(context_of(worker, actor), command, records_refusal=records_refusal)
