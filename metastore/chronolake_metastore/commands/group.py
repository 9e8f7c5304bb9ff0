"""A group of commands in one transaction: lock, load, carry each out, append and project, commit.

A command that is refused is answered with its own error, which is recorded as an answer is, and leaves its
neighbours alone; a group costs the same few statements whatever its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands.carry_out import Answer, carry_out
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import files, instants, namespaces, tables
from chronolake_metastore.domain.clock import CATALOG_ID, commit_wait, drift
from chronolake_metastore.domain.commands import CatalogCommand, Command
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.refusals import DETAIL_CHARS_MAX, bounded_context, bounded_text
from chronolake_metastore.store import (
    catalog,
    clocks,
    event_log,
    files as stored_files,
    instants as stored_instants,
    outcomes,
    refusals,
)
from chronolake_metastore.store.transaction import Session, Statement, Transaction
from chronolake_model.file_names import FileKind
from chronolake_model.names import split_table_name
from chronolake_model.problems import problem
from chronolake_model.times import MICROS_PER_SECOND, Micros


class Request(msgspec.Struct, frozen=True):
    """A command as it was asked for: by whom, under which request id, at which path, from which address."""

    command: Command
    request_id: str
    fingerprint: bytes
    actor: str
    path: str = ""
    address: str | None = None


Result = Answer | errors.TimelineError

_WITHOUT_INSTANT = CatalogCommand | instants.BeginInstant


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

    ``commit_waits`` is how long answers about a table are to be held back, in seconds; ``drift_us`` how far
    the clock that is furthest ahead of the wall is ahead.
    """

    results: list[Result]
    commit_waits: dict[UUID, float]
    drift_us: int


async def run(session: Session, requests: Sequence[Request], drift_max_us: int) -> CarriedOut:
    """Carry ``requests`` out, in their order, in one transaction.

    Raises ``DatabaseUnavailable``, ``OutcomeRaced`` or whatever else ended the transaction: then it is
    unknown whether the requests were carried out, and they may be run again: their request ids tell.
    """
    async with session.begin() as tx:
        lake, now, known = await _load(tx, requests)
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
    return CarriedOut(results, waits, max((drift(clock, now) for clock in lake.clocks.values()), default=0))


async def _load(
    tx: Transaction, requests: Sequence[Request]
) -> tuple[Lake, Micros, dict[str, outcomes.Outcome]]:
    commands = [request.command for request in requests]
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
        found_bases,
    ) = await tx.batch(
        [
            *clocks.lock(_tables_named(commands), _catalog_if_named(commands)),
            clocks.read_now(),
            outcomes.find(request.request_id for request in requests),
            catalog.find_namespaces(_namespaces_named(commands)),
            catalog.find_tables(_tables_named(commands)),
            catalog.find_last_times(_tables_made(commands)),
            stored_instants.find(_instants_named(commands)),
            stored_files.find_base_files(_file_groups_named(commands)),
        ]
    )
    lake.clocks = clocks.locked(locked)
    for namespace, tables_in in catalog.found_namespaces(found_namespaces):
        lake.namespaces[namespace.name] = namespace
        lake.tables_in[namespace.name] = tables_in
    for table in catalog.found_tables(found_tables):
        lake.know_table(table)
    lake.last_times = catalog.found_last_times(dropped)
    for table_id, instant in stored_instants.found(found_instants):
        lake.instants[table_id, instant.requested_time] = instant
    lake.base_files = stored_files.found_base_files(found_bases)
    return lake, clocks.now_from(now), outcomes.found(known)


def _decide(lake: Lake, request: Request, now: Micros, records: _Records) -> Result:
    outcome = records.known.get(request.request_id)
    if outcome is not None:
        if outcome.fingerprint != request.fingerprint:
            return errors.IdempotencyKeyReused(request.request_id)
        return _result(outcome)
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
    records.add(outcome)
    return _result(outcome)


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
    return refusals.Refusal(
        request_id=request.request_id,
        refused_at=now,
        actor=request.actor,
        address=request.address,
        command=type(command).__name__,
        table_name=_table_named(command),
        table_id=table_id,
        version=None if table_id is None else lake.clocks[table_id].version,
        instant=None if isinstance(command, _WITHOUT_INSTANT) else command.requested_time,
        status=exc.code.status,
        code=exc.code,
        detail=bounded_text(exc.detail, DETAIL_CHARS_MAX),
        context=bounded_context(exc.context),
    )


def _table_meant(lake: Lake, command: Command) -> UUID | None:
    """The table that the command names, as far as it was locked; the catalog, for a namespace."""
    name = _table_named(command)
    if name is None:
        return CATALOG_ID
    table = lake.tables.get(name)
    return table.table_id if table is not None and table.table_id in lake.clocks else None


def _save(lake: Lake, records: _Records) -> list[Statement]:
    """The log first, then what it comes to; where all was refused, there is nothing that it comes to."""
    saved = [outcomes.append(records.decided)]
    if records.refused:
        saved.append(refusals.append(records.refused))
    if not lake.events:
        return saved
    saved.append(event_log.append(lake.events))
    if any(entry.write_stats for entry in lake.published):
        saved.append(event_log.append_write_stats(lake.published))
    return saved + project(lake)


def project(lake: Lake) -> list[Statement]:
    """Write what has changed in ``lake`` into the projections."""
    written: list[Statement] = []
    if lake.dropped_namespaces:
        written.append(catalog.delete_namespaces(lake.dropped_namespaces))
    if lake.made_namespaces:
        written.append(catalog.save_namespaces([lake.namespaces[name] for name in lake.made_namespaces]))
    if lake.changed_tables:
        written.append(catalog.save_tables(list(lake.changed_tables.values())))
    if lake.changed_instants:
        written.append(stored_instants.save([(key[0], lake.instants[key]) for key in lake.changed_instants]))
    if lake.publications:
        written.extend(stored_files.project(lake.publications))
    written.append(clocks.save(lake.clocks.values()))
    return written


def _tables_named(commands: Sequence[Command]) -> set[str]:
    return {name for command in commands if (name := _table_named(command)) is not None}


def _table_named(command: Command) -> str | None:
    match command:
        case namespaces.CreateNamespace() | namespaces.DropNamespace():
            return None
        case tables.CreateTable():
            return command.request.name
        case tables.DropTable():
            return command.name
        case _:
            return command.table


def _tables_made(commands: Sequence[Command]) -> set[str]:
    return {command.request.name for command in commands if isinstance(command, tables.CreateTable)}


def _catalog_if_named(commands: Sequence[Command]) -> list[UUID]:
    return [CATALOG_ID] if any(isinstance(command, CatalogCommand) for command in commands) else []


def _namespaces_named(commands: Sequence[Command]) -> set[str]:
    names = set()
    for command in commands:
        match command:
            case namespaces.CreateNamespace():
                names.add(command.request.name)
            case namespaces.DropNamespace():
                names.add(command.name)
            case tables.CreateTable():
                names.add(split_table_name(command.request.name)[0])
            case _:
                pass
    return names


def _instants_named(commands: Sequence[Command]) -> set[tuple[str, Micros]]:
    return {
        (command.table, command.requested_time)
        for command in commands
        if not isinstance(command, _WITHOUT_INSTANT)
    }


def _file_groups_named(commands: Sequence[Command]) -> set[tuple[str, str, str]]:
    return {
        (command.table, stat.partition_path, stat.file_id)
        for command in commands
        if isinstance(command, instants.CompleteInstant)
        for stat in command.request.write_stats
        if files.kind_of(stat) is FileKind.BASE
    }
