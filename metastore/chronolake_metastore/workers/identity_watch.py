"""The watch of the identity: whether this server may act for its metastore (docs/decisions/0069-copies.md).

A server on a copy of a database takes no writes, publishes nothing and deletes nothing. So does a server whose
metastore was continued by a copy: claims in storage tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from chronolake_metastore import errors, telemetry
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.notes import metastore
from chronolake_metastore.queries import identity as queries
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import recorded_events
from chronolake_metastore.store.identity import Identity, LastEvent, Standing
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.table_storage import TableStorage
from chronolake_metastore.workers.worker import context_of, run_periodically

LOOK_SECONDS: Final = 2.0
"""How often the database is asked."""
CLAIMS_SECONDS: Final = 60.0
"""How often claims in storage are read."""
CLAIMS_SECONDS_MAX: Final = 5.0
"""How long reading them may take: a storage that is slower says nothing."""
TABLES_AT_START: Final = 250
"""How many of the tables that changed last have their claims read at first, and how many others."""
TABLES_IN_TURN: Final = 4
"""The same, later."""
CLAIMS_AT_ONCE: Final = 8
"""How many claims are read at the same time."""

WRITER: Final = "chronolake-identity-watch"

_log = telemetry.logger(__name__)


class IdentityWatch:
    """The watch of one server process."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._service = Service(database)
        self._storage = TableStorage(database, settings.storage_endpoints)
        self._metrics = metrics
        self._last_event: LastEvent | None = None
        self._was_confirmed = False
        self._metastore_id: UUID | None = None
        self._claims_read_at = -math.inf
        self._refused_by_claim: errors.MetastoreMoved | None = None
        self._refusal: errors.MetastoreMoved | errors.DatabaseUnavailable | None = errors.DatabaseUnavailable(
            "the server does not know yet whether its database is a copy; send the request again, with the "
            "same idempotency key"
        )
        self._changed = asyncio.Event()

    def refuse(self) -> None:
        """Raise ``MetastoreMoved`` if this server may not act."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    async def run(self) -> None:
        """Look periodically, until cancelled."""
        await run_periodically("identity watch", self.look, LOOK_SECONDS, self._metrics)

    async def run_while_acting(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a worker while this server may act, until cancelled."""
        while True:
            changed = self._changed
            if self._refusal is None:
                working = asyncio.ensure_future(run())
                waiting = asyncio.ensure_future(changed.wait())
                try:
                    await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                    working.cancel()
                    # What ended a worker is not lost: it ends the server, as before.
                    with contextlib.suppress(asyncio.CancelledError):
                        await working
            else:
                await changed.wait()

    async def look(self) -> None:
        """Ask the database, and now and then the storage, whether this server may act."""
        present = await queries.present(self._database, self._last_event)
        refusal = await self._refusal_of(present)
        if refusal is None:
            self._last_event, self._was_confirmed = present.last_event, True
            is_renewed = self._metastore_id != present.metastore_id
            self._metastore_id = present.metastore_id
            if is_renewed or self._clock() - self._claims_read_at >= CLAIMS_SECONDS:
                each = TABLES_AT_START if is_renewed else TABLES_IN_TURN
                self._refused_by_claim = await self._read_claims(present, each)
                self._claims_read_at = self._clock()
            refusal = self._refused_by_claim
        else:
            self._claims_read_at = -math.inf
        self._set(refusal)

    async def _refusal_of(self, present: Identity) -> errors.MetastoreMoved | None:
        reason = None
        if not present.has_last_event:
            reason = "its log lacks events that this server has seen, so its database is an earlier state"
        elif present.standing is Standing.COPIED:
            reason = "its identity is that of another PostgreSQL, so its database is a copy or was moved"
        elif present.standing is Standing.PROMOTED and not self._was_confirmed:
            reason = "its PostgreSQL was promoted or recovered, and no server followed it"
        elif present.standing is Standing.PROMOTED:
            # This process has used the database before the failover, and nothing that it saw is missing.
            await self._service.note(context_of("identity-watch", WRITER), metastore.follow_promotion)
            _log.warning("the database failed over; the server goes on")
        return None if reason is None else errors.MetastoreMoved(str(present.metastore_id), reason)

    async def _read_claims(self, present: Identity, each: int) -> errors.MetastoreMoved | None:
        """Why a claim in storage says that this database may not act; None if none does.

        A copy of this metastore continues it, or the claim records an event that the log lacks.
        """
        places = iter(await queries.tables_to_watch(self._database, each))
        refusals: list[errors.MetastoreMoved] = []

        async def read_some() -> None:
            for place in places:
                if refusals:
                    return
                if (refusal := await self._refusal_by_claim(place, present)) is not None:
                    refusals.append(refusal)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLAIMS_SECONDS_MAX):
                await asyncio.gather(*(read_some() for _ in range(CLAIMS_AT_ONCE)))
        return refusals[0] if refusals else None

    async def _refusal_by_claim(self, place: Place, present: Identity) -> errors.MetastoreMoved | None:
        with contextlib.suppress(errors.ConfigurationError, errors.ArchiveNotSet, errors.ArchiveUnavailable):
            claim = await self._storage.claim(place)
            if claim is not None and str(present.metastore_id) in claim.earlier_ids:
                return errors.MetastoreMoved(
                    str(present.metastore_id),
                    f"a copy of its database continues it as the metastore {claim.metastore_id}, which has "
                    f"claimed {place.base_path} of the table {place.table} at {claim.claimed_at}",
                )
            if await recorded_events.is_behind(self._database, place.table_id, claim, present.metastore_id):
                return errors.MetastoreMoved(
                    str(present.metastore_id),
                    f"the log of the table {place.table} lacks an event that the claim in {place.base_path} "
                    "records, so its database is an earlier state",
                )
        return None

    def _set(self, refusal: errors.MetastoreMoved | None) -> None:
        before, self._refusal = self._refusal, refusal
        self._metrics.acts.set(refusal is None)
        was_moved = isinstance(before, errors.MetastoreMoved)
        if refusal is not None and not was_moved:
            _log.error("this server only reads", reason=refusal.detail)
        if was_moved and refusal is None:
            _log.warning("this server takes writes again")
        if (before is None) != (refusal is None):
            self._changed.set()
            self._changed = asyncio.Event()
