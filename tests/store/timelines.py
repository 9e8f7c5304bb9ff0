"""Filters of timelines, drawn at random from the instants that a table has."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.store.instants import Filter
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Direction, TimeOrder


def draw_filter(draws: random.Random, instants: Sequence[Instant]) -> Filter:
    """A filter that some of the instants may pass."""
    times = sorted({time for instant in instants for time in (instant.requested_time, _completed(instant))})
    fields: dict[str, object] = {}
    for name, values in (
        ("states", [instant.state for instant in instants]),
        ("actions", [instant.action for instant in instants]),
        ("operations", [instant.operation for instant in instants]),
    ):
        if draws.random() < 0.3:
            fields[name] = frozenset(draws.choices(values, k=2))
    if draws.random() < 0.3:
        fields["writer"] = draws.choice(instants).writer
    for name in ("requested_from", "requested_to", "completed_from", "completed_to"):
        if draws.random() < 0.2:
            fields[name] = Micros(draws.choice(times) + draws.randint(-1, 1))
    order_by, direction = draws.choice(list(TimeOrder)), draws.choice(list(Direction))
    return msgspec.structs.replace(Filter(order_by=order_by, direction=direction), **fields)


def place(instant: Instant, wanted: Filter) -> Micros:
    """The time after which the next page begins."""
    if wanted.order_by is TimeOrder.REQUESTED_TIME:
        return instant.requested_time
    return _completed(instant)


def _completed(instant: Instant) -> Micros:
    return instant.completion_time or instant.requested_time
