"""The steps of a publication, computed from the log: read in bulk, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from chronolake_hudi import publishable
from chronolake_metastore.domain import events, publication, published_partitions, tables
from chronolake_metastore.domain.events import InstantCompleted, InstantRequested
from chronolake_metastore.domain.lists import ListName
from chronolake_metastore.domain.publication import UnreadableFiles
from chronolake_metastore.domain.publication_steps import (
    InstantFacts,
    LogEvent,
    Material,
)
from chronolake_metastore.domain.tables import Definition, Table
from chronolake_metastore.queries.publication_facts import FactLoading
from chronolake_metastore.queries.publication_log import Logs, TableLog
from chronolake_metastore.store import partitions, publication as stored, schemas
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.publication import HiddenLog, SharedPlan
from chronolake_model.file_names import FileKind, relative_path
from chronolake_model.times import MICROS_MAX, Micros
from chronolake_model.vocabulary import Action, TableType

SCHEMAS_MAX: Final = 10_000


class Pause(msgspec.Struct, frozen=True):
    """The first version that Hudi's readers cannot read, and why."""

    version: int
    reason: str


class StepPage(msgspec.Struct, frozen=True):
    """Facts for the steps after a version, and the version that Hudi's readers cannot read."""

    material: Material
    pause: Pause | None


async def load_names(logs: Logs, table: Table, after: int, until: int) -> Material:
    """Facts for the names of the files of the steps after a version, with the definitions at ``until``.

    Raises ``RowsArchived``, as the others of a log do.
    """
    log = await logs.of_table(table.table_id)
    page = await log.page(after)
    definitions = await _definitions(logs.connection, table, until)
    read = [event for event in page if event.version <= until]
    return await _material(FactLoading(logs.connection, log, table), definitions, read, with_content=False)


async def load_completed(logs: Logs, log: TableLog, table: Table, completed: Sequence[LogEvent]) -> Material:
    """Facts for completed instants, with the plans of compactions."""
    until = completed[-1].version if completed else 0
    definitions = await _definitions(logs.connection, table, until)
    loading = FactLoading(logs.connection, log, table)
    return await _material(loading, definitions, completed, with_plans_of_completed=True)


async def load(logs: Logs, table: Table, after: int, hidden_until: int) -> StepPage:
    """Facts for the steps after a version, up to the first event that Hudi's readers cannot read.

    The readers see no state up to ``hidden_until``.
    """
    connection, log = logs.connection, await logs.of_table(table.table_id)
    page = await log.page(after)
    until = page[-1].version if page else after
    definitions = await _definitions(connection, table, until)
    pause = await _find_pause(connection, table, page, definitions, hidden_until)
    pause = await _find_pause_of_logs(connection, table, page, hidden_until, pause)
    pause = await _find_pause_of_plans(connection, table, page, hidden_until, pause)
    material = await _material(FactLoading(connection, log, table), definitions, _before(page, pause))
    by_files = _find_unreadable_files(material, hidden_until)
    if by_files is None:
        return StepPage(material, pause)
    return StepPage(msgspec.structs.replace(material, events=_before(page, by_files)), by_files)


def _before(page: Sequence[LogEvent], pause: Pause | None) -> list[LogEvent]:
    return [event for event in page if pause is None or event.version < pause.version]


async def definitions_behind(connection: Connection, table: Table, version: int) -> list[Definition]:
    """The definitions that the table had since a version, the one of then among them."""
    definitions = await _definitions(connection, table, MICROS_MAX)
    first = max((at for at, _ in definitions if at <= version), default=0)
    return [definition for at, definition in definitions if at >= first]


async def head_reason(connection: Connection, table: Table, time: Micros) -> str | None:
    """Why Hudi's readers cannot read the table as it is; None if they can. ``time`` is its last."""
    reason = publishable.obstacle(table.definition)
    if reason is not None:
        return reason
    versions = {
        schema.schema_version: schema.fields
        for schema in await schemas.page(connection, table.table_id, 0, SCHEMAS_MAX)
    }
    unreadable = publication.unreadable_versions(table.definition.schema, versions)
    files = await _unreadable_files(connection, table, time, unreadable)
    if files is not None:
        return publication.pause_reason(next(iter(unreadable.values())), files)
    hidden = await _find_hidden_log(connection, table, time, time, live_only=True)
    if hidden is not None:
        return _reason_of_hidden(hidden)
    shared = await stored.find_shared_plan(connection, table.table_id, None)
    if shared is not None:
        return _reason_of_shared(shared)
    return await _reason_of_logs(connection, table, time, table.definition) or await _reason_of_partitions(
        connection, table, time
    )


async def _reason_of_logs(
    connection: Connection, table: Table, time: Micros, definition: Definition
) -> str | None:
    reason = publishable.log_obstacle(definition)
    if reason is None or not await stored.has_live_logs(connection, table.table_id, time):
        return None
    return reason


async def _reason_of_partitions(connection: Connection, table: Table, time: Micros) -> str | None:
    """Why Hudi's readers cannot read one of the partitions of a state that is published at once."""
    if not table.definition.partition_fields:
        return None
    paths = await partitions.paths(connection, table.table_id, "")
    unreadable = [path for path in paths if published_partitions.obstacle(table.definition, path)]
    live = await stored.first_live_partition(connection, table.table_id, time, unreadable)
    return None if live is None else published_partitions.obstacle(table.definition, live)


async def _definitions(connection: Connection, table: Table, until: int) -> list[tuple[int, Definition]]:
    """Each definition that the table had, by the version of the event that made it, in order."""
    changes = await stored.changes_of_table(connection, table.table_id, until)
    made: dict[int, Any] = {event.version: event for event in changes}
    versions = await schemas.page(connection, table.table_id, 0, SCHEMAS_MAX)
    made |= {
        schema.version: schema for schema in versions if schema.version <= until and schema.schema_version > 1
    }
    definitions: list[tuple[int, Definition]] = []
    present = table
    for version in sorted(made):
        change = made[version]
        payload = change.payload if isinstance(change, LogEvent) else None
        match payload:
            case events.TableCreated():
                present = tables.evolve_created(payload, table.table_id, change.time)
            case events.TableAltered():
                present = tables.evolve_altered(present, payload, change.time)
            case None:
                definition = msgspec.structs.replace(
                    present.definition, schema=change.fields, schema_version=change.schema_version
                )
                present = msgspec.structs.replace(present, definition=definition)
            case _:
                continue
        definitions.append((version, present.definition))
    return definitions


async def _find_pause(
    connection: Connection,
    table: Table,
    page: Sequence[LogEvent],
    definitions: Sequence[tuple[int, Definition]],
    hidden_until: int,
) -> Pause | None:
    """The first event of a page from which on Hudi's readers cannot read the table."""
    by_version = dict(definitions)
    versions = {definition.schema_version: definition.schema for _, definition in definitions}
    first = max(hidden_until, page[0].version - 1 if page else 0)
    present = next((made for at, made in reversed(definitions) if at <= first), None)
    unreadable: dict[int, str] = (
        {} if present is None else publication.unreadable_versions(present.schema, versions)
    )
    for event in page:
        if event.version <= hidden_until:
            continue
        column: str | None = None
        files: UnreadableFiles | None = None
        match event.payload:
            case events.TableCreated() | events.TableAltered() | events.TableSchemaChanged():
                present = by_version[event.version]
                reason = publishable.obstacle(present)
                reason = reason or await _reason_of_logs(connection, table, event.time, present)
                if reason is not None:
                    return Pause(event.version, reason)
                unreadable = publication.unreadable_versions(present.schema, versions)
                files = await _unreadable_files(connection, table, event.time, unreadable)
                column = None if files is None else next(iter(unreadable.values()))
            case InstantCompleted(schema_version=int(version), summary=summary) if summary.files:
                column = unreadable.get(version)
            case _:
                pass
        if column is not None:
            return Pause(event.version, publication.pause_reason(column, files))
    return None


async def _find_pause_of_logs(
    connection: Connection, table: Table, page: Sequence[LogEvent], hidden_until: int, pause: Pause | None
) -> Pause | None:
    """The pause at the first log file that Hudi's readers would leave out, if it is before ``pause``."""
    shown = [event for event in page if event.version > hidden_until]
    if not shown:
        return pause
    after = Micros(shown[0].time - 1)
    hidden = await _find_hidden_log(connection, table, after, shown[-1].time)
    if hidden is None:
        return pause
    version = next(event.version for event in shown if event.time >= hidden.live_from)
    if pause is not None and pause.version <= version:
        return pause
    return Pause(version, _reason_of_hidden(hidden))


async def _find_pause_of_plans(
    connection: Connection, table: Table, page: Sequence[LogEvent], hidden_until: int, pause: Pause | None
) -> Pause | None:
    """The pause at the first plan of a compaction that shares a file group, if it is before ``pause``."""
    versions = {event.time: event.version for event in _compactions(page) if event.version > hidden_until}
    shared = await stored.find_shared_plan(connection, table.table_id, list(versions)) if versions else None
    if shared is None or (pause is not None and pause.version <= versions[shared.requested_time]):
        return pause
    return Pause(versions[shared.requested_time], _reason_of_shared(shared))


def _reason_of_shared(shared: SharedPlan) -> str:
    group = relative_path(shared.partition_path, shared.file_id)
    return publication.reason_of_shared_plan(group, shared.undone)


def _compactions(page: Sequence[LogEvent]) -> list[LogEvent]:
    """The requests of compactions."""
    return [
        event
        for event in page
        if isinstance(event.payload, InstantRequested) and event.payload.action is Action.COMPACTION
    ]


async def _find_hidden_log(
    connection: Connection, table: Table, after: Micros, until: Micros, *, live_only: bool = False
) -> HiddenLog | None:
    if table.definition.type is not TableType.MERGE_ON_READ:
        return None
    return await stored.find_hidden_log(connection, table.table_id, after, until, live_only=live_only)


def _reason_of_hidden(hidden: HiddenLog) -> str:
    group = relative_path(hidden.partition_path, hidden.file_id)
    return publication.reason_of_hidden_log(group, hidden.hidden_by)


def _find_unreadable_files(material: Material, hidden_until: int) -> Pause | None:
    """The first event of a page that writes a file where Hudi's readers cannot read it."""
    for event in material.events:
        if event.version <= hidden_until or not isinstance(event.payload, InstantCompleted):
            continue
        assert event.instant is not None
        definition = next(made for at, made in reversed(material.definitions) if at <= event.version)
        files = material.written.get(event.instant, ())
        has_logs = any(file.kind is FileKind.LOG for file in files)
        reason = publishable.log_obstacle(definition) if has_logs else None
        for path in sorted({file.partition_path for file in files if file.is_first}):
            reason = reason or published_partitions.obstacle(definition, path)
        if reason is not None:
            return Pause(event.version, reason)
    return None


async def _unreadable_files(
    connection: Connection, table: Table, time: Micros, versions: dict[int, str]
) -> UnreadableFiles | None:
    return await stored.unreadable_files(connection, table.table_id, time, list(versions)) if versions else None


async def _material(
    loading: FactLoading,
    definitions: Sequence[tuple[int, Definition]],
    page: Sequence[LogEvent],
    *,
    with_content: bool = True,
    with_plans_of_completed: bool = False,
) -> Material:
    completed = {
        event.instant: event
        for event in page
        if isinstance(event.payload, InstantCompleted) and event.instant is not None
    }
    compactions = [event.time for event in _compactions(page)]
    released = [
        event.instant
        for event in page
        if isinstance(event.payload, events.SavepointReleased) and event.instant is not None
    ]
    table = loading.table
    rows = await loading.instants([*completed, *released])
    instants = {time: facts for time, facts, _ in rows}
    if with_plans_of_completed:
        compactions += [time for time in completed if instants[time].begun_as is Action.COMPACTION]
    cleans = _cleans(table, completed, instants)
    undoing = [time for time in completed if instants[time].begun_as in (Action.ROLLBACK, Action.RESTORE)]
    savepoints = {
        time: facts.target
        for time, facts in instants.items()
        if facts.begun_as is Action.SAVEPOINT and time in completed and facts.target is not None
    }
    replacing = _replacing(completed)
    if with_content:
        loading.find_archived(completed, [*undoing, *compactions])
    else:
        loading.find_archived({}, undoing)
    material = Material(
        table_id=str(table.table_id),
        created_at=table.created_at,
        definitions=definitions,
        events=page,
        instants=instants,
        undone=await loading.undone(undoing),
        retained=cleans,
        purged=await loading.purged(cleans),
        released={time: ended for time, _, ended in rows if time in released and ended is not None},
    )
    if not with_content:
        return material
    return msgspec.structs.replace(
        material,
        written=await loading.written(completed),
        replaced=await loading.groups(replacing, ListName.REPLACED_FILE_GROUPS),
        planned=await loading.groups(compactions, ListName.PLAN_FILE_GROUPS),
        plans=await loading.planned_files(compactions),
        saved=await loading.saved_files(savepoints),
        last_completed=await loading.last_completed(cleans),
        pinned=await loading.pinned(cleans),
    )


def _cleans(
    table: Table, completed: dict[Micros, LogEvent], instants: dict[Micros, InstantFacts]
) -> dict[Micros, Micros]:
    """The earliest commit to retain of each clean that has one, or before which files were deleted."""
    cleans: dict[Micros, Micros] = {}
    for time, event in completed.items():
        if instants[time].begun_as is not Action.CLEAN:
            continue
        assert isinstance(event.payload, InstantCompleted)
        facts, payload = instants[time], event.payload
        earliest = facts.earliest_commit_to_retain or payload.earliest_commit_to_retain
        if earliest is not None or (facts.cleaned_before or payload.cleaned_before) is not None:
            # Without an earlier write, only the commit at the creation is retained.
            cleans[time] = table.created_at if earliest is None else earliest
    return cleans


def _replacing(completed: dict[Micros, LogEvent]) -> list[Micros]:
    return [
        time
        for time, event in completed.items()
        if isinstance(event.payload, InstantCompleted) and event.payload.replaced_file_groups.count
    ]
