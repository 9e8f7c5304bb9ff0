"""Counts of the rows of a write: each row is counted once, in the commit's metadata.

A commit's summary counts what its files show: inserted, updated and deleted records. Rows that left no trace in
them are counted in its extra metadata, so that the sum is always the number of rows that were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from chronolake_model.files import WriteStat
from chronolake_model.instants import Instant, WriteSummary

READ: Final = "rows.read"
SUPERSEDED: Final = "rows.superseded"
UNCHANGED: Final = "rows.unchanged"


class RowCounts(msgspec.Struct, frozen=True):
    """Rows read = inserted + updated + deleted + superseded + unchanged.

    ``superseded`` rows had the record key of a later row of the same write. ``unchanged`` rows changed nothing:
    older than the stored record, a delete of a key that the table does not have, an insert that was to be
    dropped because its key exists.

    In a merge-on-read table with a bucket index, upserts to a file group that exists are appended without
    reading it: each counts as updated, also where the key is new or the stored record wins. Without an ordering
    field each delete counts as deleted.
    """

    read: int
    inserted: int
    updated: int
    deleted: int
    superseded: int
    unchanged: int

    @classmethod
    def of(cls, stats: Iterable[WriteStat], *, read: int, superseded: int, unchanged: int) -> RowCounts:
        """The counts of a write of these files."""
        stats = list(stats)
        counts = cls(
            read=read,
            inserted=sum(stat.inserts for stat in stats),
            updated=sum(stat.updates for stat in stats),
            deleted=sum(stat.deletes for stat in stats),
            superseded=superseded,
            unchanged=unchanged,
        )
        assert counts.read == counts.accounted, f"rows are unaccounted for: {counts}"
        return counts

    @property
    def accounted(self) -> int:
        """The sum of all counts except ``read``; it always equals ``read``."""
        return self.inserted + self.updated + self.deleted + self.superseded + self.unchanged

    def metadata(self) -> dict[str, str]:
        """The counts that the summary of a commit does not have, as its extra metadata."""
        return {READ: str(self.read), SUPERSEDED: str(self.superseded), UNCHANGED: str(self.unchanged)}


def row_counts(instant: Instant) -> RowCounts | None:
    """The counts of the rows of a commit that Spark or this client wrote; None for any other instant."""
    metadata = instant.extra_metadata
    if READ not in metadata:
        return None
    summary = instant.summary or WriteSummary()
    return RowCounts(
        read=int(metadata[READ]),
        inserted=summary.inserts,
        updated=summary.updates,
        deleted=summary.deletes,
        superseded=int(metadata[SUPERSEDED]),
        unchanged=int(metadata[UNCHANGED]),
    )


def check_metadata(extra_metadata: Mapping[str, str]) -> None:
    """Raise ``TypeError`` for a caller's metadata that is no text, ``ValueError`` for names of the counts."""
    for name, text in extra_metadata.items():
        if not isinstance(text, str):
            raise TypeError(
                f"extra_metadata has a text for each name, not {text!r} for {name!r}: use str({text!r})"
            )
    reserved = sorted(name for name in extra_metadata if name in {READ, SUPERSEDED, UNCHANGED})
    if reserved:
        raise ValueError(f"the extra metadata {', '.join(reserved)} is written by Chronolake; use other names")
