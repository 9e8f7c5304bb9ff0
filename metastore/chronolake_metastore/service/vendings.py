"""Vended credentials: all are counted, and recorded within bounds, for auditors."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable

import msgspec

from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.recent_records import RecentRecords
from chronolake_metastore.domain.subjects import request_id_of
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.domain.vendings import RECORDED_PER_HOUR, SAME_SECONDS, RecordVending
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.recorder import BOUNDED, Recorder
from chronolake_model.credentials import StorageAccess
from chronolake_model.times import Micros


class Vendings:
    """The credentials that one server vended."""

    def __init__(
        self,
        sequencer: Sequencer,
        metrics: Metrics,
        refuse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refuse`` is that of the service."""
        self.recorder = Recorder(sequencer, refuse)
        self._recent = RecentRecords(clock, RECORDED_PER_HOUR, SAME_SECONDS)
        self._metrics = metrics

    def add(self, ctx: Context, table: Table, access: StorageAccess, expires_at: Micros) -> None:
        """Count credentials that a caller gets, which are recorded later: it does not wait for that."""
        # Nobody can guess this key, so no other request takes it before.
        request_id = request_id_of(ctx.subject, f"vended-{uuid.uuid4()}")
        if not self._recent.admit(ctx.subject.name, request_id, (table.table_id, access)):
            self._count(access, BOUNDED)
            return
        # With the id, so that no later table of this name gets the event.
        recording = msgspec.structs.replace(ctx, request_id=request_id, table_id=table.table_id, dialect=None)
        command = RecordVending(table.name, ctx.subject.name, access, expires_at)
        request = group.request_of(recording, command, records_refusal=False)
        self.recorder.add(request, functools.partial(self._count, access))

    def _count(self, access: StorageAccess, record: str) -> None:
        self._metrics.vended.labels(access, record).inc()
