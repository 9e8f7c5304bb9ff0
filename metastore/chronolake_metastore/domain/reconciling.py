"""Reconciling: each marker has a published or deleted file (docs/architecture.md#markers-and-deletion)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.cleans import HOW_TO_DELETE
from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import format_time
from chronolake_model.vocabulary import Action

NAMED_MAX: Final = 100
"""Files that a refusal names."""
_OF_STREAM: Final = (
    "if all tasks have passed the barrier of the acknowledged checkpoint, failed attempts left these "
    "files: ask POST .../deletable which of them may be deleted, delete these from storage, report them "
    "with POST .../deletions, and acknowledge again with a new idempotency key. If a task has not "
    "passed it, the file may be one that it still writes: delete nothing, and restore the job from an "
    "earlier checkpoint"
)
"""The advice where tasks report their files one by one: a marked file may be that of a slow task."""


class MarkerCounts(msgspec.Struct, frozen=True):
    """The number of markers of an instant, and of its reported deletions.

    A pending instant gains markers, and loses one only by a deletion. So equal numbers mean equal markers.
    """

    markers: int = 0
    deletions: int = 0


class Reconciliation(msgspec.Struct, frozen=True):
    """An instant's markers compared with its write stats, when it had ``counts`` markers and deletions.

    ``unreconciled`` is the number of marked files without a write stat, ``named`` are the first of them.
    ``unmarked`` is a file that has a write stat and no marker, if there is one.
    """

    counts: MarkerCounts = MarkerCounts()
    unreconciled: int = 0
    named: Sequence[DeletedFile] = ()
    unmarked: DeletedFile | None = None


def needs_markers(table: Table, instant: Instant, *, was_marked: bool) -> bool:
    """Whether completing the instant needs its markers: it ever had some, or its table requires them.

    A rollback needs those of its target, if its plan is ``by_markers``.
    """
    if instant.action is Action.ROLLBACK:
        return instant.plan is not None and instant.plan.by_markers
    return was_marked or table.requires_markers(instant.requested_time)


def refuse(table: Table, instant: Instant, stats: Sequence[WriteStat], reconciliation: Reconciliation) -> None:
    """Raise ``InvalidWriteStat`` for a file without a marker, ``UnreconciledMarkers`` for other marked files.

    The kind of a marker is not compared, because the file's name implies it.
    """
    if reconciliation.unmarked is not None:
        raise unmarked(reconciliation.unmarked, stats)
    if reconciliation.unreconciled:
        time = format_time(marked_by(instant), table.definition.tick)
        raise errors.UnreconciledMarkers(
            f"the instant {time} of {table.name!r} has marked {reconciliation.unreconciled} file(s) that are "
            f"neither published nor reported as deleted, the first is {reconciliation.named[0].path!r}; "
            f"{HOW_TO_DELETE if instant.stream is None else _OF_STREAM}",
            unreconciled=reconciliation.unreconciled,
            files=[msgspec.to_builtins(file) for file in reconciliation.named],
        )


def unmarked(file: DeletedFile, stats: Sequence[WriteStat]) -> errors.InvalidWriteStat:
    """The refusal of a file that has no marker, although its instant has to have one."""
    named = (file.partition_path, file.file_name)
    index = next((at for at, stat in enumerate(stats) if (stat.partition_path, stat.file_name) == named), None)
    where = "staged" if index is None else f"write_stats[{index}]"
    return errors.InvalidWriteStat(
        f"{where}: the file {file.path!r} has no marker, or was reported as deleted; mark a file before you "
        "write it",
        **msgspec.to_builtins(file),
    )
