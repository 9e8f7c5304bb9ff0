"""/, /health, /ready and /metrics"""

from __future__ import annotations

import contextlib
import importlib.metadata
from typing import Final

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from chronolake_metastore import errors
from chronolake_metastore.api import problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.iceberg import refusals
from chronolake_metastore.domain.rights import EVERYTHING, Needs
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.queries import health as tables_health, publication, readiness, services
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.problems import ProblemCode
from chronolake_model.roles import Right
from chronolake_model.times import MICROS_PER_SECOND
from chronolake_model.vocabulary import TableService

TAGS = ["Operations"]


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The server serves. ``warnings`` are dangers of its settings."""

    warnings: list[str]
    status: str = "ok"


_READS_EVERYTHING: Final = Needs(Right.READ, (), [EVERYTHING])
_PATHS: Final = {
    "api": "/v1",
    "openapi": "/openapi.json",
    "docs": "/docs",
    "iceberg": refusals.PREFIX,
    "health": "/health",
    "ready": "/ready",
    "metrics": "/metrics",
}


class Index(msgspec.Struct, frozen=True):
    """The version of a server, and the paths at which it answers; without `iceberg` its catalog is off."""

    version: str
    paths: dict[str, str]
    name: str = "chronolake"


def index_of(settings: Settings) -> Index:
    """The index of a server with these settings."""
    paths = {name: path for name, path in _PATHS.items() if name != "iceberg" or settings.iceberg_snapshots_max}
    return Index(importlib.metadata.version("chronolake"), paths)


@get("/", summary="What is at this address?", tags=TAGS)
async def get_index(index: NamedDependency[Index]) -> Index:
    """Answers with the version, and with the paths of the API, its OpenAPI document and others."""
    return index


@get("/health", summary="Is the process alive?", tags=TAGS)
async def get_health() -> Health:
    """Answers as long as the process runs, also without a database."""
    return Health()


@get(
    "/ready",
    summary="Can the server serve?",
    tags=TAGS,
    responses=problems.documented([ProblemCode.METASTORE_MOVED, ProblemCode.ARCHIVE_UNAVAILABLE]),
)
async def get_ready(probe: NamedDependency[readiness.Probe], warnings: NamedDependency[list[str]]) -> Readiness:
    """Answers 200 when the database answers, takes writes and has the schema that this server knows, else 503.

    It answers 503, `archive-unavailable`, as long as old answers are in the archive of the log alone and it has
    not read their keys: it decides no command before.

    A server on a copy of a database answers 409, `metastore-moved`: it only reads.

    The answer comes within a few seconds, also without a database.
    """
    await probe.check()
    return Readiness(warnings)


@get("/metrics", summary="Figures for Prometheus", tags=TAGS, include_in_schema=False)
async def get_metrics(
    caller: NamedDependency[Caller], database: NamedDependency[Database], metrics: NamedDependency[Metrics]
) -> Response[bytes]:
    """The figures of this process, as Prometheus reads them; without a database, its figures are missing.

    They name tables, so they are for those who may read everything.
    """
    await caller.service.authorized(caller.ctx, _READS_EVERYTHING, read_figures)
    await read_figures(database, metrics)
    return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def read_figures(database: Database, metrics: Metrics) -> None:
    """Read the figures that the database has; leave them as they are while it is unavailable."""
    with contextlib.suppress(errors.DatabaseUnavailable):
        metrics.xmin_age.set(await readiness.xmin_age(database))
        lag_seconds, paused = await publication.totals(database)
        metrics.publication_lag.set(lag_seconds)
        metrics.publication_paused.set(paused)
        metrics.active_timeline_held.clear()
        for held_by, seconds in (await publication.held_timelines(database)).items():
            metrics.active_timeline_held.labels(held_by).set(seconds)
        of_services = await services.totals(database)
        for service in TableService:
            metrics.service_plans.labels(service).set(of_services.pending.get(service, 0))
        metrics.service_waiting.set(of_services.oldest_waiting_us / MICROS_PER_SECOND)
        metrics.service_executions.set(of_services.executions_max)
        metrics.clusterings_cancelled.set(of_services.cancelled_clusterings)
        unpublished = await tables_health.unpublished(database)
        metrics.tables_unpublished.clear()
        for table, why in unpublished:
            metrics.tables_unpublished.labels(table, why).set(1)
