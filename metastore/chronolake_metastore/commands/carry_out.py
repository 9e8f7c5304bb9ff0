"""One command on the loaded part of the lake: decided, appended, answered. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from chronolake_metastore.commands import cataloging, cleans as cleaning, undoing
from chronolake_metastore.commands.answers import Answer, answer, answer_instant
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import (
    cleans,
    deletions,
    instants,
    leases,
    lists,
    reconciling,
    savepoints,
    staging,
    sweeps,
    tables,
    transactions,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import (
    DeletionsSwept,
    Event,
    FilesDeleted,
    InstantCompleted,
    Origin,
    Payload,
)
from chronolake_metastore.store.deletions import DeletedFiles
from chronolake_model.instants import CompletedTogether, Instant, InstantPage, StagedWriteStats
from chronolake_model.markers import DeletedFile, ReportedDeletions
from chronolake_model.sweeps import RecordedSweep
from chronolake_model.times import Micros, format_time, parse_time

_Write = (
    instants.BeginInstant
    | staging.StageWriteStats
    | deletions.ReportDeletions
    | sweeps.RecordSweep
    | instants.CompleteInstant
    | transactions.CompleteTogether
)
_Change = instants.TakeInflight | instants.ReturnToRequested | leases.RenewLease | savepoints.ReleaseSavepoint


def carry_out(lake: Lake, command: Command, origin: Origin) -> Answer:
    """Decide ``command`` and append what follows; raises ``TimelineError`` and leaves ``lake`` as it was."""
    if isinstance(command, cataloging.Command):
        return cataloging.carry_out(lake, command, origin)
    if isinstance(command, _Change):
        return _change(lake, command, origin)
    if isinstance(command, undoing.Command):
        return undoing.carry_out(lake, command, origin)
    if isinstance(command, cleans.PlanClean):
        return cleaning.carry_out(lake, command, origin)
    return _write(lake, command, origin)


def _write(lake: Lake, command: _Write, origin: Origin) -> Answer:
    match command:
        case instants.BeginInstant():
            return _begin(lake, command, origin)
        case staging.StageWriteStats():
            return _stage(lake, command, origin)
        case deletions.ReportDeletions():
            return _report(lake, command, origin)
        case sweeps.RecordSweep():
            return _sweep(lake, command, origin)
        case instants.CompleteInstant():
            return _complete(lake, command, origin)
        case transactions.CompleteTogether():
            return _complete_together(lake, command, origin)
        case _:
            assert_never(command)


def _begin(lake: Lake, command: instants.BeginInstant, origin: Origin) -> Answer:
    table = lake.table(command.table)
    payload = instants.begin(table, command, lake.concurrent, origin.now)
    if command.request.count is None:
        plan = command.request.plan
        listed = lists.NOTHING_LISTED if plan is None else lists.listed(plan_file_groups=plan.file_groups)
        event = lake.append(table.table_id, origin, payload, listed=listed)
        return answer_instant(201, lake, table, event.time)
    events = [lake.append(table.table_id, origin, payload) for _ in range(command.request.count)]
    return answer(201, InstantPage(_documents(lake, table, events), None), table.table_id)


def _documents(lake: Lake, table: tables.Table, begun: Sequence[Event]) -> list[Instant]:
    """Instants of one request: they differ in their times and versions only."""
    tick = table.definition.tick
    first = instants.document(table, lake.instants[table.table_id, begun[0].time])
    return [
        msgspec.structs.replace(first, requested_time=format_time(event.time, tick), version=event.version)
        for event in begun
    ]


def _complete(lake: Lake, command: instants.CompleteInstant, origin: Origin) -> Answer:
    table = _complete_one(lake, command, origin)
    return answer_instant(200, lake, table, command.requested_time)


def _complete_together(lake: Lake, command: transactions.CompleteTogether, origin: Origin) -> Answer:
    transactions.check(command)
    with lake.all_or_nothing():
        in_tables = [_complete_one(lake, member, origin) for member in command.members]
    done = [
        instants.document(table, lake.instants[table.table_id, member.requested_time])
        for table, member in zip(in_tables, command.members, strict=True)
    ]
    return answer(200, CompletedTogether(done), in_tables[0].table_id)


def _complete_one(lake: Lake, command: instants.CompleteInstant, origin: Origin) -> tables.Table:
    table = lake.table(command.table)
    instant = lake.instant(table, command.requested_time)
    unplanned = lake.unplanned.get(id(command), ())
    payload = instants.complete(
        table, instant, command.request, lake.concurrent, origin.now, lake.staged, unplanned
    )
    if command.request.cleaned_before is not None:
        payload = _cleaned(lake, table, instant, payload, parse_time(command.request.cleaned_before))
    if (undeleted := lake.undeleted.get((table.table_id, instant.requested_time))) is not None:
        cleans.refuse_undeleted(table, instant, *undeleted)
    if (reconciled := lake.reconciled.get(id(command))) is not None:
        reconciling.refuse(table, instant, command.request.write_stats, reconciled)
    replaced = lists.listed(replaced_file_groups=command.request.replaced_file_groups)
    stats = command.request.write_stats
    lake.append(table.table_id, origin, payload, instant.requested_time, stats, replaced)
    return table


def _cleaned(
    lake: Lake, table: tables.Table, clean: instants.Instant, payload: InstantCompleted, before: Micros
) -> InstantCompleted:
    past = lake.clean_histories[table.table_id, before]
    first = cleans.first_servable(table, clean, before, past, lake.instants_of(table.table_id))
    return msgspec.structs.replace(payload, cleaned_before=first)


def _stage(lake: Lake, command: staging.StageWriteStats, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = lake.instant(table, command.requested_time)
    unplanned = lake.unplanned.get(id(command), ())
    payload = staging.stage(table, instant, command.request, lake.concurrent, origin.now, unplanned)
    event = lake.append(table.table_id, origin, payload, instant.requested_time, command.request.write_stats)
    requested_time = format_time(instant.requested_time, table.definition.tick)
    staged = StagedWriteStats(table.name, requested_time, event.version, payload.summary)
    return answer(201, staged, table.table_id)


def _report(lake: Lake, command: deletions.ReportDeletions, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = lake.instant(table, command.requested_time)
    payload = deletions.report(table, instant, command.request, lake.contradicted)
    event = _append_deletions(lake, table, instant, payload, command.request.files, origin)
    requested_time = format_time(instant.requested_time, table.definition.tick)
    return answer(
        201, ReportedDeletions(table.name, requested_time, event.version, payload.files), table.table_id
    )


def _append_deletions(
    lake: Lake,
    table: tables.Table,
    instant: instants.Instant,
    payload: FilesDeleted,
    reported: Sequence[DeletedFile],
    origin: Origin,
) -> Event:
    event = lake.append(table.table_id, origin, payload, instant.requested_time)
    lake.deleted.append(DeletedFiles(table.table_id, event.version, payload.of, deletions.named(reported)))
    return event


def _sweep(lake: Lake, command: sweeps.RecordSweep, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = lake.instant(table, command.requested_time)
    payload = sweeps.record(table, instant, command.request, lake.contradicted)
    found = 0
    match payload:
        case FilesDeleted():
            found = payload.files
            _append_deletions(lake, table, instant, payload, command.request.found, origin)
        case DeletionsSwept():
            lake.append(table.table_id, origin, payload, instant.requested_time)
        case None:
            pass
    tick = table.definition.tick
    after = lake.instants[table.table_id, instant.requested_time]
    recorded = RecordedSweep(
        table.name,
        format_time(instant.requested_time, tick),
        found,
        instants.format_if(after.unswept_since, tick),
    )
    return answer(200, recorded, table.table_id)


def _change(lake: Lake, command: _Change, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = lake.instant(table, command.requested_time)
    payload: Payload
    match command:
        case instants.TakeInflight():
            payload = instants.take_inflight(table, instant, command, origin.now)
        case instants.ReturnToRequested():
            payload = instants.return_to_requested(table, instant, command, origin.now)
        case leases.RenewLease():
            payload = leases.renew(table, instant, command, origin.now)
        case savepoints.ReleaseSavepoint():
            payload = savepoints.release(table, instant, command)
        case _:
            assert_never(command)
    lake.append(table.table_id, origin, payload, instant.requested_time)
    return answer_instant(200, lake, table, instant.requested_time)
