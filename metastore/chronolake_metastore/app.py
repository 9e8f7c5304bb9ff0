"""The composition root: settings in, a running application out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from litestar import Router
from litestar.di import Provide
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ASGIApp

from chronolake_metastore import errors, object_storage, vending
from chronolake_metastore.api import (
    access,
    adoption,
    bounds,
    callers,
    cleans,
    cuts,
    deletable,
    deletions,
    docs,
    events,
    file_groups,
    files,
    health,
    identification,
    instants,
    markers,
    namespaces,
    openapi,
    outcomes,
    plans,
    publication,
    readers,
    request_log,
    routes,
    savepoints,
    scans,
    schemas,
    services,
    stalled_clients,
    streams,
    sweeps,
    tables,
)
from chronolake_metastore.api.application import Application, FastPath
from chronolake_metastore.api.iceberg import handlers as iceberg_handlers, refusals as iceberg_refusals
from chronolake_metastore.api.parameters import check_request
from chronolake_metastore.api.requests import StrictRequest
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.batching.markers import MarkerBatcher
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.followers import Followers
from chronolake_metastore.iceberg.catalog import Catalog
from chronolake_metastore.identification import identifier as identifiers
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.queries import readiness
from chronolake_metastore.queries.following import CatchingUp
from chronolake_metastore.service.denials import Denials
from chronolake_metastore.service.service import Service
from chronolake_metastore.service.vendings import Vendings
from chronolake_metastore.settings import Access, Settings, warnings_of
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers import registry
from chronolake_metastore.workers.iceberg_folders import IcebergFolders
from chronolake_metastore.workers.identity_watch import IdentityWatch
from chronolake_metastore.workers.worker import Resources
from chronolake_model import decoding

_NOUNS: Final = (
    namespaces,
    tables,
    adoption,
    schemas,
    instants,
    plans,
    savepoints,
    cleans,
    services,
    deletable,
    readers,
    publication,
    streams,
    markers,
    deletions,
    sweeps,
    files,
    scans,
    file_groups,
    events,
    cuts,
    outcomes,
    access,
)
"""The modules that have the handlers of the operations."""


V1 = routes.handlers_of(_NOUNS)


def create_app(settings: Settings) -> Application:
    """The application that ``settings`` describe; it reaches for the database when it starts up.

    Call its ``end_streams`` first when the server stops: streams never end by themselves.
    """
    # Litestar decodes requests by msgspec itself.
    decoding.prepare("chronolake_model")
    location = settings.archive
    archive = ArchiveStorage(object_storage.open_location(location)) if location else None
    database = Database(settings, lambda: _reader_of(archive))
    identifier = identifiers.of_settings(settings, database)
    metrics = Metrics()
    notifier = Notifier()
    followers = Followers(settings, metrics)
    catching_up = CatchingUp(database, settings.catch_up_bytes)
    watch = IdentityWatch(database, settings, metrics)
    probe = readiness.Probe(database, watch.refuse, tells_reasons=settings.access is Access.OFF)
    sequencer = Sequencer(database, settings, metrics, notifier)
    marker_batcher = MarkerBatcher(database, settings, metrics)
    denials, vendings = Denials(sequencer, metrics, watch.refuse), Vendings(sequencer, metrics, watch.refuse)
    vendor = vending.of_settings(settings, watch.refuse, vendings.add)
    service = Service(database, sequencer, marker_batcher, watch.refuse, settings.access, denials)

    folders = IcebergFolders(database, settings.storage_endpoints)
    catalog = Catalog(service, folders.open, settings.iceberg_snapshots_max, notifier.notify)
    index, warnings = health.index_of(settings), warnings_of(settings)
    iceberg = [iceberg_handlers.router(service, catalog)] if settings.iceberg_snapshots_max else []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with sequencer.running(), marker_batcher.running(), asyncio.TaskGroup() as workers:
            # A server that cannot look now refuses commands until it can.
            with contextlib.suppress(errors.Unavailable):
                await watch.look()
            resources = Resources(
                database=database,
                service=service,
                settings=settings,
                metrics=metrics,
                notifier=notifier,
                followers=followers,
                catalog=catalog,
            )
            running = [*registry.started(resources, watch), followers.wake(), stalled_clients.run(followers)]
            if identifier is not None:
                running += [identifier.run(), denials.recorder.run(), vendings.recorder.run()]
            tasks = [workers.create_task(worker) for worker in running]
            yield
            for task in tasks:
                task.cancel()
        await catalog.close()
        vendor.close()
        await probe.close()
        await database.close()

    app = Application(
        route_handlers=[
            Router(
                routes.PREFIX,
                route_handlers=V1,
                before_request=check_request,
                dependencies=callers.providers(service),
            ),
            *iceberg,
            health.get_index,
            health.get_health,
            health.get_ready,
            Router("/", route_handlers=[health.get_metrics], dependencies=callers.providers(service)),
            docs.get_docs,
        ],
        dependencies={
            "database": Provide(lambda: database, sync_to_thread=False),
            "followers": Provide(lambda: followers, sync_to_thread=False),
            "catching_up": Provide(lambda: catching_up, sync_to_thread=False),
            "probe": Provide(lambda: probe, sync_to_thread=False),
            "vendor": Provide(lambda: vendor, sync_to_thread=False),
            "metrics": Provide(lambda: metrics, sync_to_thread=False),
            "warnings": Provide(lambda: warnings, sync_to_thread=False),
            "index": Provide(lambda: index, sync_to_thread=False),
        },
        lifespan=[lifespan],
        exception_handlers=iceberg_refusals.by_dialect(),
        request_class=StrictRequest,
        request_max_body_size=settings.max_body_bytes,
        openapi_config=openapi.Config(
            title="Chronolake",
            version="1",
            description="The timeline of lakehouse tables: who wrote what, in which order, what is visible.",
            use_handler_docstrings=True,
            operation_id_creator=openapi.operation_id,
            openapi_router=openapi.router(),
            render_plugins=[JsonRenderPlugin(path="/")],
        ),
        logging_config=None,
    )
    app.end_streams = followers.close
    app.identify_callers = lambda inner: identification.with_callers(
        inner, identifier, metrics, settings.requests_per_second
    )
    app.fast_path, app.refuse_large_of = FastPath(app, service), service.refuse_large_of
    return app


def served(app: Application, settings: Settings) -> ASGIApp:
    """The application as it is served: with its log, its deadlines, known callers and bounded bodies."""
    bounded = bounds.with_bounded_bodies(app, settings.bodies_bytes_max, app.refuse_large_of)
    identified = app.identify_callers(bounded)
    return request_log.logged(bounds.with_deadlines(identified, settings.answer_seconds), settings.request_log)


def _reader_of(storage: ArchiveStorage | None) -> object:
    """The reader of the archive, for the first request that needs it."""
    from chronolake_metastore.archive.reading import ArchiveReader  # noqa: PLC0415  # PyArrow

    return ArchiveReader(storage)
