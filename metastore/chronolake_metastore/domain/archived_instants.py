"""Changes of instants by parts of a log: what an archive says of each instant without its events.

A part has consecutive events of a table. The changes by its events, joined with those by the events of the next
part, are the changes by the events of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from chronolake_metastore.domain import actions, instants
from chronolake_metastore.domain.events import (
    Event,
    ImpossibleEvent,
    InstantCompleted,
    InstantInflight,
    InstantRequested,
    InstantReturnedToRequested,
    InstantRolledBack,
    LeaseRenewed,
    SavepointReleased,
    WriteStatsStaged,
)
from chronolake_metastore.domain.instants import Instant
from chronolake_model import decoding
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State

_STATES: Final = {
    InstantInflight.__name__: State.INFLIGHT,
    InstantReturnedToRequested.__name__: State.REQUESTED,
    InstantCompleted.__name__: State.COMPLETED,
    InstantRolledBack.__name__: State.ROLLED_BACK,
    SavepointReleased.__name__: State.ROLLED_BACK,
    WriteStatsStaged.__name__: None,
    LeaseRenewed.__name__: None,
}
"""The state of an instant after each type of event that concerns it; None where the state stays."""
TYPES: Final = (InstantRequested.__name__, *_STATES)
"""The types of events by which an instant changes, but for its sweeps."""
_TAKING_OVER: Final = frozenset({InstantInflight.__name__, LeaseRenewed.__name__})
T = TypeVar("T")


class InstantChange(msgspec.Struct, frozen=True):
    """The change of an instant by a part of the log. Fields that it did not change are None.

    ``begun_as`` is the action that was begun. ``completed_at`` is when the instant completed, undone since or
    not; it completes once. ``first_version`` and ``version`` are those of the first and last event. ``writer``
    is the last one.
    """

    requested_time: Micros
    first_version: int
    version: int
    begun_as: Action | None = None
    operation: Operation | None = None
    writer: str | None = None
    state: State | None = None
    completed_at: Micros | None = None

    @property
    def action(self) -> Action | None:
        """The action, which may have another name since the completion."""
        if self.begun_as is None or self.completed_at is None:
            return self.begun_as
        return actions.RULES[self.begun_as].completed_as

    @property
    def completion_time(self) -> Micros | None:
        """The completion time; None while the instant is pending, or undone."""
        return self.completed_at if self.state is State.COMPLETED else None


class _Begun(msgspec.Struct, frozen=True):
    """The fields of ``InstantRequested`` that are read here."""

    action: Action
    operation: Operation
    writer: str
    state: State


class _TakenOver(msgspec.Struct, frozen=True):
    """The fields of events by which an instant may get another writer."""

    writer: str | None = None


def change(
    type_: str, requested_time: Micros | None, time: Micros, version: int, payload: str
) -> InstantChange | None:
    """The change of an instant by one event; None if it changes none. Raises ``ValueError``."""
    if requested_time is None:
        return None
    if type_ == InstantRequested.__name__:
        begun = _decoded(type_, payload, _Begun)
        of_request = begun.action, begun.operation, begun.writer, begun.state
        return InstantChange(requested_time, version, version, *of_request)
    if type_ not in _STATES:
        return None
    writer = _decoded(type_, payload, _TakenOver).writer if type_ in _TAKING_OVER else None
    completed_at = time if type_ == InstantCompleted.__name__ else None
    return InstantChange(
        requested_time, version, version, writer=writer, state=_STATES[type_], completed_at=completed_at
    )


def _decoded(type_: str, payload: str, form: type[T]) -> T:
    try:
        return decoding.decode(payload, form)
    except msgspec.DecodeError as exc:
        raise ValueError(f"the payload is not that of {type_}: {exc}") from exc


def join(earlier: InstantChange, later: InstantChange) -> InstantChange:
    """The change of an instant by two consecutive parts of the log together."""
    assert earlier.requested_time == later.requested_time
    assert earlier.version < later.first_version
    return InstantChange(
        requested_time=earlier.requested_time,
        first_version=earlier.first_version,
        version=later.version,
        begun_as=earlier.begun_as or later.begun_as,
        operation=earlier.operation or later.operation,
        writer=earlier.writer if later.writer is None else later.writer,
        state=later.state or earlier.state,
        completed_at=earlier.completed_at if later.completed_at is None else later.completed_at,
    )


def replayed(events: Iterable[Event]) -> Instant:
    """The instant that its events made, in their order. Its sweeps are over. Raises ``ImpossibleEvent``."""
    instant: Instant | None = None
    for event in events:
        instant = instants.evolve(instant, event)
    if instant is None:
        raise ImpossibleEvent("there is no event")
    return msgspec.structs.replace(instant, unswept_since=None, grace_began_at=None)
