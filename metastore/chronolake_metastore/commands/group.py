"""A group of commands in one transaction: lock, load, carry each out, append and project, commit.

A command that is refused is answered with its own error, which is recorded as an answer is, and leaves its
neighbours alone; a group costs the same few statements whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands import (
    base_paths as claiming,
    cleans as cleaning,
    deleting,
    needs,
    planning,
    reconciling,
    staging,
)
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.carry_out import carry_out
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import restores
from chronolake_metastore.domain.answers import START, grow
from chronolake_metastore.domain.clock import CATALOG_ID, commit_wait, drift
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.lists import Entry
from chronolake_metastore.domain.refusals import DETAIL_CHARS_MAX, bounded_context, bounded_text
from chronolake_metastore.store import (
    answers,
    base_paths,
    catalog,
    cleans,
    clocks,
    deletions,
    event_lists,
    event_log,
    file_groups,
    files as stored_files,
    identity,
    instants as stored_instants,
    outcomes,
    refusals,
    schemas,
)
from chronolake_metastore.store.event_lists import OfEvent
from chronolake_metastore.store.transaction import Session, Statement, Transaction
from chronolake_model.problems import problem
from chronolake_model.times import MICROS_PER_SECOND, Micros

_NOTHING: Final[Mapping[OfEvent, Sequence[Entry]]] = {}
_ALONE = (claiming.makes_table, staging.completes_staged, deleting.reports, cleaning.plans)


class Request(msgspec.Struct, frozen=True):
    """A command as it was asked for: by whom, under which request id, at which path, from which address."""

    command: Command
    request_id: str
    fingerprint: bytes
    actor: str
    path: str = ""
    address: str | None = None
    size_bytes: int = 0
    """The length of the command in its canonical form."""


Result = Answer | errors.TimelineError


class _Records(msgspec.Struct):
    """What the log keeps of a group's commands beside their events."""

    known: dict[str, outcomes.Outcome]
    decided: list[outcomes.Outcome] = []
    refused: list[refusals.Refusal] = []

    def add(self, outcome: outcomes.Outcome) -> None:
        """Record an outcome; a request behind it in the group with the same id gets it too."""
        self.decided.append(outcome)
        self.known[outcome.request_id] = outcome


class CarriedOut(msgspec.Struct, frozen=True):
    """The results of a group, in the order of its requests, and what it did to the clocks of its tables.

    ``commit_waits`` is how long each result is to be held back, in seconds; ``drift_us`` how far the clock that
    is furthest ahead of the wall is ahead.
    """

    results: list[Result]
    commit_waits: list[float]
    drift_us: int


async def run(session: Session, requests: Sequence[Request], drift_max_us: int) -> CarriedOut:
    """Carry ``requests`` out, in their order, in one transaction; what follows a restore in another.

    Raises ``DatabaseUnavailable``, ``OutcomeRaced``, ``MarkedMeanwhile`` or what else ended the transaction.
    It is unknown then whether the requests were carried out, and they may be run again: their request ids tell.
    """
    done = [await _run_together(session, together, drift_max_us) for together in _cut(requests)]
    return CarriedOut(
        [result for one in done for result in one.results],
        [wait for one in done for wait in one.commit_waits],
        max((one.drift_us for one in done), default=0),
    )


def _cut(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests that may share a transaction.

    A restore brings back what was in file groups before, which nothing loads that does not ask for it; nor does
    anything else know the file groups of what was staged, what of a report of deletions cannot be, which files
    a clean may delete, or which tables a base path overlaps with.
    """
    cut: list[list[Request]] = [[]]
    for request in requests:
        is_alone = any(is_alone(request.command) for is_alone in _ALONE)
        if is_alone:
            cut.append([])
        cut[-1].append(request)
        if is_alone or isinstance(request.command, restores.RestoreTable):
            cut.append([])
    return [together for together in cut if together]


async def _run_together(session: Session, requests: Sequence[Request], drift_max_us: int) -> CarriedOut:
    async with session.begin() as tx:
        commands = [request.command for request in requests]
        ahead = await staging.look_ahead(tx, commands)
        reconciled = await reconciling.look_ahead(tx, commands)
        contradicted = await deleting.look_ahead(tx, commands)
        lake, now, known = await _load(tx, commands, requests)
        await staging.load(tx, lake, commands, ahead)
        await reconciling.load(tx, lake, commands, reconciled)
        await deleting.load(tx, lake, commands, contradicted)
        await cleaning.load(tx, lake, commands, now)
        await planning.load(tx, lake, commands)
        await claiming.load(tx, lake, commands)
        before = dict(lake.clocks)
        records = _Records(known)
        results = [_decide(lake, request, now, records) for request in requests]
        if records.decided:
            await tx.commit(_save(lake, records))
    waits = {
        table_id: wait_us / MICROS_PER_SECOND
        for table_id, clock in before.items()
        if (wait_us := commit_wait(clock, lake.clocks[table_id], now, drift_max_us))
    }
    waits_of = [_commit_wait(lake, one.command, waits) for one in requests] if waits else [0.0] * len(requests)
    return CarriedOut(results, waits_of, max((drift(clock, now) for clock in lake.clocks.values()), default=0))


def _commit_wait(lake: Lake, command: Command, waits: Mapping[UUID, float]) -> float:
    """How long the answer to a command is held back: as long as the slowest of its logs asks for."""
    tables = [lake.tables.get(name) for name in needs.tables_of(command)]
    logs = [*needs.catalog_if_named([command]), *(table.table_id for table in tables if table is not None)]
    return max(waits.get(table_id, 0.0) for table_id in logs) if logs else 0.0


async def _load(
    tx: Transaction, commands: Sequence[Command], requests: Sequence[Request]
) -> tuple[Lake, Micros, dict[str, outcomes.Outcome]]:
    lake = Lake()
    (
        _,
        locked,
        now,
        known,
        found_namespaces,
        found_tables,
        dropped,
        found_instants,
        found_concurrent,
        found_clean_histories,
        found_identity,
        found_answers,
        *more,
    ) = await tx.batch(
        [
            *clocks.lock(needs.tables_named(commands), needs.catalog_if_named(commands)),
            clocks.read_now(),
            outcomes.find(request.request_id for request in requests),
            catalog.find_namespaces(needs.namespaces_named(commands)),
            catalog.find_tables(needs.tables_named(commands)),
            catalog.find_last_times(needs.tables_made(commands)),
            stored_instants.find(needs.instants_named(commands), needs.instants_ended(commands)),
            file_groups.find_concurrent(needs.file_groups_named(commands)),
            cleans.find_clean_histories(needs.cleans_of(commands)),
            identity.find() if needs.tables_made(commands) else None,
            answers.find(needs.tables_named(commands), needs.catalog_if_named(commands)),
            *_find_for_undoing(commands),
        ]
    )
    lake.clocks = clocks.locked(locked)
    lake.answers = answers.found(found_answers)
    for namespace, tables_in in catalog.found_namespaces(found_namespaces):
        lake.namespaces[namespace.name] = namespace
        lake.tables_in[namespace.name] = tables_in
    for table in catalog.found_tables(found_tables):
        lake.know_table(table)
    lake.last_times = catalog.found_last_times(dropped)
    for rows in (found_instants, *more):
        for table_id, instant in stored_instants.found(rows):
            lake.instants[table_id, instant.requested_time] = instant
        for table_id, time, has_markers, had_deletions in stored_instants.found_marks(rows):
            lake.know_marks((table_id, time), has_markers=has_markers, had_deletions=had_deletions)
    lake.concurrent = file_groups.found_concurrent(found_concurrent)
    lake.clean_histories = cleans.found_clean_histories(found_clean_histories)
    if found_identity:
        lake.metastore_id = identity.found(found_identity).metastore_id
    return lake, clocks.now_from(now), outcomes.found(known)


def _find_for_undoing(commands: Sequence[Command]) -> list[Statement]:
    """What only rollbacks, savepoints and restores need: they are rare, the rest should not pay for them."""
    found = []
    if undone := needs.instants_undone(commands):
        found.append(stored_instants.find_rollbacks(undone))
    if saved := needs.tables_saved(commands):
        found.append(stored_instants.find_savepoints(saved))
    if restored := needs.savepoints_restored(commands):
        found.append(stored_instants.find_behind_savepoints(restored))
    return found


def _decide(lake: Lake, request: Request, now: Micros, records: _Records) -> Result:
    outcome = records.known.get(request.request_id)
    if outcome is not None:
        if outcome.fingerprint != request.fingerprint:
            return errors.IdempotencyKeyReused(request.request_id)
        return _result(outcome)
    refusal = None
    try:
        answer = carry_out(lake, request.command, Origin(request.actor, request.request_id, now))
    except errors.Unavailable as exc:
        return exc
    except errors.TimelineError as exc:
        refusal = _refusal(lake, request, now, exc)
        records.refused.append(refusal)
        document = msgspec.json.encode(
            problem(exc.code, exc.detail, request.path, exc.context, idempotency_key=request.request_id)
        )
        outcome = _outcome(lake, request, now, refusal.table_id, refusal.status, document)
    else:
        outcome = _outcome(lake, request, now, answer.table_id, answer.status, answer.body)
    outcome = _chained(lake, request.command, outcome, refusal)
    records.add(outcome)
    return _result(outcome)


def _chained(
    lake: Lake, command: Command, outcome: outcomes.Outcome, refusal: refusals.Refusal | None
) -> outcomes.Outcome:
    """The outcome as the next of its chain: of its table, or of the name of a table that is not there."""
    chain_id = outcome.table_id
    if chain_id is None:
        chain_id = answers.chain_of(needs.tables_of(command)[0])
    columns = None if refusal is None else refusal.columns()
    head = grow(lake.answers.get(chain_id, START), chain_id, outcome.columns(), columns)
    lake.answers[chain_id] = head
    return msgspec.structs.replace(outcome, chain_id=chain_id, number=head.number, hash=head.hash)


def _result(outcome: outcomes.Outcome) -> Result:
    """What is answered, the first time and on each retry: it is made of the recorded bytes."""
    if outcome.status < 400:
        assert outcome.table_id is not None, "a success concerns a table, or the catalog"
        return Answer(outcome.status, outcome.answer, outcome.table_id)
    return errors.of_recorded(errors.Recorded(outcome.status, outcome.answer))


def _outcome(
    lake: Lake, request: Request, now: Micros, table_id: UUID | None, status: int, answer: bytes
) -> outcomes.Outcome:
    return outcomes.Outcome(
        request_id=request.request_id,
        fingerprint=request.fingerprint,
        table_id=table_id,
        version=None if table_id is None else lake.clocks[table_id].version,
        status=status,
        answer=answer,
        recorded_at=now,
        command=type(request.command).__name__,
        actor=request.actor,
        address=request.address,
    )


def _refusal(lake: Lake, request: Request, now: Micros, exc: errors.TimelineError) -> refusals.Refusal:
    command = request.command
    table_id = _table_meant(lake, command)
    named = needs.tables_of(command)
    return refusals.Refusal(
        request_id=request.request_id,
        refused_at=now,
        actor=request.actor,
        address=request.address,
        command=type(command).__name__,
        table_name=named[0] if named else None,
        table_id=table_id,
        version=None if table_id is None else lake.clocks[table_id].version,
        instant=command.requested_time if isinstance(command, InstantCommand) else None,
        status=exc.code.status,
        code=exc.code,
        detail=bounded_text(exc.detail, DETAIL_CHARS_MAX),
        context=bounded_context(exc.context),
    )


def _table_meant(lake: Lake, command: Command) -> UUID | None:
    """The table that the command names, as far as it was locked; the catalog, for a namespace."""
    named = needs.tables_of(command)
    if not named:
        return CATALOG_ID
    table = lake.tables.get(named[0])
    return table.table_id if table is not None and table.table_id in lake.clocks else None


def _save(lake: Lake, records: _Records) -> list[Statement]:
    """The log first, then its projections; where all was refused, only the chains of answers have grown."""
    grown = {outcome.chain_id for outcome in records.decided}
    saved = [
        outcomes.append(records.decided),
        answers.save({chain_id: head for chain_id, head in lake.answers.items() if chain_id in grown}),
    ]
    if records.refused:
        saved.append(refusals.append(records.refused))
    if not lake.events:
        return saved
    saved.append(event_log.append(lake.events))
    if lake.written:
        saved.append(event_log.append_write_stats(lake.written))
    if lake.listed:
        # Ahead of the projections, which are made of them.
        saved.append(event_lists.append(lake.listed))
    saved.extend(project(lake, {one.of: one.entries for one in lake.listed}))
    # Behind the instant's row, which those who create markers hold before they come to the markers.
    saved.extend(deletions.append(deleted) for deleted in lake.deleted)
    # Behind all that ends instants.
    late = reconciling.refuse_late(lake)
    return saved if late is None else [*saved, late]


def project(lake: Lake, listed: Mapping[OfEvent, Sequence[Entry]] = _NOTHING) -> list[Statement]:
    """Write what has changed in ``lake`` into the projections.

    ``listed`` has the files of cleans that were planned; the other lists are read where they are written to.
    """
    written: list[Statement] = []
    if lake.dropped_namespaces:
        written.append(catalog.delete_namespaces(lake.dropped_namespaces))
    if lake.made_namespaces:
        written.append(catalog.save_namespaces([lake.namespaces[name] for name in lake.made_namespaces]))
    if lake.changed_tables:
        written.append(catalog.save_tables(list(lake.changed_tables.values())))
    written.extend(base_paths.save(lake.made_base_paths, lake.taken_base_paths))
    if lake.schemas:
        written.append(schemas.append(lake.schemas))
    if lake.changed_instants:
        # In one order with those who create markers, which hold the rows of several instants too.
        written.append(
            stored_instants.save([(key[0], lake.instants[key]) for key in sorted(lake.changed_instants)])
        )
    written.extend(file_groups.project_plans(lake.plans, lake.settled))
    if lake.publications:
        written.extend(stored_files.project(lake.publications))
    if lake.replacements:
        written.extend(file_groups.project_replacements(lake.replacements))
    if lake.restored:
        written.extend(file_groups.restore(lake.restored))
    if lake.cleaned:
        written.append(cleans.project([(one, listed[one.files]) for one in lake.cleaned]))
    written.append(clocks.save(lake.clocks.values()))
    return written
