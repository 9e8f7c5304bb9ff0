"""Promised files: what streams have reported without blocking, for checkpoints that are not complete yet.

No engine writes an acknowledged checkpoint again. So an instant that would make a promised file conflict is
refused until the instant of the stream has ended (docs/decisions/0058-streams.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts
from chronolake_metastore.domain.conflicts import ConcurrentInstant, LostConflict
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.tables import Table


class PromisedGroup(msgspec.Struct, frozen=True):
    """A file group with promised files: of these the latest instant, with its stream and checkpoint."""

    group: FileGroup
    stream: str
    checkpoint: int
    instant: ConcurrentInstant


PromisedGroups = Sequence[PromisedGroup]
"""The file groups of one table that have promised files, those of the latest instant first."""


def find(promised: PromisedGroups) -> LostConflict | None:
    """The conflict of an instant that replaces these file groups, or None."""
    if not promised:
        return None
    return LostConflict(promised[0].instant, [entry.group for entry in promised])


def refuse(table: Table, promised: PromisedGroups) -> None:
    """Raise ``WriteConflict`` for an instant that replaces these file groups.

    It cannot have read the files, so when they are complete it has to begin again.
    """
    lost = find(promised)
    if lost is None:
        return
    conflict, latest = conflicts.told(table, lost), promised[0]
    raise errors.WriteConflict(
        f"the stream {latest.stream!r} has reported files for {len(promised)} of the file group(s) of "
        f"{table.name!r} that this instant replaces: {conflicts.names_of(lost.file_groups)}; roll back, wait "
        f"until the instant {conflict.winner} of its checkpoint {latest.checkpoint} has completed, and begin "
        "again. If no job continues the stream, open it without restored_checkpoint, which discards the files",
        **msgspec.to_builtins(conflict),
        stream=latest.stream,
        checkpoint=latest.checkpoint,
    )
