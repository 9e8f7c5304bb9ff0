"""Markers compared with write stats, set-based; and locks against new markers (docs/decisions/0016)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.reconciling import NAMED_MAX, MarkerCounts, Reconciliation
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, no_rows
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_COUNT: Final = statements.load("markers/count")
_RECONCILE: Final = statements.load("markers/reconcile")
_LOCK_INSTANTS: Final = statements.load("instants/lock_by_id")
_REFUSE_LATE: Final = statements.load("markers/refuse_late")
_DELETE_FEW: Final = statements.load("markers/delete_few")
DELETED_AT_COMPLETION_MAX: Final = 1_000
"""The markers of an instant that its completion deletes; more would take too long under the table's lock."""


class MarkedInstant(msgspec.Struct, frozen=True):
    """An instant whose markers are asked for, with the write stats that it would complete with."""

    table: str
    requested_time: Micros
    write_stats: Sequence[WriteStat] = ()
    staged: Sequence[int] = ()


def count(instant: MarkedInstant) -> Query[MarkerCounts]:
    """How many markers an instant has, and how many files reported deleted; none if it is not there."""
    return Query(_COUNT, _named(instant), lambda rows: MarkerCounts(*rows[0]) if rows else MarkerCounts())


def reconcile(instant: MarkedInstant) -> Query[Reconciliation]:
    """Compare an instant's markers with its write stats."""
    compared = {
        "versions": list(instant.staged),
        "partition_paths": [stat.partition_path for stat in instant.write_stats],
        "file_names": [stat.file_name for stat in instant.write_stats],
        "named": NAMED_MAX,
    }
    return Query(_RECONCILE, _named(instant) | compared, _reconciliation)


def _reconciliation(rows: Rows) -> Reconciliation:
    [(markers, deletions, unreconciled, *_)] = [row for row in rows if row[3] is None]
    odd = [(is_marked, DeletedFile(*name)) for _, _, _, is_marked, *name in rows if is_marked is not None]
    return Reconciliation(
        counts=MarkerCounts(markers, deletions),
        unreconciled=unreconciled,
        named=[file for is_marked, file in odd if is_marked],
        unmarked=next((file for is_marked, file in odd if not is_marked), None),
    )


def lock_instants(instants: Iterable[tuple[UUID, Micros]]) -> Query[None]:
    """Lock instants against new markers until the transaction ends; read their markers after it."""
    return Query(_LOCK_INSTANTS, _keys(instants), no_rows)


def refuse_late(instants: Iterable[tuple[UUID, Micros]]) -> Statement:
    """Abort the transaction with ``MarkedMeanwhile`` if an instant that it has ended has markers."""
    return _REFUSE_LATE, _keys(instants)


def delete_few(instants: Iterable[tuple[UUID, Micros]]) -> Statement:
    """Delete the markers of those instants that have at most ``DELETED_AT_COMPLETION_MAX``."""
    return _DELETE_FEW, _keys(instants) | {"markers_max": DELETED_AT_COMPLETION_MAX}


def _named(instant: MarkedInstant) -> dict[str, object]:
    namespace, name = split_table_name(instant.table)
    return {"namespace": namespace, "name": name, "requested_time": instant.requested_time}


def _keys(instants: Iterable[tuple[UUID, Micros]]) -> dict[str, object]:
    ordered = sorted(instants)
    return {
        "table_ids": [table_id for table_id, _ in ordered],
        "requested_times": [requested_time for _, requested_time in ordered],
    }
