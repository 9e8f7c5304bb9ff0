"""Namespaces and tables: made and dropped, and their schemas changed."""

from __future__ import annotations

import uuid
from typing import assert_never

from chronolake_metastore.commands.answers import Answer, answer
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import namespaces, schemas, tables
from chronolake_metastore.domain.clock import CATALOG_ID, Clock
from chronolake_metastore.domain.commands import CatalogCommand
from chronolake_metastore.domain.events import BasePathTakenOver, Origin
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

Command = CatalogCommand | schemas.ChangeSchema


def carry_out(lake: Lake, command: Command, origin: Origin) -> Answer:
    """Decide ``command`` and append what follows; raises ``TimelineError``."""
    match command:
        case namespaces.CreateNamespace():
            return _create_namespace(lake, command, origin)
        case namespaces.DropNamespace():
            return _drop_namespace(lake, command, origin)
        case tables.CreateTable():
            return _create_table(lake, command, origin)
        case tables.DropTable():
            return _drop_table(lake, command, origin)
        case schemas.ChangeSchema():
            return _change_schema(lake, command, origin)
        case _:
            assert_never(command)


def _create_namespace(lake: Lake, command: namespaces.CreateNamespace, origin: Origin) -> Answer:
    name = command.request.name
    lake.append(CATALOG_ID, origin, namespaces.create(lake.namespaces.get(name), command))
    return answer(201, namespaces.document(lake.namespaces[name]), CATALOG_ID)


def _drop_namespace(lake: Lake, command: namespaces.DropNamespace, origin: Origin) -> Answer:
    existing = lake.namespaces.get(command.name)
    lake.append(CATALOG_ID, origin, namespaces.drop(existing, lake.tables_in.get(command.name, 0), command))
    return Answer(204, b"", CATALOG_ID)


def _create_table(lake: Lake, command: tables.CreateTable, origin: Origin) -> Answer:
    definition = command.request
    namespace, _ = split_table_name(definition.name)
    payload = tables.create(
        lake.namespaces.get(namespace), lake.tables.get(definition.name), command, lake.neighbours
    )
    # The request id is unique as long as the log exists; so is what is made of it, without randomness.
    table_id = uuid.uuid5(CATALOG_ID, origin.request_id)
    # Not behind a dropped table of this name: its writers must not meet their instants again in this one.
    for taken in payload.took_over:
        lake.append(taken, origin, BasePathTakenOver(by=table_id, name=definition.name))
    ended = [lake.clocks[taken].last_time for taken in payload.took_over]
    last = max(lake.last_times.get(definition.name, Micros(0)), *ended, Micros(0))
    start = Micros(last - last % definition.tick.micros)
    lake.clocks[table_id] = Clock(table_id, definition.tick, start)
    lake.append(table_id, origin, payload)
    return answer(201, tables.document(lake.tables[definition.name], lake.metastore_id), table_id)


def _change_schema(lake: Lake, command: schemas.ChangeSchema, origin: Origin) -> Answer:
    table = lake.table(command.table)
    event = lake.append(table.table_id, origin, schemas.change(table, command.request))
    changed = lake.table(command.table)
    made = schemas.present(changed, event.time, event.version)
    return answer(200, schemas.document(changed, made), table.table_id)


def _drop_table(lake: Lake, command: tables.DropTable, origin: Origin) -> Answer:
    table = lake.tables.get(command.name)
    payload = tables.drop(table, command)
    table = lake.table(command.name)
    lake.append(table.table_id, origin, payload)
    return Answer(204, b"", table.table_id)
