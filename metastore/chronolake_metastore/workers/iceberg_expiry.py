"""The expiry of metadata for Iceberg's readers, of the tables that this server has loaded for them."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.workers.worker import Resources, Worker, context_of, run_periodically

NAME: Final = "iceberg-expiry"


async def run(resources: Resources) -> None:
    """Look periodically, until cancelled."""

    async def look() -> None:
        await resources.catalog.expire(context_of(NAME, "chronolake-metastore"))

    await run_periodically(NAME, look, resources.settings.iceberg_expiry_seconds, resources.metrics)


WORKER: Final = Worker(
    name=NAME,
    does="removes metadata for Iceberg's readers that no retained state needs",
    run=run,
    setting="iceberg_expiry_seconds",
)
