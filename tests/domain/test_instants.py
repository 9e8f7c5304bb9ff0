from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import actions, instants, leases, rollbacks, tables
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import (
    Event,
    InstantCompleted,
    InstantInflight,
    InstantRequested,
    InstantRolledBack,
    LeaseRenewed,
    Now,
    Origin,
    Payload,
    TableCreated,
)
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.logs import Clock, advance, next_event
from chronolake_metastore.domain.plans import NewPlan
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.tables import NewField
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, Operation, State, TableType

SECOND: Final = 1_000_000
NOW: Final = Micros(1_800_000_000 * SECOND)
LEASE_SECONDS: Final = 60
TABLE: Final = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders", base_path="/lake", schema=[NewField("id", "int")], record_key_fields=["id"]
        )
    ),
    UUID(int=7),
    NOW,
)


def an_instant(state: State) -> Instant:
    pending = state.is_pending
    return Instant(
        requested_time=NOW,
        action=Action.COMMIT,
        operation=Operation.UPSERT,
        state=state,
        writer="writer",
        lease_seconds=LEASE_SECONDS,
        lease_expires_at=Micros(NOW + LEASE_SECONDS * SECOND) if pending else None,
        version=2,
        completion_time=Micros(NOW + SECOND) if state is State.COMPLETED else None,
    )


def move(verb: str, instant: Instant) -> Payload:
    match verb:
        case "inflight":
            return instants.take_inflight(
                TABLE,
                instant,
                instants.TakeInflight(
                    TABLE.name,
                    NOW,
                ),
                NOW,
            )
        case "complete":
            return instants.complete(TABLE, instant, instants.CompleteInstant(TABLE.name, NOW), {}, NOW)
        case "rollback":
            rollback = rollbacks.RollbackInstant(TABLE.name, NOW, writer="writer")
            rollbacks.refuse_rollback(TABLE, instant, rollback, NOW)
            return rollbacks.undo(rollback, NOW)
        case _:
            return leases.renew(
                TABLE,
                instant,
                leases.RenewLease(
                    TABLE.name,
                    NOW,
                ),
                NOW,
            )


@pytest.mark.parametrize(
    ("state", "verb", "event"),
    [
        (State.REQUESTED, "inflight", InstantInflight),
        (State.REQUESTED, "rollback", InstantRolledBack),
        (State.REQUESTED, "heartbeat", LeaseRenewed),
        (State.INFLIGHT, "complete", InstantCompleted),
        (State.INFLIGHT, "rollback", InstantRolledBack),
        (State.INFLIGHT, "heartbeat", LeaseRenewed),
    ],
)
def test_a_legal_move_gives_its_event(state: State, verb: str, event: type[Payload]) -> None:
    assert type(move(verb, an_instant(state))) is event


@pytest.mark.parametrize(
    ("state", "verb"),
    [
        (State.REQUESTED, "complete"),
        (State.INFLIGHT, "inflight"),
        (State.COMPLETED, "inflight"),
        (State.COMPLETED, "complete"),
        (State.COMPLETED, "rollback"),
        (State.COMPLETED, "heartbeat"),
    ],
)
def test_an_illegal_move_names_the_present_state(state: State, verb: str) -> None:
    with pytest.raises(errors.IllegalTransition) as refused:
        move(verb, an_instant(state))
    assert refused.value.context["state"] == state


def test_an_illegal_move_names_the_states_that_allow_it() -> None:
    with pytest.raises(errors.IllegalTransition, match="is completed; it can complete only from inflight"):
        move("complete", an_instant(State.COMPLETED))


@pytest.mark.parametrize("verb", ["inflight", "complete", "heartbeat"])
def test_a_writer_that_was_rolled_back_is_refused(verb: str) -> None:
    with pytest.raises(errors.InstantRolledBack):
        move(verb, an_instant(State.ROLLED_BACK))


@pytest.mark.parametrize(("seconds", "refused"), [(0, True), (LEASE_SECONDS - 1, True), (LEASE_SECONDS, False)])
def test_another_may_roll_back_only_when_the_lease_has_ended(seconds: int, refused: bool) -> None:
    command = rollbacks.RollbackInstant(TABLE.name, NOW, writer="another")
    now = Micros(NOW + seconds * SECOND)
    if refused:
        with pytest.raises(errors.LeaseLive):
            rollbacks.refuse_rollback(TABLE, an_instant(State.INFLIGHT), command, now)
    else:
        rollbacks.refuse_rollback(TABLE, an_instant(State.INFLIGHT), command, now)


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("table_type", list(TableType))
def test_each_type_of_table_takes_its_own_action(table_type: TableType, action: Action) -> None:
    definition = msgspec.structs.replace(TABLE.definition, type=table_type)
    table = msgspec.structs.replace(TABLE, definition=definition)
    group = FileGroupName("", bucket_file_id(0))
    command = instants.BeginInstant(table.name, writer="writer", action=action, plan=NewPlan([group]))
    live = ConcurrentInstant(GroupChange.WRITE, Action.COMMIT, State.COMPLETED, NOW, Micros(NOW + 1))
    others = {FileGroup(table.table_id, "", group.file_id): (live,)}
    if action in actions.supported(table_type):
        assert instants.begin(table, command, others, NOW).action is action
    else:
        with pytest.raises(errors.ActionNotSupported):
            instants.begin(table, command, others, NOW)


def test_the_state_of_an_instant_follows_from_its_events() -> None:
    origin = Origin("actor", "request", Now(NOW, NOW))
    clock = Clock(TABLE.table_id, Tick.MILLISECOND)
    instant: Instant | None = None
    requested = InstantRequested(
        action=Action.COMMIT,
        operation=Operation.INSERT,
        state=State.REQUESTED,
        writer="writer",
        lease_seconds=LEASE_SECONDS,
        lease_expires_at=Micros(NOW + LEASE_SECONDS * SECOND),
    )
    seen: list[Event] = []
    for verb in ("", "inflight", "heartbeat", "complete"):
        payload = move(verb, instant) if instant is not None else requested
        assert payload is not None
        event = next_event(clock, origin, payload, instant.requested_time if instant else None)
        clock = advance(clock, event)
        instant = instants.evolve(instant, event)
        seen.append(event)
    assert instant is not None
    assert instant.state is State.COMPLETED
    assert instant.requested_time == seen[0].time
    assert instant.completion_time == seen[-1].time
    assert instant.lease_expires_at is None
    assert instant.version == 4


@pytest.mark.parametrize("ahead_us", [0, 3600 * SECOND], ids=["in time", "an hour ahead"])
def test_a_lease_runs_by_the_wall_clock_even_if_the_tables_clock_is_ahead(ahead_us: int) -> None:
    begin = instants.BeginInstant(TABLE.name, writer="writer", lease_seconds=LEASE_SECONDS)
    clock = Clock(TABLE.table_id, Tick.MILLISECOND, Micros(NOW + ahead_us))
    event = next_event(clock, Origin("actor", "request", Now(NOW, NOW)), instants.begin(TABLE, begin, {}, NOW))
    assert instants.evolve(None, event).lease_expires_at == NOW + LEASE_SECONDS * SECOND
