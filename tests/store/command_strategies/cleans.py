"""Commands of cleans: those that a writer begins, and those that the server plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from chronolake_metastore.domain import cleans, deletions
from chronolake_metastore.domain.results import AnyResult
from chronolake_model import cleans as wire_cleans
from chronolake_model.file_names import FileKind, bucket_of, generation_of, parse_file_name
from chronolake_model.markers import DeletedFile
from chronolake_model.times import Micros, parse_time
from chronolake_model.vocabulary import Action, State, Touch
from tests.store import model_of_cleans, shown
from tests.store.command_strategies import completions, instants
from tests.store.command_strategies.draws import LEASE_SECONDS, WRITERS, DrawnCommand, Draws, write_stat
from tests.store.model_of_cleans import File
from tests.store.model_of_instants import Instant

POLICIES: Final = (
    wire_cleans.CleanPolicy(retain_commits=1),
    wire_cleans.CleanPolicy(retain_commits=3),
    wire_cleans.CleanPolicy(retain_hours=1),
    wire_cleans.CleanPolicy(retain_versions=1),
    wire_cleans.CleanPolicy(retain_versions=2),
)


def writers_clean(draws: Draws, name: str) -> list[DrawnCommand]:
    """The next step of a clean whose files a writer chooses."""
    begun = [
        instant.time
        for instant in draws.timelines[name].instants.values()
        if instant.state is State.INFLIGHT and instant.action is Action.CLEAN
    ]
    if not begun:
        return instants.begin(draws, name, Action.CLEAN)
    return [completions.complete_instant(draws, name, draws.pick(begun), [])]


def planned_clean(draws: Draws, name: str) -> list[DrawnCommand]:
    """The next step of a clean that the server plans."""
    pending = draws.timelines[name].pending_clean()
    if pending is None or pending.state is State.REQUESTED or not draws.usually():
        return [_plan(draws, name)]
    if pending.has_reported:
        return [completions.complete_instant(draws, name, pending.time, [])]
    return [_report(draws, name, pending)]


def _plan(draws: Draws, name: str) -> DrawnCommand:
    policy = draws.pick(POLICIES)
    request = wire_cleans.PlanClean(
        **msgspec.structs.asdict(policy),
        writer=draws.pick(WRITERS),
        lease_seconds=LEASE_SECONDS,
        execute=draws.usually(),
    )

    def apply(result: AnyResult) -> None:
        timeline = draws.timelines[name]
        clean = shown.clean(result)
        pending = timeline.pending_clean()
        if pending is not None:
            assert clean is not None
            assert parse_time(clean.requested_time) == pending.time, "at most one planned clean is pending"
            if request.execute:
                timeline.resumed_clean(pending.time, request.writer, LEASE_SECONDS, draws.now)
            return
        timeline.forget_readers(draws.now)
        left = model_of_cleans.deletable(timeline, policy, draws.now)
        if clean is None:
            assert left == {}
            return
        assert clean.plan is not None
        # The answer has the first files of a long plan, and how many there are.
        assert {_file_at(path) for path in clean.plan.files_to_delete} <= left.keys()
        assert clean.plan.files_to_delete_count == len(left)
        assert clean.plan.cleaned_before is not None
        assert parse_time(clean.plan.cleaned_before) == max(left.values())
        begun = draws.inflight(Action.CLEAN, parse_time(clean.requested_time), None, request.writer)
        if not request.execute:
            begun = replace(begun, state=State.REQUESTED, lease_end=None)
        version = timeline.writes_with(Action.CLEAN)
        timeline.planned_clean(replace(begun, files_to_delete=frozenset(left), schema_version=version), left)

    return draws.command(
        name,
        None,
        cleans.PlanClean(
            name,
            cleans.Retention(policy.retain_commits, policy.retain_hours, policy.retain_versions),
            request.writer,
            request.lease_seconds,
            request.execute,
        ),
        lambda timeline: timeline.may_plan_clean(request.writer, request.execute, draws.now),
        apply,
    )


def _report(draws: Draws, name: str, clean: Instant) -> DrawnCommand:
    writer = draws.writer_of(name, clean.time)
    files = [
        DeletedFile("", write_stat(name, time, how, group).file_name)
        for time, how, group in sorted(clean.files_to_delete)
    ]
    return draws.command(
        name,
        clean.time,
        deletions.ReportDeletions(name, Micros(clean.time), files, writer),
        lambda timeline: timeline.may_report(clean.time, writer),
        lambda _: draws.timelines[name].has_reported(clean.time),
    )


def _file_at(path: str) -> File:
    """The file of the model that has this path."""
    name = parse_file_name(path)
    how = Touch.LOG if name.kind is FileKind.LOG else Touch.BASE
    return parse_time(name.requested_time), how, (bucket_of(name.file_id), generation_of(name.file_id))
