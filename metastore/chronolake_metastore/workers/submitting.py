"""How a worker sends a command."""

from __future__ import annotations

import uuid

from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import Request
from chronolake_metastore.domain import commands
from chronolake_metastore.domain.commands import Command


async def submit(
    sequencer: Sequencer, command: Command, worker: str, actor: str, *, records_refusal: bool = True
) -> Answer:
    """Execute a command as ``actor``; its request id begins with ``worker``."""
    fingerprint = commands.fingerprint(commands.canonical(command))
    request_id = f"{worker}-{uuid.uuid4()}"
    request = Request(command, request_id, fingerprint, actor, records_refusal=records_refusal)
    return await sequencer.submit(request)
