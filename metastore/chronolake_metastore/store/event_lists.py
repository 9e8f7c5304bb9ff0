"""The long lists of events: rows of the log beside the events that name them (docs/decisions/0027)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.lists import Entry, ListName
from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Rows, Statement, Transaction
from chronolake_model.files import FileGroupName
from chronolake_model.markers import DeletedFile
from chronolake_model.times import Micros

_APPEND: Final = statements.load("event_lists/append")
_FIND_UNPLANNED_GROUPS: Final = statements.load("event_lists/find_unplanned_groups")
_FIND_UNPLANNED_FILES: Final = statements.load("event_lists/find_unplanned_files")
_READ: Final = statements.load("event_lists/read")
_ORPHANS: Final = statements.load("event_lists/find_without_event")
_PAGE: Final = statements.load("event_lists/page")
_READ_ALL: Final = """
    SELECT partition_path, name
    FROM event_entry
    WHERE table_id = %(table_id)s::uuid AND instant = moment(%(instant)s) AND list = %(list)s
    ORDER BY ordinal
"""


class OfEvent(msgspec.Struct, frozen=True):
    """A list, and the event that it belongs to: of the instant with this requested time."""

    table_id: UUID
    instant: Micros
    version: int
    name: ListName


class StoredList(msgspec.Struct, frozen=True):
    """A list to append, with its entries."""

    of: OfEvent
    entries: Sequence[Entry]


class StoredEntry(msgspec.Struct, frozen=True):
    """One row."""

    of: OfEvent
    ordinal: int
    entry: Entry


def append(lists: Sequence[StoredList]) -> Statement:
    """Append the entries of lists."""
    rows = [(one.of, ordinal, entry) for one in lists for ordinal, entry in enumerate(one.entries)]
    return _APPEND, {
        "table_id": [of.table_id for of, _, _ in rows],
        "instant": [of.instant for of, _, _ in rows],
        "list": [of.name.value for of, _, _ in rows],
        "ordinal": [ordinal for _, ordinal, _ in rows],
        "version": [of.version for of, _, _ in rows],
        "partition_path": [entry.partition_path for _, _, entry in rows],
        "name": [entry.name for _, _, entry in rows],
    }


def find_unplanned_groups(table_id: UUID, instant: Micros, groups: Iterable[FileGroupName]) -> Statement:
    """Look for those of ``groups`` that the plan of the instant does not name."""
    names = list(groups)
    return _FIND_UNPLANNED_GROUPS, {
        "table_id": table_id,
        "instant": instant,
        "partition_paths": [name.partition_path for name in names],
        "file_ids": [name.file_id for name in names],
    }


def found_unplanned_groups(rows: Rows) -> list[FileGroupName]:
    """What ``find_unplanned_groups`` found."""
    return [FileGroupName(*row) for row in rows]


async def unplanned_files(
    tx: Transaction, table_id: UUID, instant: Micros, files: Sequence[DeletedFile]
) -> list[DeletedFile]:
    """Those of ``files`` that the plan of the instant does not name, in order."""
    named = {
        "table_id": table_id,
        "instant": instant,
        "partition_paths": [one.partition_path for one in files],
        "file_names": [one.file_name for one in files],
    }
    return sorted(DeletedFile(*row) for row in await tx.query(_FIND_UNPLANNED_FILES, named))


async def read(tx: Transaction, of: OfEvent) -> list[Entry]:
    """All entries of one list."""
    named = {"table_id": of.table_id, "instant": of.instant, "list": of.name.value}
    return [Entry(*row) for row in await tx.query(_READ_ALL, named)]


async def page(
    connection: AsyncConnection,
    table_id: UUID,
    instant: Micros,
    name: ListName,
    after: int,
    limit: int,
    bytes_max: int,
) -> tuple[list[tuple[int, Entry]], bool]:
    """The entries behind the ordinal ``after``, each with its own, up to either bound; at least one if any.

    And whether there may be more behind them.
    """
    named = {
        "table_id": table_id,
        "instant": instant,
        "list": name.value,
        "after": after,
        "limit": limit,
        "bytes_max": bytes_max,
    }
    rows = (await statements.execute(connection, _PAGE, named)).all()
    found = [(ordinal, Entry(partition_path, entry)) for ordinal, partition_path, entry, _ in rows]
    return found, bool(rows) and (len(rows) == limit or len(rows) < rows[0][3])


async def entries(tx: Transaction, lists: Sequence[OfEvent]) -> AsyncIterator[StoredEntry]:
    """The entries of lists, one by one, each list's in their order, however many there are."""
    named = {
        "table_ids": [of.table_id for of in lists],
        "instants": [of.instant for of in lists],
        "lists": [of.name.value for of in lists],
    }
    async for table_id, instant, name, ordinal, version, partition_path, entry in tx.stream(_READ, named):
        of = OfEvent(table_id, Micros(instant), version, ListName(name))
        yield StoredEntry(of, ordinal, Entry(partition_path, entry))


async def without_event(tx: Transaction, table_id: UUID | None, limit: int) -> list[tuple[UUID, int, str, int]]:
    """The first ``limit`` lists whose event does not name them: table, version, list, number of entries."""
    rows = await tx.query(_ORPHANS, {"table_id": table_id, "limit": limit})
    return [(of_table, version, name, count) for of_table, version, name, count in rows]
