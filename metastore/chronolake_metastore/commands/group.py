"""A group of commands in one transaction: lock, load, decide each, append and project, commit.

A refused command gets its own error, which is recorded like an answer, and does not affect the others. A group
costs the same few statements, regardless of its size.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands import authorizing, recording
from chronolake_metastore.commands.archived_keys import ArchivedKeys, AskArchive
from chronolake_metastore.commands.authorizing import RightsOfGroup
from chronolake_metastore.commands.handler import Answer, Loading, Names, Sharing, combined, fetch, single_query
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.commands.registry import HANDLERS, AnyHandler
from chronolake_metastore.domain import commands
from chronolake_metastore.domain.changes import InstantKey
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.denials import denial_of
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.logs import CATALOG_ID, commit_wait, drift
from chronolake_metastore.domain.recent_records import RecentRecords
from chronolake_metastore.domain.refusals import DETAIL_CHARS_MAX, bounded_context, bounded_text
from chronolake_metastore.domain.results import AnyRecorded, Refused
from chronolake_metastore.domain.rights import UNLIMITED, Needs, check, without_hidden
from chronolake_metastore.domain.state import Loaded, State
from chronolake_metastore.domain.subjects import key_in
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.projections import registry as projections
from chronolake_metastore.projections.projection import Named
from chronolake_metastore.store import archived, catalog, clocks, outcomes, reconciling, refusals
from chronolake_metastore.store.archived import LogBorder
from chronolake_metastore.store.postgres.transaction import Session, Statement, Transaction
from chronolake_model.problems import ProblemCode
from chronolake_model.roles import Right
from chronolake_model.times import MICROS_PER_SECOND

_EVENTS_AT_ONCE: Final = 500
"""This number of events is sent before the answer to the command is made."""


class Task(msgspec.Struct, frozen=True):
    """A request, the handler of its command, and what the command names.

    ``needs`` is the right that the caller needs; None for one that may do everything. ``denials`` bounds how
    many denials of its subject are recorded.
    """

    request: Request
    command: Command
    handler: AnyHandler
    names: Names
    needs: Needs | None = None
    denials: RecentRecords | None = None


Result = Answer | errors.TimelineError


class _Records(msgspec.Struct):
    """The outcomes and refusals of a group's commands."""

    known: dict[str, outcomes.StoredOutcome]
    rights: RightsOfGroup
    denials: Sequence[errors.TimelineError | None]
    """Why the caller of each task lacks a right; None if it has it."""
    unread: dict[str, errors.Unavailable] = {}
    decided: list[outcomes.StoredOutcome] = []
    refused: list[refusals.RefusedCommand] = []

    def add(self, outcome: outcomes.StoredOutcome) -> None:
        """Record an outcome. A later request of the group with the same id gets it too."""
        self.decided.append(outcome)
        self.known[outcome.request_id] = outcome


class GroupResult(msgspec.Struct, frozen=True):
    """The results of a group, in the order of its requests, and the drift of the clocks of its tables.

    ``commit_waits`` is how long each result must be delayed, in seconds; ``drift_us`` the largest drift of a
    clock, in microseconds.
    """

    results: list[Result]
    commit_waits: list[float]
    drift_us: int


def request_of(ctx: Context, command: Command, *, records_refusal: bool = True) -> Request:
    """The request of a caller for a command; raises ``InvalidRequest`` for a text that cannot be stored."""
    canonical = commands.canonical(command)
    commands.refuse_nul(canonical)
    return Request(ctx, command, commands.fingerprint(canonical), len(canonical), records_refusal)


def task_of(request: Request, right: Right | None = None, denials: RecentRecords | None = None) -> Task:
    """The request with its handler. Without a ``right`` its caller may do everything."""
    command = request.command
    handler = HANDLERS[type(command)]
    names = handler.names(command)
    needs = None if right is None else authorizing.needs_of(names, right)
    return Task(request, command, handler, names, needs, denials)


async def run(session: Session, requests: Sequence[Request], drift_max_us: int) -> GroupResult:
    """Execute ``requests``, in their order, in one transaction if they may share one.

    Raises ``DatabaseUnavailable``, ``OutcomeRaced``, ``MarkedMeanwhile`` or another error that ended the
    transaction. Then it is unknown whether the requests were executed. They may be run again: their request ids
    show it.
    """
    return await run_tasks(session, [task_of(request) for request in requests], drift_max_us)


async def run_tasks(session: Session, tasks: Sequence[Task], drift_max_us: int) -> GroupResult:
    """Execute ``tasks``; see ``run``."""
    groups = [await _run_together(session, group, drift_max_us) for group in _split(tasks)]
    return GroupResult(
        [result for group in groups for result in group.results],
        [wait for group in groups for wait in group.commit_waits],
        max((group.drift_us for group in groups), default=0),
    )


def _split(tasks: Sequence[Task]) -> list[list[Task]]:
    """The tasks by transaction, as far as they may share one."""
    groups: list[list[Task]] = [[]]
    for task in tasks:
        sharing = task.handler.sharing(task.command)
        if sharing is Sharing.ALONE:
            groups.append([])
        groups[-1].append(task)
        if sharing is not Sharing.SHARED:
            groups.append([])
    return [group for group in groups if group]


async def _run_together(session: Session, tasks: Sequence[Task], drift_max_us: int) -> GroupResult:
    keys = ArchivedKeys(session.database)
    while True:
        try:
            return await _run_once(session, tasks, keys, drift_max_us)
        except AskArchive as question:
            await keys.ask(question)


async def _run_once(
    session: Session, tasks: Sequence[Task], keys: ArchivedKeys, drift_max_us: int
) -> GroupResult:
    async with session.begin() as tx:
        ahead = await _look_ahead(tx, tasks)
        state, now, known, border, rights = await _load_state(tx, tasks, session.database.default_locations)
        request_ids = [task.request.ctx.request_id for task in tasks]
        of_archive, unread = keys.find(border, [key for key in request_ids if key not in known])
        if of_archive:
            left = await tx.fetch_one(archived.find_left(of_archive.values()))
            of_archive = {key: outcome for key, outcome in of_archive.items() if key in left}
        denials = _denials(tasks, rights)
        evidence = await _load_evidence(tx, state, tasks, ahead, denials, now)
        before = dict(state.clocks)
        records = _Records(known | of_archive, rights, denials, unread)
        results: list[Result] = []
        await tx.commit(_execute(state, tasks, evidence, now, records, results))
    drift_us = max((drift(clock, now.wall) for clock in state.clocks.values()), default=0)
    if drift_us <= drift_max_us:
        return GroupResult(results, [0.0] * len(tasks), drift_us)
    waits = {
        table_id: wait_us / MICROS_PER_SECOND
        for table_id, clock in before.items()
        if (wait_us := commit_wait(clock, state.clocks[table_id], now.wall, drift_max_us))
    }
    return GroupResult(results, [_commit_wait(state, task.names, waits) for task in tasks], drift_us)


def _execute(
    state: State,
    tasks: Sequence[Task],
    evidence: Sequence[Any],
    now: Now,
    records: _Records,
    results: list[Result],
) -> Iterator[Statement]:
    """Decide ``tasks``, one by one, into ``results``, and write what they change.

    PostgreSQL writes the events and instants of a command that begins many while its answer is made, and while
    the next command is decided.
    """
    for task, of_task, denial in zip(tasks, evidence, records.denials, strict=True):
        unread = records.unread.get(task.request.ctx.request_id)
        results.append(unread or (yield from _decide(state, task, of_task, denial, now, records)))
    if records.decided:
        yield from recording.write(state)
        yield from _append_records(records)


async def _look_ahead(tx: Transaction, tasks: Sequence[Task]) -> list[Any]:
    """The facts that each handler loads before the locks, in the order of the tasks."""
    loadings = [task.handler.look_ahead(task.command) for task in tasks]
    return await _fetch(tx, loadings, [task.handler.no_evidence for task in tasks])


def _denials(tasks: Sequence[Task], rights: RightsOfGroup) -> list[errors.TimelineError | None]:
    """Why the caller of each task may not send it; None if it may."""
    # Most tasks of a group are of one caller and need the same, which is one object (``authorizing.needs_of``).
    allowed: set[tuple[str, int]] = set()
    denials: list[errors.TimelineError | None] = []
    for task in tasks:
        key = task.request.ctx.subject.name, id(task.needs)
        denial = None if key in allowed else _denial(task, rights)
        if denial is None:
            allowed.add(key)
        denials.append(denial)
    return denials


def _denial(task: Task, rights: RightsOfGroup) -> errors.TimelineError | None:
    if task.needs is None:
        return None
    ctx = task.request.ctx
    try:
        check(rights.of(ctx.subject), task.needs, ctx.subject.name, ctx.table_id)
    except errors.TimelineError as exc:
        return exc
    return None


async def _load_evidence(
    tx: Transaction,
    state: State,
    tasks: Sequence[Task],
    ahead: Sequence[Any],
    denials: Sequence[errors.TimelineError | None],
    now: Now,
) -> list[Any]:
    """The facts that each handler loads under the locks, in the order of the tasks.

    None are loaded for a denied one: who waits for a table must not wait for a caller without a role on it.
    """
    loadings = [
        task.handler.load(state, task.command, ahead_of_task, now) if denial is None else None
        for task, ahead_of_task, denial in zip(tasks, ahead, denials, strict=True)
    ]
    allowed = [task for task, denial in zip(tasks, denials, strict=True) if denial is None]
    if any(task.handler.locks_instants(state, task.command) for task in allowed):
        # All instants of the transaction, in the order in which transactions that create markers lock them.
        lock = single_query(reconciling.lock_instants(state.instants))
        return (await _fetch(tx, [lock, *loadings], [None, *ahead]))[1:]
    return await _fetch(tx, loadings, ahead)


async def _fetch(tx: Transaction, loadings: Sequence[Loading[Any] | None], known: Sequence[Any]) -> list[Any]:
    """The result of each loading; that in ``known`` where there is none."""
    running = [loading for loading in loadings if loading is not None]
    results = iter(await fetch(tx, combined(running))) if running else iter(())
    return [
        result if loading is None else next(results) for loading, result in zip(loadings, known, strict=True)
    ]


def _commit_wait(state: State, names: Names, waits: Mapping[UUID, float]) -> float:
    """How long the answer to a command is delayed: the longest delay of its logs."""
    tables = [state.tables.get(name) for name in names.tables]
    logs = [table.table_id for table in tables if table is not None]
    return max((waits.get(table_id, 0.0) for table_id in [*_catalog(names), *logs]), default=0.0)


def _catalog(names: Names) -> list[UUID]:
    return [CATALOG_ID] if names.catalog else []


async def _load_state(
    tx: Transaction, tasks: Sequence[Task], default_locations: Sequence[str]
) -> tuple[State, Now, dict[str, outcomes.StoredOutcome], LogBorder | None, RightsOfGroup]:
    """Lock and read what the commands name, in one round trip, or two where something is missing."""
    names = [task.names for task in tasks]
    now = clocks.read_now(appends=True)
    known = outcomes.find(task.request.ctx.request_id for task in tasks)
    border = archived.find_border_of_answers()
    callers = authorizing.find_callers(
        (task.request.ctx, task.needs) for task in tasks if task.needs is not None
    )
    fields = await fetch(tx, projections.load(_named(names), now, known, border, callers))
    tables, instants = fields.get("tables", {}), fields.get("instants", {})
    missing = _missing(names, tables, instants)
    renamed = await tx.fetch_one(catalog.find_renamed(missing)) if missing else {}
    elsewhere = _elsewhere(tasks, tables)
    present_names = await tx.fetch_one(catalog.find_present_names(elsewhere)) if elsewhere else {}
    loaded = Loaded(
        **fields,
        default_locations=default_locations,
        renamed=renamed,
        present_names=present_names,
        wall_offset=now.result.wall_offset,
    )
    rights = RightsOfGroup(callers.result)
    return projections.state_of(loaded), now.result, known.result, border.result, rights


def _named(names: Sequence[Names]) -> Named:
    """The objects that the commands of a group name, together."""
    named = Named(logs=[CATALOG_ID] if any(of_task.catalog for of_task in names) else [])
    for of_task in names:
        named.tables.update(of_task.tables)
        named.namespaces.update(of_task.namespaces)
        named.instants.update(of_task.instants)
        if of_task.ending:
            named.ending.update(of_task.instants)
        named.instant_queries.extend(of_task.instant_queries)
        named.file_groups.extend(of_task.file_groups)
        named.streams.update(of_task.streams)
        named.tables_of_streams.update(of_task.tables_of_streams)
    return named


def _missing(
    names: Sequence[Names], tables: Mapping[str, Table], instants: Mapping[InstantKey, Instant]
) -> set[str]:
    """The names that have no table, or not all instants that are named: the table may have been renamed."""
    missing = {name for of_task in names for name in of_task.tables if name not in tables}
    for of_task in names:
        for name, time in of_task.instants:
            table = tables.get(name)
            if table is None or (table.table_id, time) not in instants:
                missing.add(name)
    return missing


def _elsewhere(tasks: Sequence[Task], tables: Mapping[str, Table]) -> set[UUID]:
    """The ids of expected tables that do not have the names by which they are asked for."""
    elsewhere = set()
    for task in tasks:
        table_id = task.request.ctx.table_id
        if table_id is not None:
            table = tables.get(task.names.tables[0])
            if table is None or table.table_id != table_id:
                elsewhere.add(table_id)
    return elsewhere


def _decide(
    state: State,
    task: Task,
    evidence: Any,
    denial: errors.TimelineError | None,
    now: Now,
    records: _Records,
) -> Generator[Statement, None, Result]:
    """The result of a task, and what is written before its outcome is made."""
    answered = _answered(task, now, records)
    if answered is not None:
        return answered
    request = task.request
    rights = UNLIMITED if task.needs is None else records.rights.of(request.ctx.subject)
    state.rights = rights
    try:
        if denial is not None:
            raise denial
        if request.ctx.table_id is not None:
            state.refuse_other(task.names.tables[0], request.ctx.table_id)
        origin = Origin(request.ctx.actor, request.ctx.request_id, now)
        result = task.handler.decide(state, request.command, evidence, origin)
    except errors.Unavailable as exc:
        return exc
    except errors.TimelineError as exc:
        return _refused(state, task, now, without_hidden(exc, rights), records)
    if len(state.changes.events) >= _EVENTS_AT_ONCE:
        yield from recording.write_early(state)
    return Answer(result, _record(state, task, now, result, result.log_id, records))


def _refused(
    state: State, task: Task, now: Now, exc: errors.TimelineError, records: _Records
) -> errors.TimelineError:
    """The refusal of a task, which is recorded, unless it is one denial of its subject too many."""
    request = task.request
    if not request.records_refusal or _is_denied_too_often(task, exc):
        return exc
    refused = Refused(code=exc.code, detail=exc.detail, context=exc.context, place=request.ctx.place)
    refusal = _refusal(state, task, now, exc)
    records.refused.append(refusal)
    body = _record(state, task, now, refused, refusal.table_id, records, refusal)
    error = recording.refusal_of(refused, body)
    error.denial = exc.denial
    return error


def _is_denied_too_often(task: Task, exc: errors.TimelineError) -> bool:
    if task.denials is None or denial_of(exc) is None:
        return False
    ctx = task.request.ctx
    return not task.denials.admit(ctx.subject.name, ctx.request_id)


def _answered(task: Task, now: Now, records: _Records) -> Result | None:
    """The result of a request that was answered before, or whose caller is unknown by now."""
    request = task.request
    outcome = records.known.get(request.ctx.request_id)
    try:
        if task.needs is not None:
            records.rights.refuse_ended(request.ctx, now.wall)
    except errors.Unauthenticated as exc:
        # Nothing is recorded: strangers must not fill the log.
        return exc
    if outcome is None:
        return None
    if outcome.fingerprint != request.fingerprint:
        return errors.IdempotencyKeyReused(key_in(request.ctx.request_id))
    return recording.repeated(request.ctx, outcome)


def _record(
    state: State,
    task: Task,
    now: Now,
    recorded: AnyRecorded,
    log_id: UUID | None,
    records: _Records,
    refusal: refusals.RefusedCommand | None = None,
) -> bytes:
    """Record the outcome of a command; gives the body of its answer.

    An outcome without a log is in the chain of the name of the table that is not there.
    """
    code = None if refusal is None else refusal.code
    outcome, body = recording.outcome_of(state, task.request, now.wall, recorded, log_id, code)
    chain_id = clocks.chain_of(task.names.tables[0]) if log_id is None else log_id
    records.add(recording.chained(state, chain_id, outcome, refusal))
    return body


def _refusal(state: State, task: Task, now: Now, exc: errors.TimelineError) -> refusals.RefusedCommand:
    request, command = task.request, task.command
    table_id = _table_meant(state, task.names)
    if exc.denial is not None and task.names.tables:
        # The caller can look the outcome up, and must not see by its table that there is one.
        table_id = None
    return refusals.RefusedCommand(
        request_id=request.ctx.request_id,
        refused_at=now.wall,
        actor=request.ctx.actor,
        address=request.ctx.address,
        command=type(command).__name__,
        table_name=task.names.tables[0] if task.names.tables else None,
        table_id=table_id,
        version=None if table_id is None else state.clocks[table_id].version,
        instant=command.requested_time if isinstance(command, InstantCommand) else None,
        code=exc.code if exc.denial is None else ProblemCode.FORBIDDEN,
        detail=bounded_text((exc.denial or exc).detail, DETAIL_CHARS_MAX),
        context=bounded_context(exc.context),
        transaction_id=now.transaction_id,
    )


def _table_meant(state: State, names: Names) -> UUID | None:
    """The first table that a command names, if it is locked; the catalog if it names none."""
    if not names.tables:
        return CATALOG_ID
    table = state.locked_table(names.tables[0])
    return None if table is None else table.table_id


def _append_records(records: _Records) -> Iterator[Statement]:
    """Append the outcomes and the refusals."""
    yield outcomes.append(records.decided)
    if records.refused:
        yield refusals.append(records.refused)
