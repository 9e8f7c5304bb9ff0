"""Background workers: what each one declares, what it gets from its server, and how it runs and sends commands.

A new worker is a module with a ``Worker``, an entry of ``workers.registry.WORKERS`` and, if operators set its
interval, a setting. The start of a server, the elections of leaders, the metrics and the reference follow.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.subjects import SERVER
from chronolake_metastore.followers import Followers
from chronolake_metastore.iceberg.catalog import Catalog
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database

_log = telemetry.logger(__name__)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a server that its workers use."""

    database: Database
    service: Service
    settings: Settings
    metrics: Metrics
    notifier: Notifier
    followers: Followers
    catalog: Catalog


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A background worker. ``does`` is for the reference; ``run`` runs until it is cancelled."""

    name: str
    does: str
    run: Callable[[Resources], Coroutine[Any, Any, None]]
    setting: str | None = None
    """The setting that has its interval in seconds, where 0 turns it off. None: the worker always runs."""
    has_leader: bool = False
    """Whether one server at a time searches for work: ``advisory_locks`` elects it by the name."""
    acts: bool = True
    """Whether it runs only while this server may act for its metastore (docs/decisions/0069-copies.md)."""

    def is_on(self, settings: Settings) -> bool:
        """Whether it runs in a server with these settings."""
        return self.setting is None or getattr(settings, self.setting) > 0


async def run_periodically(
    worker: str,
    run: Callable[[], Awaitable[object]],
    interval_seconds: float,
    metrics: Metrics,
    *,
    at_once: bool = False,
) -> None:
    """Call ``run`` every ``interval_seconds``, until cancelled; also after a failure, which is logged."""
    pause = 0.0 if at_once else interval_seconds
    while True:
        await asyncio.sleep(pause)
        pause = interval_seconds
        try:
            await run()
        except errors.ConnectionLost:
            # The outage is logged once, by the store.
            pass
        except errors.Unavailable as exc:
            _log.warning(f"{worker} could not look for work", reason=exc.context.get("reason", exc.detail))
        except Exception:
            # The edge of a worker: a failure must not end the server, and the next run may succeed.
            metrics.worker_failures.labels(worker).inc()
            _log.exception(f"{worker} failed")


def context_of(worker: str, actor: str) -> Context:
    """The context of a worker, with a request id of its own that begins with ``worker``."""
    return Context(actor, f"{worker}-{uuid.uuid4()}", subject=SERVER)


async def submit(
    service: Service, command: Command, worker: str, actor: str, *, records_refusal: bool = True
) -> Answer:
    """Execute a command as ``actor``."""
    return await service.execute(context_of(worker, actor), command, records_refusal=records_refusal)
