"""Sweeps: deleted names are checked once more, when their writers must have stopped.

The log shows since when an instant is due: since its last reported deletion, until an event says that no file
was found (docs/decisions/0020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore.domain import deletions
from chronolake_metastore.domain.commands import InstantCommand
from chronolake_metastore.domain.deletions import ContradictedFiles
from chronolake_metastore.domain.events import DeletionsSwept, Event, FilesDeleted
from chronolake_metastore.domain.instants import Instant, refuse_unless
from chronolake_metastore.domain.tables import Table
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State

ENDED: Final = frozenset({State.COMPLETED, State.ROLLED_BACK})
"""A pending instant may write a deleted file again, so it is not swept."""


class RecordSweep(InstantCommand, frozen=True):
    unswept_since: Micros
    late_files: Sequence[DeletedFile] = ()


def record(
    table: Table, instant: Instant, command: RecordSweep, contradicted: ContradictedFiles, now: Micros
) -> FilesDeleted | DeletionsSwept | None:
    """Record a sweep with its late files, or that it found none; nothing if a deletion came after it.

    ``now`` is by the steady clock. Raises ``IllegalTransition`` while the instant is pending, or
    ``InvalidDeletion``.
    """
    refuse_unless(table, instant, ENDED, "be swept")
    if command.late_files:
        return deletions.files_deleted(table, instant, command.late_files, contradicted, now)
    since = command.unswept_since
    return DeletionsSwept(since=since) if instant.unswept_since == since else None


def evolve(instant: Instant, event: Event) -> Instant:
    """The instant after a report of its deleted files, or after a sweep.

    Its version stays: that is of the event which brought it into its state.
    """
    match event.payload:
        case FilesDeleted(steady_time=steady_time) if instant.action is not Action.CLEAN:
            return msgspec.structs.replace(
                instant, unswept_since=event.time, grace_began_at=steady_time or event.time
            )
        case DeletionsSwept():
            return msgspec.structs.replace(instant, unswept_since=None, grace_began_at=None)
        case _:
            # The files of a clean were published, so they are not written again.
            return instant
