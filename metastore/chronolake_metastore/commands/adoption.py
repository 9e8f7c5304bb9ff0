"""Adopting tables that Hudi has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing
from chronolake_metastore.commands.tables import CreateTableHandler, NewTable, id_of_new_table, take_over
from chronolake_metastore.domain import adoption, tables
from chronolake_metastore.domain.adoption import AdoptTable
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.logs import Clock
from chronolake_metastore.domain.results import AdoptionResult, AnyResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.store import base_paths
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros


class AdoptTableHandler(Handler[AdoptTable, NewTable]):
    """Creates a table together with its history, under the same locks and rules as a table without."""

    command = AdoptTable
    no_evidence: ClassVar[NewTable] = NewTable()

    def __init__(self) -> None:
        self._creating = CreateTableHandler()

    @override
    def names(self, command: AdoptTable) -> Names:
        return self._creating.names(command.creation)

    @override
    def sharing(self, command: AdoptTable) -> Sharing:
        return Sharing.ALONE

    @override
    def files(self, command: AdoptTable) -> int:
        return sum(len(instant.write_stats) for instant in command.instants)

    @override
    def is_bulk(self, command: AdoptTable) -> bool:
        return True

    @override
    def load(self, state: State, command: AdoptTable, evidence: NewTable, now: Now) -> Loading[NewTable] | None:
        creation = self._creating.load(state, command.creation, evidence, now)
        return None if creation is None else self._load(creation, adoption.pending_times(command))

    def _load(self, creation: Loading[NewTable], pending: Sequence[Micros]) -> Loading[NewTable]:
        evidence = yield from creation
        dropped = [neighbour.table_id for neighbour in evidence.neighbours if neighbour.is_dropped]
        if not dropped or not pending:
            return evidence
        published_time = base_paths.find_published_time(dropped, pending)
        yield [published_time]
        return msgspec.structs.replace(evidence, published_time=published_time.result)

    @override
    def decide(self, state: State, command: AdoptTable, evidence: NewTable, origin: Origin) -> AnyResult:
        definition = command.definition
        name, _ = split_table_name(definition.name)
        created = tables.create(
            state.namespaces.get(name),
            state.tables.get(definition.name),
            command.creation,
            state.allowed_locations(name),
            evidence.neighbours,
            state.rights,
        )
        # All is checked before the first event is appended.
        steps, adopted = adoption.history(command, created, evidence.former, origin.now)
        adoption.refuse_published_time(command, evidence.published_time)
        table_id = id_of_new_table(origin)
        behind = take_over(state, table_id, created, evidence, origin)
        state.start_clock(Clock(table_id, definition.tick))
        for step in steps:
            # An event gets the time of its origin, if that is later than the event before.
            at = msgspec.structs.replace(origin, now=msgspec.structs.replace(origin.now, wall=step.time))
            event = state.append(table_id, at, step.payload, step.instant, step.write_stats, step.entries)
            assert event.time == step.time, "the steps are in the order of their times"
        # From here on the times are the server's: later than those of tables that had the name or the folder.
        clock = state.clocks[table_id]
        behind = Micros(max(clock.last_time, behind - behind % clock.tick.micros))
        state.start_clock(msgspec.structs.replace(clock, last_time=behind))
        last_event = state.append(table_id, origin, adopted)
        return AdoptionResult(
            log_id=table_id,
            table=state.tables[definition.name],
            metastore_id=evidence.metastore_id,
            took_over=created.took_over,
            version=last_event.version,
        )
