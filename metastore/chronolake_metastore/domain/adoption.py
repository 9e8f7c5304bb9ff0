"""Adoption: a table that Hudi has written comes in, with the events that its history would have been.

Its times are Hudi's, so here alone a request states times. They are in the past, unique, and in the order of
the events. Only the new table has them, and its clock starts after them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from typing_extensions import override

from chronolake_hudi import properties as hudi
from chronolake_metastore import errors
from chronolake_metastore.domain import actions, files, lists
from chronolake_metastore.domain.base_paths import PublishedTime
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import (
    InstantCompleted,
    InstantRequested,
    Now,
    Payload,
    TableAdopted,
    TableCreated,
)
from chronolake_metastore.domain.instants import lease_end
from chronolake_metastore.domain.lists import NO_LIST_ENTRIES, ListEntries, PlannedWork
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.tables import CreateTable, FormerHolders, Table, evolve_created
from chronolake_model import file_names
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY, URL_ENCODE_PROPERTY, Spelling
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import (
    ADOPTED_PROPERTY,
    EARLIEST_COMMIT_KEY,
    LEASE_SECONDS_DEFAULT,
    Action,
    IndexType,
    Operation,
    State,
)

FIRST_TIME: Final = parse_time("20160101000000000")
"""Hudi has no table that is older. A year that is cut off, or invented, is refused."""
_TICK: Final = Tick.MILLISECOND.micros
_FIRST_VERSION: Final = 1


class FormerInstant(msgspec.Struct, frozen=True):
    """An instant of the history of an adopted table, with Hudi's times. Without a completion it is pending.

    ``target`` is the instant that a savepoint pins. ``planned_file_groups`` are those of a pending plan.
    """

    requested_time: str
    action: Action
    completion_time: str | None = None
    operation: Operation = Operation.UNKNOWN
    write_stats: Sequence[WriteStat] = ()
    extra_metadata: dict[str, str] = {}
    replaced_file_groups: Sequence[FileGroupName] = ()
    target: str | None = None
    planned_file_groups: Sequence[FileGroupName] = ()
    cleaned_before: str | None = None


class AdoptTable(Command, frozen=True):
    """``base_path_key`` is the key with local links resolved, if they were resolved."""

    definition: NewDefinition
    instants: Sequence[FormerInstant]
    writer: str
    cleaned_before: str | None = None
    left_out: Sequence[str] = ()
    is_published: bool = True
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    base_path_key: str | None = None

    @override
    def identity(self) -> Command:
        return msgspec.structs.replace(self, base_path_key=None)

    @property
    def creation(self) -> CreateTable:
        """The command that would create the table without its history."""
        return CreateTable(self.definition, self.base_path_key)


class AdoptionStep(msgspec.Struct, frozen=True):
    """An event to append at a given time, with the rows beside it.

    ``instant`` is the requested time of the instant that completes.
    """

    time: Micros
    payload: Payload
    instant: Micros | None = None
    write_stats: Sequence[WriteStat] = ()
    entries: ListEntries = NO_LIST_ENTRIES


def history(
    command: AdoptTable, created: TableCreated, former: FormerHolders, now: Now
) -> tuple[list[AdoptionStep], TableAdopted]:
    """The history in the order of its times, and the event that ends it.

    ``created`` is the decision for a new table without history.

    Raises ``InvalidTable``, ``InvalidWriteStat``, ``InvalidPlan``.
    """
    _check_definition(command)
    instants = [_Checked.of(instant, index) for index, instant in enumerate(command.instants)]
    first = _check_times(command, instants, now.wall)
    _check_writers_of_name(command, instants, former)
    # The schema numbered, so that column statistics can be checked.
    table = evolve_created(created, CATALOG_ID, Micros(first - _TICK))
    for instant in instants:
        try:
            _check(table, instant, instants)
        except errors.InvalidWriteStat as exc:
            context = {**exc.context, "requested_time": instant.body.requested_time}
            raise errors.InvalidWriteStat(f"{_place(instant)}: {exc.detail}", **context) from exc
    cleaned_before = _cleaned_before(command, instants)
    steps = [AdoptionStep(Micros(first - _TICK), created)]
    steps.extend(sorted(_steps(command, instants, now.steady), key=lambda step: step.time))
    adopted = TableAdopted(
        name=command.definition.name,
        instants=len(instants),
        is_published=command.is_published,
        cleaned_before=cleaned_before,
        left_out=list(command.left_out),
    )
    return steps, adopted


class _Checked(msgspec.Struct, frozen=True):
    """An instant whose times are times."""

    index: int
    requested: Micros
    completed: Micros | None
    body: FormerInstant

    @classmethod
    def of(cls, body: FormerInstant, index: int) -> _Checked:
        requested = _parsed(body.requested_time, index)
        completed = None if body.completion_time is None else _parsed(body.completion_time, index)
        return cls(index, requested, completed, body)


def _check_definition(command: AdoptTable) -> None:
    definition = command.definition
    if definition.tick is not Tick.MILLISECOND:
        raise errors.InvalidTable(f"Hudi's times are milliseconds: adopt with tick 1ms, not {definition.tick}")
    if definition.index.type not in (IndexType.SIMPLE, IndexType.BLOOM):
        # Hudi hashes keys in another way, so an upsert would look for a record in another file group.
        raise errors.InvalidTable(
            f"an adopted table has the index {IndexType.BLOOM} or {IndexType.SIMPLE}, not "
            f"{definition.index.type}: the file groups of Hudi are not the buckets of Chronolake"
        )
    _check_spelling(definition)


def _check_spelling(definition: NewDefinition) -> None:
    """Refuse a table whose writers would spell partition paths in another way than Hudi did."""
    before = definition.properties.get(ADOPTED_PROPERTY)
    if before is None or not definition.partition_fields:
        return
    config = hudi.decode(before.encode("latin-1"))
    spelling = Spelling(config.hive_style_partitioning, config.url_encode_partitioning)
    if spelling != Spelling.of(definition.properties):
        stated = ", ".join(f"{name}={text}" for name, text in spelling.properties.items()) or "neither of them"
        raise errors.InvalidTable(
            f"{HIVE_STYLE_PROPERTY} and {URL_ENCODE_PROPERTY} must be those of the Hudi table: give {stated}"
        )


def _check_times(command: AdoptTable, instants: Sequence[_Checked], now: Micros) -> Micros:
    """The first time; raises ``InvalidTable`` unless all are past and unique, in the order of each instant.

    A table that was never written to has none: its first time is the present one.
    """
    if not instants:
        return Micros(now - now % _TICK)
    seen: set[Micros] = set()
    for instant in instants:
        for time in _times_of(instant):
            if time in seen:
                raise _invalid(instant, f"the time {format_time(time)} is in the request twice")
            seen.add(time)
            if time < FIRST_TIME:
                raise _invalid(
                    instant,
                    f"the time {format_time(time)} is before {format_time(FIRST_TIME)}; Hudi is not so old",
                )
            if time >= now:
                last = max(time for other in instants for time in _times_of(other))
                raise _invalid(
                    instant,
                    f"the time {format_time(time)} is in the future: it is {format_time(now)} in UTC. Hudi has "
                    "written the timeline in a time zone east of UTC, or with a clock that is ahead. Do not "
                    f"write to the table, wait until it is {format_time(last)} in UTC, and adopt it then",
                )
        if instant.completed is not None and instant.completed <= instant.requested:
            raise _invalid(instant, "it completes before it is requested")
    return min(seen)


def _times_of(instant: _Checked) -> Iterator[Micros]:
    yield instant.requested
    if instant.completed is not None:
        yield instant.completed


def _check_writers_of_name(command: AdoptTable, instants: Sequence[_Checked], former: FormerHolders) -> None:
    """A writer of a former table of this name must not mistake a pending instant for its own."""
    pending = [instant for instant in instants if instant.completed is None]
    if former.last_time is not None and any(instant.requested <= former.last_time for instant in pending):
        raise _invalid(
            pending[0],
            f"it is pending, and another table was {command.definition.name!r} at that time; choose another "
            "name, or roll the instant back with Hudi",
        )


def pending_times(command: AdoptTable) -> list[Micros]:
    """The requested times of the pending instants, without those that are no times."""
    times: list[Micros] = []
    for instant in command.instants:
        with contextlib.suppress(ValueError):
            if instant.completion_time is None:
                times.append(parse_time(instant.requested_time))
    return times


def refuse_published_time(command: AdoptTable, published: PublishedTime | None) -> None:
    """Raise ``InvalidTable`` for a pending instant whose files a dropped table has published.

    The adopted table would roll the instant back, and the guard would keep its files, so the rollback would
    never complete.
    """
    if published is None:
        return
    time = format_time(published.requested_time)
    raise errors.InvalidTable(
        f"the instant {time} is pending, but it is completed, or has staged files, in the dropped table "
        f"{published.table!r} at this base path: a rollback would delete its files. Copy the table's files to "
        "another base path without those of this instant, and adopt the copy",
        requested_time=time,
        table=published.table,
    )


def _check(table: Table, instant: _Checked, instants: Sequence[_Checked]) -> None:
    body, rules = instant.body, actions.RULES[instant.body.action]
    if table.definition.type not in rules.table_types and body.action is not Action.SAVEPOINT:
        raise _invalid(instant, f"a {table.definition.type} table has no {body.action}")
    _check_operation(instant, rules)
    is_write = body.action in actions.WRITES
    if not is_write and (body.write_stats or body.replaced_file_groups):
        raise _invalid(instant, f"a {body.action} has no files")
    _check_replaced(instant, rules)
    if body.cleaned_before is not None and body.action is not Action.CLEAN:
        raise _invalid(instant, f"a {body.action} is not a clean: leave cleaned_before out")
    _check_target(instant, instants)
    if instant.completed is None:
        _check_pending(instant, rules)
    elif body.planned_file_groups:
        raise _invalid(instant, "it is completed: leave planned_file_groups out")
    files.check(table, body.requested_time, body.write_stats, is_adopted=True)
    for touch, group in files.touches(body.write_stats):
        if touch not in rules.touches:
            raise _invalid(instant, f"a {body.action} writes no {touch} file, as in {group.file_id!r}")


def _check_replaced(instant: _Checked, rules: actions.Rules) -> None:
    body = instant.body
    if body.replaced_file_groups and rules.completed_as is not Action.REPLACECOMMIT:
        raise _invalid(instant, f"a {body.action} replaces no file groups")
    for group in body.replaced_file_groups:
        # Hudi's readers make paths of them.
        try:
            file_names.check_partition_path(group.partition_path)
        except ValueError as exc:
            raise _invalid(instant, f"replaced_file_groups: {exc}") from exc


def _check_operation(instant: _Checked, rules: actions.Rules) -> None:
    body = instant.body
    if rules.operation is not None and body.operation is not rules.operation:
        raise _invalid(instant, f"a {body.action} has the operation {rules.operation}, not {body.operation}")
    if rules.operation is None and body.operation in actions.SERVICE_OPERATIONS:
        raise _invalid(instant, f"a {body.action} has not the operation {body.operation}")


def _check_pending(instant: _Checked, rules: actions.Rules) -> None:
    body = instant.body
    if body.action not in actions.WRITES:
        raise _invalid(instant, f"a pending {body.action} is not adopted: complete it with Hudi")
    if body.write_stats or body.replaced_file_groups or body.extra_metadata:
        raise _invalid(instant, "it is pending: leave out what it has when it completes")
    if bool(body.planned_file_groups) != rules.needs_groups:
        raise _invalid(instant, f"planned_file_groups: a pending {body.action} needs them, a write has none")


def _check_target(instant: _Checked, instants: Sequence[_Checked]) -> None:
    body = instant.body
    if body.action is not Action.SAVEPOINT:
        if body.target is not None:
            raise _invalid(instant, f"a {body.action} has no target")
        return
    target = next((other for other in instants if other.body.requested_time == body.target), None)
    if target is None or target.completed is None or target.body.action not in actions.WRITES:
        raise _invalid(instant, f"it pins {body.target!r}, which is no completed write of the request")
    if target.completed > instant.requested:
        raise _invalid(instant, f"it pins {body.target!r}, which completes later")


def _cleaned_before(command: AdoptTable, instants: Iterable[_Checked]) -> Micros | None:
    completions = {instant.completed for instant in instants if instant.completed is not None}
    stated = [command.cleaned_before, *(instant.body.cleaned_before for instant in instants)]
    for text in stated:
        if text is not None and _parsed(text, 0) not in completions:
            raise errors.InvalidPlan(f"cleaned_before is {text}, at which no instant of the request completes")
    return None if command.cleaned_before is None else parse_time(command.cleaned_before)


def _steps(command: AdoptTable, instants: Iterable[_Checked], now: Micros) -> Iterator[AdoptionStep]:
    for instant in instants:
        yield _request_of(command, instant, now)
        if instant.completed is not None:
            yield _completion_of(instant, instant.completed)


def _request_of(command: AdoptTable, instant: _Checked, now: Micros) -> AdoptionStep:
    body = instant.body
    groups = body.planned_file_groups
    payload = InstantRequested(
        action=body.action,
        operation=body.operation,
        state=State.INFLIGHT,
        writer=command.writer,
        lease_seconds=command.lease_seconds,
        lease_expires_at=lease_end(now, command.lease_seconds),
        target=None if body.target is None else parse_time(body.target),
        plan=PlannedWork(file_groups=lists.seal(groups)) if groups else None,
        schema_version=_FIRST_VERSION if body.action in actions.WRITES else None,
    )
    return AdoptionStep(instant.requested, payload, entries=lists.entries_by_list(plan_file_groups=groups))


def _completion_of(instant: _Checked, completed: Micros) -> AdoptionStep:
    body = instant.body
    replaced = body.replaced_file_groups
    payload = InstantCompleted(
        summary=files.summarise(body.write_stats),
        extra_metadata=body.extra_metadata,
        write_stats_digest=files.digest(body.write_stats),
        replaced_file_groups=lists.seal(replaced),
        schema_version=_FIRST_VERSION if body.action in actions.WRITES else None,
        cleaned_before=None if body.cleaned_before is None else parse_time(body.cleaned_before),
        earliest_commit_to_retain=_retained_by_hudi(body),
    )
    entries = lists.entries_by_list(replaced_file_groups=replaced)
    return AdoptionStep(completed, payload, instant.requested, body.write_stats, entries)


def _retained_by_hudi(body: FormerInstant) -> Micros | None:
    """The earliest commit to retain of a clean of Hudi; a clean by versions has none."""
    text = body.extra_metadata.get(EARLIEST_COMMIT_KEY, "")
    try:
        return parse_time(text) if body.action is Action.CLEAN else None
    except ValueError:
        return None


def _parsed(text: str, index: int) -> Micros:
    try:
        return parse_time(text)
    except ValueError as exc:
        raise errors.InvalidTable(f"instants[{index}]: {exc}", index=index) from exc


def _invalid(instant: _Checked, why: str) -> errors.InvalidTable:
    return errors.InvalidTable(
        f"{_place(instant)}: {why}", index=instant.index, requested_time=instant.body.requested_time
    )


def _place(instant: _Checked) -> str:
    return f"instants[{instant.index}], {instant.body.action} {instant.body.requested_time}"
