"""Commands that publish files: complete one instant or several at once, and stage write stats before that."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from chronolake_metastore.domain import instants as domain, staging, transactions
from chronolake_metastore.domain.results import AnyResult
from chronolake_model import instants as wire
from chronolake_model.files import WriteStat
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, State, TableType, Touch
from tests.store import shown
from tests.store.command_strategies import instants
from tests.store.command_strategies.draws import KINDS, DrawnCommand, Draws, group_name, missing, write_stat
from tests.store.model import Timeline
from tests.store.model_of_instants import Group, Instant, Refusals, Touched

START: Final = 1_700_000_000_000_000
"""Earlier than any time that a table gives."""
_LATER: Final = 10**18
"""Later than any time that a table gives."""


def complete(draws: Draws, name: str) -> list[DrawnCommand]:
    return [completion(draws, name)[2]]


def completion(draws: Draws, name: str) -> tuple[int, list[Touched], DrawnCommand]:
    """An instant to complete, and the file groups that it touches."""
    time = draws.instant(name, lambda instant: instant.state is State.INFLIGHT)
    touched = _touched(draws, name, draws.timelines[name].instants[time])
    staged = draws.timelines[name].staged.get(time)
    if not staged or not draws.usually():
        return time, touched, complete_instant(draws, name, time, touched)
    versions = [*staged] if draws.usually() else draws.subset([*staged, 1], 1)
    replaced = [(how, group) for how, group in touched if how is Touch.REPLACED]
    touched = [*(write for version in versions for write in staged.get(version, [])), *replaced]
    return time, touched, _complete_staged(draws, name, time, versions, touched)


def complete_instant(draws: Draws, name: str, time: int, touched: Sequence[Touched]) -> DrawnCommand:
    """Complete an instant that touched these file groups."""
    command = _command(draws, name, time, touched)
    writer, cleaned_before = command.writer, _cleaned_before(command)

    def apply(result: AnyResult) -> None:
        document = shown.instant(result)
        _completed(draws, name, time, touched, document, cleaned_before)

    return draws.command(
        name,
        time,
        command,
        lambda timeline: timeline.may_complete(time, touched, writer, draws.now, cleaned_before),
        apply,
    )


def cluster(draws: Draws, name: str) -> list[DrawnCommand]:
    """Complete a clustering, or begin one: chance alone does both rarely."""
    timeline = draws.timelines[name]
    inflight = [
        instant.time
        for instant in timeline.instants.values()
        if instant.action is Action.CLUSTERING and instant.state is State.INFLIGHT
    ]
    if not inflight:
        return instants.begin(draws, name, Action.CLUSTERING)
    time = draws.pick(inflight)
    return [complete_instant(draws, name, time, _touched(draws, name, timeline.instants[time]))]


def stage(draws: Draws, name: str) -> list[DrawnCommand]:
    """Stage the write stats of an inflight instant."""
    time = draws.instant(name, lambda instant: instant.state is State.INFLIGHT)
    touched = _touched(draws, name, draws.timelines[name].instants[time])
    written = [(how, group) for how, group in touched if how is not Touch.REPLACED]
    written = written or [(Touch.BASE, instants.current(draws.timelines[name])[0])]
    writer = None if draws.usually() else draws.writer_of(name, time)

    def apply(result: AnyResult) -> None:
        document = shown.staged(result)
        assert document.requested_time == time
        assert document.summary.files == len(written)
        draws.timelines[name].has_staged(time, document.version, written)

    return [
        draws.command(
            name,
            time,
            staging.StageWriteStats(name, Micros(time), _write_stats(draws, name, time, written), writer),
            lambda timeline: timeline.may_stage(time, written, writer, draws.now),
            apply,
        )
    ]


def complete_together(draws: Draws, name: str) -> list[DrawnCommand]:
    """Complete instants of some tables in one transaction; without any, begin one in table ``name``."""
    names = [each for each in draws.active if each in draws.timelines and draws.timelines[each].instants]
    members: list[tuple[str, int, list[Touched]]] = []
    for member in draws.data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)) if names else []:
        time, touched, _ = completion(draws, member)
        # A file that was staged twice would be reported twice.
        members.append((member, time, list(dict.fromkeys(touched))))
    if not members:
        return instants.begin(draws, name)
    commands = [_command(draws, *member) for member in members]

    def refusals() -> Refusals:
        if len({(table, time) for table, time, _ in members}) < len(members):
            return {Code.INVALID_PLAN: None}
        trial = copy.deepcopy(draws.timelines)
        for at, ((table, time, touched), command) in enumerate(zip(members, commands, strict=True)):
            if nothing := missing(trial, table, time):
                return nothing
            writer, cleaned_before = command.writer, _cleaned_before(command)
            if refused := trial[table].may_complete(time, touched, writer, draws.now, cleaned_before):
                return refused
            _complete_trial(trial[table], time, _LATER + at, touched)
        return {}

    def apply(result: AnyResult) -> None:
        documents = shown.together(result)
        for (table, time, touched), document, command in zip(members, documents, commands, strict=True):
            _completed(draws, table, time, touched, document, _cleaned_before(command))

    return [DrawnCommand(transactions.CompleteTogether(commands), refusals, apply)]


def _complete_trial(trial: Timeline, time: int, at: int, touched: Sequence[Touched]) -> None:
    for clustering in trial.has_completed(time, at, touched):
        trial.rolled_back(clustering, None)


def _complete_staged(
    draws: Draws, name: str, time: int, versions: Sequence[int], touched: Sequence[Touched]
) -> DrawnCommand:
    writer = None if draws.usually() else draws.writer_of(name, time)
    replaced = [group_name(group) for how, group in touched if how is Touch.REPLACED]
    return draws.command(
        name,
        time,
        domain.CompleteInstant(
            name, Micros(time), replaced_file_groups=replaced, writer=writer, staged=[*versions]
        ),
        lambda timeline: timeline.may_complete_staged(time, versions, touched, writer, draws.now),
        lambda result: _completed(draws, name, time, touched, shown.instant(result)),
    )


def _command(draws: Draws, name: str, time: int, touched: Sequence[Touched]) -> domain.CompleteInstant:
    stats = _write_stats(draws, name, time, touched)
    replaced = [group_name(group) for how, group in touched if how is Touch.REPLACED]
    writer = None if draws.usually() else draws.writer_of(name, time)
    return domain.CompleteInstant(
        name,
        Micros(time),
        stats,
        replaced_file_groups=replaced,
        writer=writer,
        cleaned_before=_cleans_before(draws, name, time),
    )


def _write_stats(draws: Draws, name: str, time: int, touched: Sequence[Touched]) -> list[WriteStat]:
    records = draws.timelines[name].instants[time].records
    return [write_stat(name, time, how, group, records) for how, group in touched if how is not Touch.REPLACED]


def _cleans_before(draws: Draws, name: str, time: int) -> Micros | None:
    timeline = draws.timelines[name]
    is_clean = timeline.instants[time].action is Action.CLEAN
    if is_clean is not draws.usually() or not (is_clean or draws.usually()):
        return None
    completions = timeline.completions()
    # Before all, and a little behind each of them: a time behind the last completion is later than allowed.
    times = [START, *completions, *(completion + 1_000 for completion in completions)]
    time = draws.pick(times)
    return Micros(time - time % KINDS[name].tick.micros)


def _cleaned_before(command: domain.CompleteInstant) -> int | None:
    return command.cleaned_before


def _completed(
    draws: Draws,
    name: str,
    time: int,
    touched: Sequence[Touched],
    document: wire.Instant,
    cleaned_before: int | None = None,
) -> None:
    assert parse_time(document.requested_time) == time
    assert document.completion_time is not None
    at, timeline = parse_time(document.completion_time), draws.timelines[name]
    tick = KINDS[name].tick.micros
    cancelled = timeline.has_completed(time, at, touched, cleaned_before)
    # Three events each: the rollback, that of the clustering, and the completion of the rollback.
    for number, clustering in enumerate(cancelled):
        requested = at + (3 * number + 1) * tick
        rollback = draws.inflight(Action.ROLLBACK, requested, clustering, document.writer)
        timeline.settled(rollback, requested + 2 * tick)
        timeline.rolled_back(clustering, requested)


def _touched(draws: Draws, name: str, instant: Instant) -> list[Touched]:
    if not draws.usually():
        touched = st.tuples(st.sampled_from([*Touch]), st.sampled_from(instants.ANY_GROUP))
        return draws.data.draw(st.lists(touched, unique=True, max_size=3))
    timeline = draws.timelines[name]
    current, live = instants.current(timeline), sorted(timeline.seen())
    kinds = (Touch.BASE, Touch.LOG) if timeline.type is TableType.MERGE_ON_READ else (Touch.BASE,)
    match instant.action:
        case Action.COMMIT | Action.DELTACOMMIT:
            written = [(how, group) for group in current for how in kinds]
            return draws.subset(written, 1)
        case Action.REPLACECOMMIT:
            going = draws.subset(live, 1)
            return _replaced(going, draws.subset([_next(group) for group in going], 0))
        case Action.CLUSTERING:
            going = [*instant.plan]
            return _replaced(going, draws.subset([_next(group) for group in going], 0))
        case Action.COMPACTION | Action.LOGCOMPACTION:
            how = Touch.BASE if instant.action is Action.COMPACTION else Touch.LOG
            return [(how, group) for group in draws.subset([*instant.plan], 1)]
        case _:
            return []


def _next(group: Group) -> Group:
    return group[0], group[1] + 1


def _replaced(going: Sequence[Group], written: Sequence[Group]) -> list[Touched]:
    return [(Touch.REPLACED, group) for group in going] + [(Touch.BASE, group) for group in written]
