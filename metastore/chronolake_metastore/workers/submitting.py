"""How a worker sends a command."""

from __future__ import annotations

import uuid

from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import Request
from chronolake_metastore.domain import commands
from chronolake_metastore.domain.commands import Command


async def submit(sequencer: Sequencer, command: Command, worker: str, actor: str) -> Answer:
    """Execute a command as ``actor``; its request id begins with ``worker``."""
    fingerprint = commands.fingerprint(commands.canonical(command))
    return await sequencer.submit(Request(command, f"{worker}-{uuid.uuid4()}", fingerprint, actor))
