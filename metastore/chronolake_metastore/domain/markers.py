"""Markers: which ones an instant may have, and early conflicts (docs/architecture.md#markers-and-deletion)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts, files
from chronolake_metastore.domain.actions import WRITES
from chronolake_metastore.domain.conflicts import COMPLETED, ConcurrentInstant, GroupChange, LostConflict, Rule
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import (
    PENDING,
    Instant,
    illegal,
    in_the_way,
    refuse_another,
    refuse_unless,
)
from chronolake_metastore.domain.tables import Table
from chronolake_model.file_names import parse_file_name
from chronolake_model.files import FileGroupName
from chronolake_model.marker_names import Marker, MarkerKind, check_marker
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import State, Touch


class CreateMarkers(msgspec.Struct, frozen=True):
    """Create markers of a pending instant. It is not a command, because it makes no event."""

    table: str
    requested_time: Micros
    markers: Sequence[Marker]
    writer: str | None = None
    table_id: UUID | None = None
    """The id that the table must have."""


Marked = Mapping[FileGroup, Set[ConcurrentInstant]]
"""The pending instants with markers in a file group, each with the change that its markers announce."""


def check(command: CreateMarkers) -> None:
    """Raise ``InvalidMarker`` unless each marker is of a data file that the instant could write."""
    # Nearly all names have the same digits.
    times = {""}
    for index, marker in enumerate(command.markers):
        try:
            name = check_marker(marker)
            if name.requested_time not in times:
                if parse_time(name.requested_time) != command.requested_time:
                    raise ValueError(
                        f"the name says instant {name.requested_time}, but the request is for another one"
                    )
                times.add(name.requested_time)
        except ValueError as exc:
            raise _invalid(index, marker, exc) from exc


def admit(table: Table, instant: Instant, command: CreateMarkers) -> None:
    """Raise ``InstantRolledBack``, ``IllegalTransition`` or ``LeaseLive`` unless the instant takes markers.

    As for heartbeats, an ended lease without a rollback is no reason to refuse: the writer is alive.
    """
    refuse_unless(table, instant, PENDING, "take markers")
    if instant.begun_as not in WRITES:
        raise illegal(table, instant, f"a {instant.action} writes no data files, so it has no markers")
    if instant.lease_expires_at is None:
        raise illegal(table, instant, "its plan waits and has no executor; take it inflight to execute it")
    refuse_another(instant, command.writer)


def refuse_other_paths(table: Table, command: CreateMarkers) -> None:
    """Raise ``InvalidMarker`` for a marker in a partition path that cannot be one of the partitioned table.

    A table without partitions has one path, so no record can be stored twice: its write stats are enough.
    """
    if not table.definition.partition_fields:
        return
    for index, marker in enumerate(command.markers):
        try:
            files.check_partition_path(table, marker.partition_path)
        except ValueError as exc:
            raise _invalid(index, marker, exc) from exc


def _invalid(index: int, marker: Marker, why: ValueError) -> errors.InvalidMarker:
    return errors.InvalidMarker(
        f"markers[{index}]: {why}",
        index=index,
        file_name=marker.file_name,
        partition_path=marker.partition_path,
    )


def refuse_pending(table: Table, instant: Instant) -> None:
    """Raise ``IllegalTransition`` while the instant is pending: a rollback needs its markers."""
    if instant.state in PENDING:
        raise illegal(table, instant, "its markers stay until it has completed or was rolled back")


def refuse_needed(table: Table, instant: Instant, rollback: Instant) -> None:
    """Raise ``IllegalTransition`` while a rollback uses the instant's markers: they are its list."""
    if rollback.state in PENDING and rollback.plan is not None and rollback.plan.by_markers:
        raise illegal(
            table,
            instant,
            "its rollback deletes the files of these markers, so they stay until the rollback has completed",
        )


def groups(table: Table, markers: Iterable[Marker]) -> list[FileGroup]:
    """The file groups of markers that were checked."""
    named = ((marker.partition_path, parse_file_name(marker.file_name).file_id) for marker in markers)
    return [FileGroup(table.table_id, partition_path, file_id) for partition_path, file_id in named]


def change(instant: Instant, kind: MarkerKind) -> GroupChange:
    """The change that an instant makes to a file group in which it has a marker of this kind."""
    touch = Touch.LOG if kind is MarkerKind.APPEND else Touch.BASE
    return conflicts.change_of(instant.begun_as, touch)


def refuse_early(
    table: Table,
    instant: Instant,
    markers: Sequence[Marker],
    concurrent: conflicts.ConcurrentInstants,
    marked: Marked,
    now: Micros,
) -> None:
    """Raise ``WriteConflict`` if another instant has marked one of the file groups, or has written it since.

    That is: if completing would be refused now; or if, of this instant and a pending one whose lease runs at
    ``now``, the second to complete would be refused; or if a promised file of a silent stream would be.
    """
    mine, tick = instant.requested_time, table.definition.tick
    touched = [
        (change(instant, marker.kind), group)
        for marker, group in zip(markers, groups(table, markers), strict=True)
    ]
    names = [(what, FileGroupName(group.partition_path, group.file_id)) for what, group in touched]
    conflicts.refuse(table, mine, names, in_the_way(instant, concurrent), now)
    in_common: dict[FileGroup, ConcurrentInstant] = {}
    for what, group in touched:
        for other in marked.get(group, ()):
            if other.requested_time != mine and _is_in_the_way(what, other, now):
                in_common[group] = other
    if not in_common:
        return
    first = min(in_common.values(), key=lambda other: other.requested_time)
    conflict = conflicts.told(table, LostConflict(first, list(in_common)))
    raise errors.WriteConflict(
        f"the pending {first.action} {format_time(first.requested_time, tick)} has markers in {len(in_common)} "
        f"of the same file group(s) of {table.name!r}; roll back, wait for it to end, and write again",
        **msgspec.to_builtins(conflict),
    )


def holder(instant: Instant, kind: MarkerKind) -> ConcurrentInstant:
    """An instant as the holder of a file group, by a marker of this kind."""
    return ConcurrentInstant(
        change=change(instant, kind),
        action=instant.action,
        state=State(instant.state),
        requested_time=instant.requested_time,
        lease_expires_at=instant.lease_expires_at,
    )


def _is_in_the_way(change: GroupChange, other: ConcurrentInstant, now: Micros) -> bool:
    if other.lease_expires_at is not None and other.lease_expires_at > now:
        return _exclude(change, other.change)
    # A dead writer holds nothing, but a silent stream completes what it has promised when it is opened again.
    return other.is_promised and COMPLETED[other.change][change] is not Rule.NEVER


def _exclude(change: GroupChange, other: GroupChange) -> bool:
    """Whether one of two instants that do this to a file group is refused, whichever completes last."""
    return COMPLETED[change][other] is not Rule.NEVER or COMPLETED[other][change] is not Rule.NEVER
