"""The snapshots for Iceberg's readers, made ahead: of the tables that clients have loaded from this server."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from chronolake_metastore.workers.worker import Resources, Worker, context_of, run_periodically

NAME: Final = "iceberg-snapshots"
POLL_SECONDS: Final = 1.0
"""The longest pause before versions are read again; a command of this server wakes it at once."""
REST_SECONDS: Final = 0.05
"""The pause after a command, so that one look serves commands in quick succession, and a request that follows
a commit at once does not share the processor with the look."""


async def run(resources: Resources) -> None:
    """Look when a command has been executed, until cancelled."""

    async def look() -> None:
        # It listens before it looks: a command that ends meanwhile, such as the one after that which woke it,
        # lets it look again.
        notified = asyncio.ensure_future(resources.notifier.wait(POLL_SECONDS))
        try:
            is_missing = True
            while is_missing:
                began = time.monotonic()
                is_missing = await resources.catalog.follow(context_of(NAME, "chronolake-metastore"))
                # Half of the time is left to requests.
                await asyncio.sleep(time.monotonic() - began)
            await notified
        finally:
            notified.cancel()

    await run_periodically(NAME, look, REST_SECONDS, resources.metrics)


WORKER: Final = Worker(
    name=NAME,
    does="makes the snapshots of tables that Iceberg's clients have loaded from the server in the last hour",
    run=run,
)
