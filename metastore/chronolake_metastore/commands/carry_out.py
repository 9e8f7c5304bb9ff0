"""One command on the loaded part of the lake: decided, appended, answered. No I/O."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import assert_never

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import instants, leases, namespaces, tables
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import Origin, Payload
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, format_time


class Answer(msgspec.Struct, frozen=True):
    """What a command is answered: an HTTP status, a JSON body, and the log that it concerned."""

    status: int
    body: bytes
    table_id: uuid.UUID


def carry_out(lake: Lake, command: Command, origin: Origin) -> Answer:
    """Decide ``command`` and append what follows; raises ``TimelineError`` and leaves ``lake`` as it was."""
    match command:
        case namespaces.CreateNamespace():
            answer = _create_namespace(lake, command, origin)
        case namespaces.DropNamespace():
            answer = _drop_namespace(lake, command, origin)
        case tables.CreateTable():
            answer = _create_table(lake, command, origin)
        case tables.DropTable():
            answer = _drop_table(lake, command, origin)
        case instants.BeginInstant():
            answer = _begin(lake, command, origin)
        case instants.TakeInflight():
            answer = _change(lake, command, origin, instants.take_inflight)
        case instants.CompleteInstant():
            answer = _complete(lake, command, origin)
        case instants.RollbackInstant():
            answer = _roll_back(lake, command, origin)
        case leases.RenewLease():
            answer = _change(lake, command, origin, partial(leases.renew, command=command, now=origin.now))
        case _:
            assert_never(command)
    return answer


def _create_namespace(lake: Lake, command: namespaces.CreateNamespace, origin: Origin) -> Answer:
    name = command.request.name
    lake.append(CATALOG_ID, origin, namespaces.create(lake.namespaces.get(name), command))
    return _answer(201, namespaces.document(lake.namespaces[name]), CATALOG_ID)


def _drop_namespace(lake: Lake, command: namespaces.DropNamespace, origin: Origin) -> Answer:
    existing = lake.namespaces.get(command.name)
    lake.append(CATALOG_ID, origin, namespaces.drop(existing, lake.tables_in.get(command.name, 0), command))
    return Answer(204, b"", CATALOG_ID)


def _create_table(lake: Lake, command: tables.CreateTable, origin: Origin) -> Answer:
    definition = command.request
    namespace, _ = split_table_name(definition.name)
    payload = tables.create(lake.namespaces.get(namespace), lake.tables.get(definition.name), command)
    # The request id is unique as long as the log exists; so is what is made of it, without randomness.
    table_id = uuid.uuid5(CATALOG_ID, origin.request_id)
    # Not behind a dropped table of this name: its writers must not meet their instants again in this one.
    last = lake.last_times.get(definition.name, Micros(0))
    start = Micros(last - last % definition.tick.micros)
    lake.clocks[table_id] = Clock(table_id, definition.tick, start)
    lake.append(table_id, origin, payload)
    return _answer(201, tables.document(lake.tables[definition.name]), table_id)


def _drop_table(lake: Lake, command: tables.DropTable, origin: Origin) -> Answer:
    table = lake.tables.get(command.name)
    payload = tables.drop(table, command)
    table = lake.table(command.name)
    lake.append(table.table_id, origin, payload)
    return Answer(204, b"", table.table_id)


def _begin(lake: Lake, command: instants.BeginInstant, origin: Origin) -> Answer:
    table = lake.table(command.table)
    event = lake.append(table.table_id, origin, instants.begin(table, command, origin.now))
    return _answer_instant(201, lake, table, event.time)


def _complete(lake: Lake, command: instants.CompleteInstant, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = _instant(lake, table, command.requested_time)
    payload = instants.complete(table, instant, command, lake.base_files)
    lake.append(table.table_id, origin, payload, instant.requested_time, command.request.write_stats)
    return _answer_instant(200, lake, table, instant.requested_time)


def _roll_back(lake: Lake, command: instants.RollbackInstant, origin: Origin) -> Answer:
    table = lake.table(command.table)
    instant = _instant(lake, table, command.requested_time)
    payload = instants.roll_back(table, instant, command, origin.now)
    if payload is not None:
        lake.append(table.table_id, origin, payload, instant.requested_time)
    return _answer_instant(200, lake, table, instant.requested_time)


def _change(
    lake: Lake,
    command: instants.TakeInflight | leases.RenewLease,
    origin: Origin,
    decide: Callable[[tables.Table, instants.Instant], Payload],
) -> Answer:
    table = lake.table(command.table)
    instant = _instant(lake, table, command.requested_time)
    lake.append(table.table_id, origin, decide(table, instant), instant.requested_time)
    return _answer_instant(200, lake, table, instant.requested_time)


def _instant(lake: Lake, table: tables.Table, requested_time: Micros) -> instants.Instant:
    instant = lake.instants.get((table.table_id, requested_time))
    if instant is None:
        raise errors.InstantNotFound(table.name, format_time(requested_time, table.definition.tick))
    return instant


def _answer_instant(status: int, lake: Lake, table: tables.Table, requested_time: Micros) -> Answer:
    instant = lake.instants[table.table_id, requested_time]
    return _answer(status, instants.document(table, instant), table.table_id)


def _answer(status: int, document: msgspec.Struct, table_id: uuid.UUID) -> Answer:
    return Answer(status, msgspec.json.encode(document), table_id)
