"""Markers against write stats: before the table is locked where there are many, and for good when it is.

The row of the instant is what keeps markers from coming in between (docs/decisions/0016): of one that has
markers it is held before they are read; one that has none is ended first, and then looked at once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.commands.staging import completes_staged
from chronolake_metastore.domain import deletions, reconciling
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_metastore.domain.reconciling import Counted, Reconciliation
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.store import reconciling as stored
from chronolake_metastore.store.reconciling import MarkedInstant
from chronolake_metastore.store.transaction import Statement, Transaction
from chronolake_model.times import Micros


async def look_ahead(tx: Transaction, commands: Sequence[Command]) -> Reconciliation | None:
    """The markers of an instant whose write stats were staged, against these; nothing is locked yet."""
    match commands:
        case [CompleteInstant() as command] if completes_staged(command):
            marked = _marked(command, command.requested_time)
            [rows] = await tx.batch([stored.count(marked)])
            if stored.counted(rows) == Counted():
                return None
            [rows] = await tx.batch([stored.reconcile(marked)])
            return stored.reconciled(rows)
        case _:
            return None


async def load(
    tx: Transaction, lake: Lake, commands: Sequence[Command], ahead: Reconciliation | None = None
) -> None:
    """Have ``lake`` know how markers and write stats stand, of the instants that have to do with markers.

    All instants that the transaction may change are held, in the order in which markers hold them: those that
    it changes without ever having held them would be out of that order.
    """
    asked = [(command, of) for command in _completions(commands) for of in _asked(lake, command)]
    if not asked:
        return
    if ahead is not None:
        [(command, of)] = asked
        _, rows = await tx.batch([stored.lock_instants(lake.instants), stored.count(of)])
        if stored.counted(rows) == ahead.counted:
            lake.reconciled[id(command)] = ahead
            return
    _, *found = await tx.batch(
        [stored.lock_instants(lake.instants), *(stored.reconcile(of) for _, of in asked)]
    )
    for (command, _), rows in zip(asked, found, strict=True):
        lake.reconciled[id(command)] = stored.reconciled(rows)


def refuse_late(lake: Lake) -> Statement | None:
    """Break the transaction off if an instant that it ends as one without markers has got some meanwhile."""
    ended = [key for key in lake.unmarked if key in lake.changed_instants and not _is_pending(lake, key)]
    return stored.refuse_late(ended) if ended else None


def _is_pending(lake: Lake, key: tuple[UUID, Micros]) -> bool:
    return lake.instants[key].state.is_pending


def _completions(commands: Iterable[Command]) -> Iterator[CompleteInstant]:
    for command in commands:
        match command:
            case CompleteInstant():
                yield command
            case CompleteTogether():
                yield from command.members
            case _:
                pass


def _asked(lake: Lake, command: CompleteInstant) -> Iterator[MarkedInstant]:
    """The instant whose markers count, if any do: of one that cannot complete anyway none."""
    table = lake.tables.get(command.table)
    key = None if table is None else (table.table_id, command.requested_time)
    instant = None if key is None else lake.instants.get(key)
    if table is None or instant is None or not instant.state.is_pending:
        return
    if reconciling.asks(table, instant, was_marked=key in lake.marked or key in lake.had_deletions):
        yield _marked(command, deletions.marked_by(instant))


def _marked(command: CompleteInstant, marked_by: Micros) -> MarkedInstant:
    request = command.request
    return MarkedInstant(command.table, marked_by, request.write_stats, request.staged)
