"""Denials of known callers: all are counted, and a few of each subject are recorded, for auditors."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.denials import RECORDED_PER_HOUR, SAME_SECONDS, RecordDenial, denial_of
from chronolake_metastore.domain.recent_records import RecentRecords
from chronolake_metastore.domain.subjects import request_id_of
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.recorder import BOUNDED, RECORDED, Recorder
from chronolake_model.roles import Right


class Denials:
    """The denials of one server."""

    def __init__(
        self,
        sequencer: Sequencer,
        metrics: Metrics,
        refuse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refuse`` is that of the service."""
        self.recorded = RecentRecords(clock, RECORDED_PER_HOUR, SAME_SECONDS)
        self.recorder = Recorder(sequencer, refuse)
        self._metrics = metrics

    def add_command(self, right: Right, refused: errors.TimelineError) -> None:
        """Count the refusal of a command if it is a denial. Its group has recorded it, or not."""
        if denial_of(refused) is not None:
            self._count(right, BOUNDED if refused.answer is None else RECORDED)

    def add(self, ctx: Context, right: str, name: str, refused: errors.TimelineError) -> None:
        """Count a denied read or note, which is recorded later: its caller does not wait for that."""
        denial = denial_of(refused)
        assert denial is not None
        on = denial.context.get("on")
        # Nobody can guess this key, so no other request takes it before.
        request_id = request_id_of(ctx.subject, f"denied-{uuid.uuid4()}")
        if not self.recorded.admit(ctx.subject.name, request_id, (right, on)):
            self._count(right, BOUNDED)
            return
        recording = msgspec.structs.replace(ctx, request_id=request_id, table_id=None, dialect=None)
        command = RecordDenial(name, right, on, denial.detail)
        self.recorder.add(group.request_of(recording, command), functools.partial(self._count, right))

    def _count(self, right: str, record: str) -> None:
        self._metrics.denied.labels(right, record).inc()
