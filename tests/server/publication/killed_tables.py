"""The histories of tables whose publishers are killed."""

from __future__ import annotations

from collections.abc import Iterator

import chronolake
from chronolake import Action
from chronolake_model.vocabulary import TableType
from tests.fix_stores import Store
from tests.hudi.keyed_table import KeyedTable
from tests.published import row
from tests.server.publication.archived_tables import SHORT
from tests.server.publication.killing import History, State


class States:
    """The states of a table since its publication was complete, without repetitions."""

    def __init__(self, table: KeyedTable) -> None:
        self._table = table
        self._states: list[State] = [None]
        self.add()

    def add(self) -> None:
        """Remember the present state."""
        present = self._table.own_rows()
        if present != self._states[-1]:
            self._states.append(present)

    def take(self) -> list[State]:
        """The states; then the last one is the first of the next ones."""
        self.add()
        states, self._states = self._states, self._states[-1:]
        return states


def copy_on_write(client: chronolake.Client, store: Store) -> History:
    """A table with commits, a clean, a savepoint, a replace commit and a restore; it is published again."""
    return History(KeyedTable(client, store), _copy_on_write)


def merge_on_read(client: chronolake.Client, store: Store) -> History:
    """A table with log files, a log compaction, compactions of all outcomes, and what the other one has."""
    return History(KeyedTable(client, store, TableType.MERGE_ON_READ), _merge_on_read)


def _copy_on_write(table: KeyedTable) -> Iterator[list[State]]:
    states = States(table)
    yield states.take()
    table.upsert(row(1), row(2, day="b"))
    yield states.take()
    table.upsert(row(1, name="y"), row(3))
    states.add()
    table.upsert(row(4, day="c"))
    yield states.take()
    table.table.clean(retain_commits=1)
    yield states.take()
    savepoint = table.table.savepoint()
    yield states.take()
    table.upsert(row(5))
    states.add()
    table.overwrite("a", row(7))
    yield states.take()
    # A restore undoes the newest instant first.
    first_undone = table.own_rows(table.completion_time(table.requested_times[-2]))
    table.table.restore(savepoint.requested_time)
    before, after = states.take()
    yield [before, first_undone, after]
    table.table.release_savepoint(savepoint.requested_time)
    yield from _republished(table)


def _merge_on_read(table: KeyedTable) -> Iterator[list[State]]:
    states = States(table)
    yield states.take()
    table.upsert(row(1), row(2), row(3, day="b"))
    states.add()
    table.upsert(row(1, name="y"), row(5))
    states.add()
    table.delete(row(3, day="b"))
    yield states.take()
    yield from _rolled_back_compaction(table, states)
    yield from _completed_compaction(table, states)
    table.cluster("b")
    states.add()
    table.overwrite("b", row(9, day="b"))
    yield states.take()
    table.table.clean(retain_commits=1)
    yield states.take()
    yield from _restored_compaction(table, states)
    yield from _republished(table)


def _rolled_back_compaction(table: KeyedTable, states: States) -> Iterator[list[State]]:
    requested = _planned(table)
    table.upsert(row(1, name="after the plan"), row(7))
    yield states.take()
    write = table.table.execute(requested)
    write.mark(*table.markers(table.compacted(write)))
    table.upsert(row(2, name="beside the base file"))
    yield states.take()
    table.table.rollback(requested, writer=write.instant.writer, execute=False)
    table.upsert(row(3, name="before the deletion", day="b"))
    yield states.take()
    table.table.finish_rollbacks()
    table.upsert(row(2, name="after the deletion"))
    yield states.take()


def _completed_compaction(table: KeyedTable, states: States) -> Iterator[list[State]]:
    late, undone = table.table.begin(), table.table.begin()
    late_stats = table.upserted(late.requested_time, [row(5, name="late")])
    undone.mark(*table.markers(table.upserted(undone.requested_time, [row(1, name="undone")])))
    requested = _planned(table)
    yield states.take()
    given_back = table.table.execute(requested)
    given_back.mark(*table.markers(table.compacted(given_back)))
    given_back.return_to_requested()
    yield states.take()
    write = table.table.execute(requested)
    stats = table.compacted(write)
    table.upsert(row(1, name="beside the compaction"))
    yield states.take()
    undone.rollback()
    table.complete(write, stats)
    states.add()
    table.complete(late, late_stats)
    yield states.take()
    table.upsert(row(2, name="z"))
    states.add()
    table.compact_logs()
    states.add()
    table.delete(row(7))
    yield states.take()


def _restored_compaction(table: KeyedTable, states: States) -> Iterator[list[State]]:
    savepoint = table.table.savepoint()
    table.upsert(row(1, name="undone"))
    requested = _planned(table)
    yield states.take()
    table.compact(requested)
    states.add()
    table.upsert(row(1, name="undone too"))
    yield states.take()
    first_undone = table.own_rows(table.completion_time(requested))
    table.table.restore(savepoint.requested_time)
    before, after = states.take()
    yield [before, first_undone, after]
    table.upsert(row(1, name="after the restore"))
    states.add()
    table.upsert(row(13))
    table.table.release_savepoint(savepoint.requested_time)
    yield states.take()
    # Its deletion of the undone base files takes back the plan of the undone compaction.
    table.table.clean(retain_commits=1)
    yield states.take()
    requested = _planned(table)
    yield states.take()
    table.compact(requested)
    table.upsert(row(2, name="last"))
    yield states.take()


def _republished(table: KeyedTable) -> Iterator[list[State]]:
    """It is hidden while it is not published, and then until all of it is there again."""
    before = table.own_rows()
    table.table.alter(set={"hudi.publish": "false"})
    table.upsert(row(11))
    yield [before, None]
    table.table.alter(unset=["hudi.publish"])
    yield [None, table.own_rows()]


def _planned(table: KeyedTable) -> str:
    requested = table.plan(Action.COMPACTION)
    assert requested is not None
    return requested


def with_history(client: chronolake.Client, store: Store) -> History:
    """A table whose oldest instants leave the active timeline while it is published."""
    return History(KeyedTable(client, store, properties=SHORT), _with_history)


def _with_history(table: KeyedTable) -> Iterator[list[State]]:
    states = States(table)
    yield states.take()
    for number in range(6):
        table.upsert(row(number), row(100, name=f"n{number}"))
        states.add()
    yield states.take()
    for number in range(3):
        table.overwrite("a", row(number), row(100, name=f"o{number}"))
        states.add()
        table.table.clean(retain_commits=1)
    yield states.take()
    for number in range(4):
        table.upsert(row(number, day="b"))
        states.add()
    yield states.take()
