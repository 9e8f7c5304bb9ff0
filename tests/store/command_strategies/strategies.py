"""The strategies of commands: how often each is drawn, and for which tables it makes sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chronolake_model.vocabulary import Action, State
from tests.store.command_strategies import cleans, completions, instants, tables, undoing
from tests.store.command_strategies.draws import DrawnCommand, Draws
from tests.store.model import Timeline


@dataclass(frozen=True)
class Strategy:
    """Draws commands on a table: one, or a few that belong together."""

    draw: Callable[[Draws, str], list[DrawnCommand]]
    weight: int
    is_sensible: Callable[[Timeline], bool]
    needs_instant: bool = True


def draw(draws: Draws) -> list[DrawnCommand]:
    """Usually commands that make sense; of a table that does not exist its creation."""
    name = draws.pick(draws.active)
    timeline = draws.timelines.get(name)
    if timeline is None:
        return [tables.create(draws.timelines, name, draws.now)]
    strategy = draws.pick(_sensible(timeline) if draws.usually() else _WEIGHTED)
    if strategy.needs_instant and not timeline.instants:
        return instants.begin(draws, name)
    return strategy.draw(draws, name)


def _sensible(timeline: Timeline) -> list[Strategy]:
    return [strategy for strategy in _WEIGHTED if strategy.is_sensible(timeline)]


def _always(_: Timeline) -> bool:
    return True


def _states(timeline: Timeline) -> set[State]:
    unfit = (Action.SAVEPOINT, Action.RESTORE)
    return {instant.state for instant in timeline.instants.values() if instant.action not in unfit}


def _has_inflight(timeline: Timeline) -> bool:
    return State.INFLIGHT in _states(timeline)


def _has_requested(timeline: Timeline) -> bool:
    return State.REQUESTED in _states(timeline)


def _has_pending(timeline: Timeline) -> bool:
    return not _states(timeline).isdisjoint({State.REQUESTED, State.INFLIGHT})


def _has_written(timeline: Timeline) -> bool:
    return any(instant.is_completed_write for instant in timeline.instants.values())


def _has_savepoint(timeline: Timeline) -> bool:
    return any(instant.is_savepoint for instant in timeline.instants.values())


def _has_history(timeline: Timeline) -> bool:
    return len(timeline.instants) > 5


STRATEGIES: Final = (
    Strategy(instants.begin, 10, _always, needs_instant=False),
    Strategy(completions.complete, 14, _has_inflight),
    Strategy(completions.stage, 5, _has_inflight),
    Strategy(completions.cluster, 5, _has_written),
    Strategy(instants.take_inflight, 2, _has_requested),
    Strategy(instants.return_to_requested, 1, _has_inflight),
    Strategy(instants.renew, 1, _has_pending),
    Strategy(undoing.roll_back, 2, _has_pending),
    Strategy(undoing.save, 2, _has_written),
    Strategy(undoing.release, 1, _has_savepoint),
    Strategy(undoing.restore, 1, _has_savepoint),
    Strategy(completions.complete_together, 2, _has_inflight, needs_instant=False),
    Strategy(tables.drop_and_create, 1, _has_history, needs_instant=False),
    Strategy(tables.change_schema, 2, _always, needs_instant=False),
    Strategy(cleans.writers_clean, 5, _has_written),
    Strategy(cleans.planned_clean, 8, _has_written),
)
_WEIGHTED: Final = tuple(strategy for strategy in STRATEGIES for _ in range(strategy.weight))
