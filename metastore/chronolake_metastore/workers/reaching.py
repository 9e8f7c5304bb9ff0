"""The tables whose storage this server reaches; those that it does not are left to others for a while."""

from __future__ import annotations

import asyncio
import time
from typing import Final
from uuid import UUID

from chronolake_metastore import errors, object_storage, telemetry
from chronolake_metastore.object_storage import TableFiles
from chronolake_metastore.store.waiting import Place
from chronolake_model.storage import options_of

PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 600.0
CHECK_SECONDS_MAX: Final = 20.0

_log = telemetry.logger(__name__)


class Reach:
    """What one worker reaches: a table that failed is left alone for a while, each time for twice as long."""

    def __init__(self) -> None:
        self._until: dict[UUID, tuple[float, float]] = {}

    def paused(self) -> list[UUID]:
        """The tables that are left alone at this moment."""
        now = time.monotonic()
        return [table_id for table_id, (until, _) in self._until.items() if now < until]

    def pause(self, place: Place) -> float:
        """Leave a table alone for longer than the last time; gives for how many seconds."""
        _, last = self._until.get(place.table_id, (0.0, 0.0))
        seconds = min(max(last * 2, PAUSE_SECONDS), PAUSE_SECONDS_MAX)
        self._until[place.table_id] = (time.monotonic() + seconds, seconds)
        return seconds

    def end_pause(self, place: Place) -> None:
        """The table gives no trouble."""
        self._until.pop(place.table_id, None)

    async def open(self, place: Place) -> TableFiles | None:
        """The files of a table, if they can be reached from here; else the table is left alone."""
        try:
            files = object_storage.open_table(place.base_path, options_of(place.properties))
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                await files.check()
        except (errors.ConfigurationError, TimeoutError) as exc:
            self.refused(place, str(exc) or f"{place.base_path} does not answer")
            return None
        return files

    def refused(self, place: Place, reason: str) -> None:
        """Leave a table alone whose storage refuses."""
        seconds = self.pause(place)
        _log.warning("table cannot be reached", table=place.table, reason=reason, pause_seconds=seconds)
