"""Markers: rows of their own, beside the log and its projections (docs/decisions/0016)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.actions import begun_as
from chronolake_metastore.domain.conflicts import ConcurrentInstant, change_of
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.store.postgres import advisory_locks, statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, no_rows
from chronolake_model.marker_names import Marker, MarkerKind
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

FIRST: Final = Marker("", "", MarkerKind.APPEND)
"""Before all markers of an instant."""


class InstantRef(msgspec.Struct, frozen=True):
    """An instant whose markers are asked for."""

    table_id: UUID
    requested_time: Micros


class NewMarkers(msgspec.Struct, frozen=True):
    """Markers of instants of one table; ``file_ids`` has nothing where conflicts are not detected early."""

    table_id: UUID
    requested_times: Sequence[Micros]
    markers: Sequence[Marker]
    file_ids: Sequence[str | None]


def create(requests: Sequence[CreateMarkers]) -> Query[list[list[bool] | None]]:
    """Create markers of instants that are pending; it is to be a transaction of its own.

    The result says of each request which markers were new; None where the instant did not take them.
    """
    named = _numbered(requests)
    parts = [split_table_name(table) for table, _, _, _ in named]
    markers = [marker for request in requests for marker in request.markers]
    numbers = [number for request in requests for number in [named[_name_of(request)]] * len(request.markers)]
    parameters = {
        "namespaces": [namespace for namespace, _ in parts],
        "tables": [table for _, table in parts],
        "table_ids": [table_id for _, table_id, _, _ in named],
        "requested_times": [requested_time for _, _, requested_time, _ in named],
        "writers": [writer for _, _, _, writer in named],
        "numbers": numbers,
        "markers": len(markers),
        **_columns(markers),
    }
    return Query(_CREATE, parameters, lambda rows: _created(rows, requests))


def _created(rows: Rows, requests: Sequence[CreateMarkers]) -> list[list[bool] | None]:
    admitted = {number: tuple(instant) for _, number, *instant, _, _, _ in rows if number is not None}
    all_new = bool(rows) and rows[0][0] == sum(len(request.markers) for request in requests)
    new = Counter(tuple(key) for _, number, *key in rows if number is None)
    named = _numbered(requests)
    results: list[list[bool] | None] = []
    for request in requests:
        instant = admitted.get(named[_name_of(request)])
        if instant is None:
            results.append(None)
        elif all_new:
            results.append([True] * len(request.markers))
        else:
            results.append(_are_new(new, instant, request.markers))
    return results


def lock(table: str) -> Query[None]:
    """Lock a table's markers until the transaction ends, against others that read them before they create some.

    Commands do not wait for this lock.
    """
    key = advisory_locks.key_of_name(table)
    return Query(_LOCK, {"lock": AdvisoryLock.MARKERS_OF_TABLE.value, "key": key}, no_rows)


def lock_instants(table: str, requested_times: Iterable[Micros]) -> Query[None]:
    """Lock instants of a table against changes until the transaction ends; read them after it."""
    namespace, name = split_table_name(table)
    parameters = {"namespace": namespace, "table": name, "requested_times": sorted(set(requested_times))}
    return Query(_LOCK_INSTANTS, parameters, no_rows)


def find_marked(table_id: UUID, groups: Iterable[FileGroup]) -> Query[dict[FileGroup, set[ConcurrentInstant]]]:
    """Pending instants that have markers in file groups of a table, by file group."""
    named = sorted({(group.partition_path, group.file_id) for group in groups})
    parameters = {
        "table_id": table_id,
        "partition_paths": [partition_path for partition_path, _ in named],
        "file_ids": [file_id for _, file_id in named],
    }
    return Query(_FIND_MARKED, parameters, lambda rows: _marked(table_id, rows))


def _marked(table_id: UUID, rows: Rows) -> dict[FileGroup, set[ConcurrentInstant]]:
    marked: dict[FileGroup, set[ConcurrentInstant]] = defaultdict(set)
    for partition_path, file_id, kind, action, operation, state, requested_time, expires_at, promised in rows:
        touch = Touch.LOG if kind == MarkerKind.APPEND else Touch.BASE
        marked[FileGroup(table_id, partition_path, file_id)].add(
            ConcurrentInstant(
                change=change_of(begun_as(Action(action), Operation(operation)), touch),
                action=Action(action),
                state=State(state),
                requested_time=Micros(requested_time),
                lease_expires_at=None if expires_at is None else Micros(expires_at),
                is_promised=promised,
            )
        )
    return marked


def insert(new: NewMarkers, requests: Sequence[CreateMarkers]) -> Query[list[list[bool]]]:
    """Insert the markers of ``requests``, whose instants are locked.

    The result says of each request which markers were new; of two that ask for the same it is the first's.
    """
    parameters = {
        "table_id": new.table_id,
        "requested_times": new.requested_times,
        "file_ids": new.file_ids,
        **_columns(new.markers),
    }
    return Query(_INSERT, parameters, lambda rows: _inserted(rows, requests))


def _inserted(rows: Rows, requests: Sequence[CreateMarkers]) -> list[list[bool]]:
    new = Counter(tuple(row) for row in rows)
    return [_are_new(new, (request.requested_time,), request.markers) for request in requests]


async def page(
    connection: Connection, of: InstantRef, after: Marker, markers: int, *, unpublished: bool = False
) -> list[Marker]:
    """The first ``markers`` after ``after``; if ``unpublished``, without those of published files."""
    statement = _UNPUBLISHED if unpublished else _PAGE
    rows = await connection.execute(statement, _of(of) | _after(after) | {"markers": markers})
    return [Marker(partition_path, file_name, MarkerKind(kind)) for partition_path, file_name, kind in rows]


async def find(connection: Connection, of: InstantRef, marker: Marker) -> datetime | None:
    """When the instant's marker was created, if it is there."""
    parameters = _of(of) | msgspec.structs.asdict(marker)
    created_at: datetime | None = (await connection.execute(_FIND, parameters)).scalar_one_or_none()
    return created_at


async def delete(
    connection: Connection, of: InstantRef, after: Marker, markers: int
) -> tuple[Marker | None, int]:
    """Delete the next ``markers`` of an instant after ``after``; gives the last of them, and their number."""
    rows = await connection.execute(_DELETE, _of(of) | _after(after) | {"markers": markers})
    row = rows.one_or_none()
    if row is None:
        return None, 0
    partition_path, file_name, kind, deleted = row
    return Marker(partition_path, file_name, MarkerKind(kind)), deleted


_Name = tuple[str, UUID | None, Micros, str | None]


def _name_of(request: CreateMarkers) -> _Name:
    return request.table, request.table_id, request.requested_time, request.writer


def _numbered(requests: Iterable[CreateMarkers]) -> dict[_Name, int]:
    """Instants, each once, with the numbers that they have in the statement."""
    return {name: number for number, name in enumerate(dict.fromkeys(map(_name_of, requests)), start=1)}


def _columns(markers: Sequence[Marker]) -> dict[str, list[object]]:
    return {
        "partition_paths": [marker.partition_path for marker in markers],
        "file_names": [marker.file_name for marker in markers],
        "kinds": [marker.kind for marker in markers],
    }


def _are_new(new: Counter[tuple[object, ...]], of: tuple[object, ...], markers: Sequence[Marker]) -> list[bool]:
    """Which of ``markers`` are new; each is so once."""
    are_new = []
    for marker in markers:
        key = (*of, marker.partition_path, marker.file_name, marker.kind)
        are_new.append(new[key] > 0)
        new[key] -= 1
    return are_new


def _of(of: InstantRef) -> dict[str, object]:
    return msgspec.structs.asdict(of)


def _after(after: Marker) -> dict[str, object]:
    return {"after_partition": after.partition_path, "after_file": after.file_name, "after_kind": after.kind}
