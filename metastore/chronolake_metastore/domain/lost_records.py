"""Records that a table service would lose: its executor has written too little, or to the wrong place.

A compaction or clustering publishes the records of other files again, so a valid request of a wrong executor
could make them vanish. The counts of write stats show it, before anything is published.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.tables import Table
from chronolake_model.vocabulary import Action

CHECKED: Final = frozenset({Action.COMPACTION, Action.CLUSTERING})
"""Services whose files take the place of others. The file of a log compaction is one more in its slice."""


class Loss(enum.Enum):
    """How records would be lost."""

    MISSING = "missing"
    """Fewer records are reported than the files hold that they take the place of."""
    STRANGE = "strange"
    """A clustering writes to a partition of which it replaces nothing."""
    OCCUPIED = "occupied"
    """A clustering writes over the records of a file group that it does not replace."""


class LostRecords(msgspec.Struct, frozen=True):
    """The first loss of a kind: of a file group, or of a partition if ``file_id`` is empty."""

    loss: Loss
    partition_path: str
    file_id: str
    least: int
    reported: int


def refuse(table: Table, instant: Instant, lost: Sequence[LostRecords]) -> None:
    """Raise ``InvalidWriteStat`` if records would be lost."""
    for found in lost:
        where = f"the partition {found.partition_path!r} of {table.name!r}"
        if found.file_id:
            where = f"the file group {found.file_id!r} in {where}"
        raise errors.InvalidWriteStat(
            f"{where}: {_why(instant.begun_as, found)}; nothing is published: return the plan, and execute it "
            "again",
            partition_path=found.partition_path,
            file_id=found.file_id or None,
            least=found.least,
            reported=found.reported,
        )


def _why(action: Action, found: LostRecords) -> str:
    match found.loss:
        case Loss.MISSING:
            return (
                f"the {action} reports {found.reported} records, and the files that it replaces have at least "
                f"{found.least} that their log files do not change; if merging removed more, because several "
                "records had one key, report these as deletes of the new file"
            )
        case Loss.STRANGE:
            return f"the {action} replaces no file group of it, so none of its records belongs there"
        case Loss.OCCUPIED:
            return f"it holds records, and the {action} does not replace it; write to a new file group"
