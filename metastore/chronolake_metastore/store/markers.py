"""Markers: rows of their own, beside the log and what follows from it (docs/decisions/0016)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.actions import begun_as
from chronolake_metastore.domain.conflicts import ConcurrentInstant, change_of
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.store import advisory_locks, statements
from chronolake_metastore.store.advisory_locks import AdvisoryLock
from chronolake_metastore.store.transaction import Rows, Statement
from chronolake_model.markers import Marker, MarkerKind
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State, Touch

_CREATE: Final = statements.load("markers/create")
_INSERT: Final = statements.load("markers/insert")
_LOCK_INSTANTS: Final = statements.load("instants/lock")
_FIND_MARKED: Final = statements.load("markers/find_in_groups")
_PAGE: Final = statements.load("markers/page")
_UNPUBLISHED: Final = statements.load("markers/page_of_unpublished")
_DELETE: Final = statements.load("markers/delete")
_FIND: Final = """
    SELECT created_at
    FROM marker
    WHERE table_id = %(table_id)s
        AND requested_time = moment(%(requested_time)s)
        AND partition_path = %(partition_path)s
        AND file_name = %(file_name)s
        AND kind = %(kind)s
"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(%(lock)s::integer, %(key)s::integer)"

MarkerKey = tuple[Micros, str, str, str]
"""Requested time, partition path, file name and kind: a marker within its table."""
FIRST: Final = Marker("", "", MarkerKind.APPEND)
"""Before all markers of an instant."""


class OfInstant(msgspec.Struct, frozen=True):
    """An instant whose markers are asked for."""

    table_id: UUID
    requested_time: Micros


class NewMarkers(msgspec.Struct, frozen=True):
    """Markers of instants of one table; ``file_ids`` has nothing where conflicts are not detected early."""

    table_id: UUID
    requested_times: Sequence[Micros]
    markers: Sequence[Marker]
    file_ids: Sequence[str | None]


def create(asked: Sequence[CreateMarkers]) -> Statement:
    """Create what is asked for, of instants that are pending; it is to be a transaction of its own."""
    named = _numbered(asked)
    names = [(*split_table_name(table), requested_time, writer) for table, requested_time, writer in named]
    markers = [marker for one in asked for marker in one.request.markers]
    numbers = [number for one in asked for number in [named[_name_of(one)]] * len(one.request.markers)]
    return _CREATE, {
        "namespaces": [name[0] for name in names],
        "tables": [name[1] for name in names],
        "requested_times": [name[2] for name in names],
        "writers": [name[3] for name in names],
        "numbers": numbers,
        "markers": len(markers),
        **_columns(markers),
    }


def created(rows: Rows, asked: Sequence[CreateMarkers]) -> list[list[bool] | None]:
    """Of each request which markers were new; nothing where the instant did not take them."""
    admitted = {number: tuple(instant) for _, number, *instant, _, _, _ in rows if number is not None}
    all_new = bool(rows) and rows[0][0] == sum(len(one.request.markers) for one in asked)
    new = Counter(tuple(key) for _, number, *key in rows if number is None)
    named = _numbered(asked)
    found: list[list[bool] | None] = []
    for one in asked:
        instant = admitted.get(named[_name_of(one)])
        if instant is None:
            found.append(None)
        elif all_new:
            found.append([True] * len(one.request.markers))
        else:
            found.append(_taken(new, instant, one.request.markers))
    return found


def lock(table: str) -> Statement:
    """Lock a table's markers until the transaction ends, against others that read them before they create some.

    Commands do not wait for this lock.
    """
    return _LOCK, {"lock": AdvisoryLock.MARKERS_OF_TABLE.value, "key": advisory_locks.key_of_name(table)}


def lock_instants(table: str, requested_times: Iterable[Micros]) -> Statement:
    """Keep instants of a table as they are until the transaction ends; read them behind it."""
    namespace, name = split_table_name(table)
    return _LOCK_INSTANTS, {
        "namespace": namespace,
        "table": name,
        "requested_times": sorted(set(requested_times)),
    }


def find_marked(table_id: UUID, groups: Iterable[FileGroup]) -> Statement:
    """Look for pending instants that have markers in file groups of a table."""
    named = sorted({(group.partition_path, group.file_id) for group in groups})
    return _FIND_MARKED, {
        "table_id": table_id,
        "partition_paths": [partition_path for partition_path, _ in named],
        "file_ids": [file_id for _, file_id in named],
    }


def found_marked(table_id: UUID, rows: Rows) -> dict[FileGroup, set[ConcurrentInstant]]:
    """Who has markers in each file group."""
    found: dict[FileGroup, set[ConcurrentInstant]] = defaultdict(set)
    for partition_path, file_id, kind, action, operation, state, requested_time, lease_expires_at in rows:
        touch = Touch.LOG if kind == MarkerKind.APPEND else Touch.BASE
        found[FileGroup(table_id, partition_path, file_id)].add(
            ConcurrentInstant(
                change=change_of(begun_as(Action(action), Operation(operation)), touch),
                action=Action(action),
                state=State(state),
                requested_time=Micros(requested_time),
                lease_expires_at=None if lease_expires_at is None else Micros(lease_expires_at),
            )
        )
    return found


def insert(new: NewMarkers) -> Statement:
    """Insert markers of instants that are held; ``inserted`` tells which were new."""
    return _INSERT, {
        "table_id": new.table_id,
        "requested_times": new.requested_times,
        "file_ids": new.file_ids,
        **_columns(new.markers),
    }


def inserted(rows: Rows, asked: Sequence[CreateMarkers]) -> list[list[bool]]:
    """Of each request which markers were new; of two that ask for the same it is the first's."""
    new = Counter(tuple(row) for row in rows)
    return [_taken(new, (one.requested_time,), one.request.markers) for one in asked]


async def page(
    connection: AsyncConnection, of: OfInstant, after: Marker, markers: int, *, unpublished: bool = False
) -> list[Marker]:
    """The first ``markers`` of an instant behind ``after``; if ``unpublished``, those without write stats."""
    asked = _UNPUBLISHED if unpublished else _PAGE
    rows = await statements.execute(connection, asked, _of(of) | _behind(after) | {"markers": markers})
    return [Marker(partition_path, file_name, MarkerKind(kind)) for partition_path, file_name, kind in rows]


async def find(connection: AsyncConnection, of: OfInstant, marker: Marker) -> datetime | None:
    """When the instant's marker was created, if it is there."""
    parameters = _of(of) | msgspec.structs.asdict(marker)
    found: datetime | None = (await statements.execute(connection, _FIND, parameters)).scalar_one_or_none()
    return found


async def delete(
    connection: AsyncConnection, of: OfInstant, after: Marker, markers: int
) -> tuple[Marker | None, int]:
    """Delete the next ``markers`` of an instant behind ``after``: the last of them, and how many they were."""
    rows = await statements.execute(connection, _DELETE, _of(of) | _behind(after) | {"markers": markers})
    row = rows.one_or_none()
    if row is None:
        return None, 0
    partition_path, file_name, kind, deleted = row
    return Marker(partition_path, file_name, MarkerKind(kind)), deleted


_Name = tuple[str, Micros, str | None]


def _name_of(one: CreateMarkers) -> _Name:
    return one.table, one.requested_time, one.request.writer


def _numbered(asked: Iterable[CreateMarkers]) -> dict[_Name, int]:
    """Instants, each once, with the numbers that they have in the statement."""
    return {name: number for number, name in enumerate(dict.fromkeys(map(_name_of, asked)), start=1)}


def _columns(markers: Sequence[Marker]) -> dict[str, list[object]]:
    return {
        "partition_paths": [marker.partition_path for marker in markers],
        "file_names": [marker.file_name for marker in markers],
        "kinds": [marker.kind for marker in markers],
    }


def _taken(new: Counter[tuple[object, ...]], of: tuple[object, ...], markers: Sequence[Marker]) -> list[bool]:
    """Which of ``markers`` are new; each is so once."""
    taken = []
    for marker in markers:
        key = (*of, marker.partition_path, marker.file_name, marker.kind)
        taken.append(new[key] > 0)
        new[key] -= 1
    return taken


def _of(of: OfInstant) -> dict[str, object]:
    return msgspec.structs.asdict(of)


def _behind(after: Marker) -> dict[str, object]:
    return {"after_partition": after.partition_path, "after_file": after.file_name, "after_kind": after.kind}
