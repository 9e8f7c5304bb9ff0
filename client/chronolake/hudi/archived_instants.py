"""The instants of Hudi's archived timeline that come in: with what they wrote, or with their times. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from chronolake.hudi.definitions import TEXT_MAX
from chronolake.hudi.stored import StoredInstant, StoredTable
from chronolake_hudi import metadata
from chronolake_model.adoption import ADOPTED_METADATA_BYTES_MAX
from chronolake_model.vocabulary import Action

DETAILED_MAX: Final = 50_000
"""Archived instants, the newest, that come in with what they wrote; others with their times and actions."""
WITHOUT_EFFECT: Final = frozenset({Action.ROLLBACK, Action.RESTORE, Action.INDEXING})
"""Completed, they have no effect on the instants and files that are left."""
_METADATA_MAX: Final = ADOPTED_METADATA_BYTES_MAX // 2


def bounded(table: StoredTable) -> StoredTable:
    """The table with what archived instants wrote for the newest of them only, as far as a request has room."""
    archived = dict(table.archived)
    number = metadata_bytes = 0
    for time, instant in sorted(archived.items(), reverse=True):
        number += instant.commit is not None or instant.clean is not None
        stated = {} if instant.commit is None else extra_metadata(instant.commit.extra_metadata)
        metadata_bytes += len(msgspec.json.encode(stated))
        if number > DETAILED_MAX or metadata_bytes > _METADATA_MAX:
            archived[time] = msgspec.structs.replace(instant, commit=None, clean=None, plan=None)
    return msgspec.structs.replace(table, archived=archived)


def detailed(table: StoredTable) -> list[StoredInstant]:
    """The archived instants that come in with what they wrote, in order."""
    # If Hudi was killed while it archived, instants are on both timelines.
    listed = {instant.requested_time for instant in table.instants}
    return [
        instant
        for instant in table.archived.values()
        if instant.requested_time not in listed and (instant.commit is not None or instant.clean is not None)
    ]


def times_only(table: StoredTable, taken: Collection[str]) -> list[StoredInstant]:
    """The other archived writes and cleans, of which only times and actions come in, in order.

    ``taken`` are the requested times of the instants that come in otherwise.
    """
    others = [instant for time, instant in table.archived.items() if time not in taken]
    return [instant for instant in others if instant.is_completed_write or instant.action is Action.CLEAN]


def extra_metadata(stated: Mapping[str, str]) -> dict[str, str]:
    """The metadata without the schema, which is the table's, and without what is too long to keep."""
    return {
        key: text
        for key, text in stated.items()
        if key and key != metadata.SCHEMA_KEY and len(key) <= TEXT_MAX and len(text) <= TEXT_MAX
    }
