"""Commands that undo instants: roll back, save, release a savepoint, restore."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import asdict

from chronolake_metastore.domain import restores, rollbacks, savepoints
from chronolake_metastore.domain.results import AnyResult
from chronolake_model import instants as wire
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, State, Touch
from tests.store import shown
from tests.store.command_strategies.draws import KINDS, LEASE_SECONDS, DrawnCommand, Draws, write_stat


def roll_back(draws: Draws, name: str) -> list[DrawnCommand]:
    time = draws.instant(name, lambda instant: instant.is_pending)
    written = [write_stat(name, time, how, (0, 0)).file_name for how in (Touch.BASE, Touch.LOG)]
    request = wire.RollbackInstant(
        writer=draws.writer_of(name, time),
        reason="given up",
        files_to_delete=[] if draws.usually() else written,
        lease_seconds=LEASE_SECONDS,
    )

    def apply(result: AnyResult) -> None:
        timeline, document = draws.timelines[name], shown.instant(result)
        before = timeline.instants[time]
        assert document.state is State.ROLLED_BACK
        by = None if document.rolled_back_by is None else parse_time(document.rolled_back_by)
        if before.state is State.ROLLED_BACK:
            assert by == before.undone_by, "an instant has one rollback"
            if by is not None:
                timeline.resumed(by, request.writer, request.lease_seconds, draws.now)
            return
        assert by is not None
        rollback = draws.inflight(Action.ROLLBACK, by, time, request.writer)
        if request.files_to_delete:
            timeline.begun(rollback)
        else:
            timeline.settled(rollback, by + 2 * KINDS[name].tick.micros)
        timeline.rolled_back(time, by)

    return [
        draws.command(
            name,
            time,
            rollbacks.RollbackInstant(name, Micros(time), **asdict(request)),
            lambda timeline: timeline.may_roll_back(time, request.writer, draws.now),
            apply,
        )
    ]


def save(draws: Draws, name: str) -> list[DrawnCommand]:
    """Create a savepoint of an instant, or of the latest write."""
    pinned = None
    if draws.data.draw(st.booleans()):
        pinned = draws.instant(name, lambda instant: instant.is_completed_write)

    def apply(result: AnyResult) -> None:
        timeline, document = draws.timelines[name], shown.instant(result)
        target = timeline.latest_write() if pinned is None else pinned
        assert document.target is not None
        assert parse_time(document.target) == target
        time, existing = parse_time(document.requested_time), timeline.savepoint_of(target)
        if existing is not None:
            assert time == existing, "an instant has one savepoint"
            return
        assert document.completion_time is not None
        savepoint = draws.inflight(Action.SAVEPOINT, time, target, "operator")
        timeline.settled(savepoint, parse_time(document.completion_time))

    command = savepoints.CreateSavepoint(name, None if pinned is None else Micros(pinned), "operator")
    return [draws.command(name, pinned, command, lambda timeline: timeline.may_save(pinned), apply)]


def release(draws: Draws, name: str) -> list[DrawnCommand]:
    """Release a savepoint."""
    time = draws.instant(name, lambda instant: instant.is_savepoint)
    return [
        draws.command(
            name,
            time,
            savepoints.ReleaseSavepoint(name, Micros(time), "operator"),
            lambda timeline: {} if timeline.instants[time].is_savepoint else {Code.ILLEGAL_TRANSITION: None},
            lambda _: draws.timelines[name].rolled_back(time, None),
        )
    ]


def restore(draws: Draws, name: str) -> list[DrawnCommand]:
    """Restore a table to a savepoint."""
    savepoint = draws.instant(name, lambda instant: instant.is_savepoint)

    def apply(result: AnyResult) -> None:
        timeline, document = draws.timelines[name], shown.instant(result)
        time, undone = parse_time(document.requested_time), timeline.undone_by_restore(savepoint)
        assert document.plan is not None
        assert [parse_time(instant) for instant in document.plan.instants] == undone
        assert document.completion_time is not None
        at = parse_time(document.completion_time)
        timeline.settled(draws.inflight(Action.RESTORE, time, savepoint, "operator"), at)
        for instant in undone:
            timeline.rolled_back(instant, time, at)

    command = restores.RestoreTable(name, Micros(savepoint), "operator")
    return [draws.command(name, savepoint, command, lambda timeline: timeline.may_restore(savepoint), apply)]
