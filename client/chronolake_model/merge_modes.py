"""Which of two records of one key counts: a table states its mode at its creation.

Hudi calls it the record merge mode (``hoodie.record.merge.mode``). Partial updates are no mode of its readers:
the writer completes the records, so that readers merge whole ones.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

MERGE_MODE_PROPERTY: Final = "merge.mode"
"""The merge mode of a table; see ``MergeMode``."""


ORDERING_FIELDS_PROPERTY: Final = "merge.ordering-fields"
"""The ordering fields, with commas between, of an adopted table that has several of them."""


class MergeMode(enum.StrEnum):
    """Which of two records of one key counts."""

    EVENT_TIME = "event-time"
    """The one with the larger ordering value. The default with an ordering field."""
    COMMIT_TIME = "commit-time"
    """The one that is written later, also with an ordering field. The default without one."""
    PARTIAL_UPDATE = "partial-update"
    """As the default; and an upsert may lack columns, which keep their stored values."""


def ordering_fields(ordering_field: str | None, properties: Mapping[str, str]) -> tuple[str, ...]:
    """The ordering fields of a table. Of several, the first that differs decides."""
    if (several := properties.get(ORDERING_FIELDS_PROPERTY)) is not None:
        return tuple(several.split(","))
    return () if ordering_field is None else (ordering_field,)


def mode_of(ordering_field: str | None, properties: Mapping[str, str]) -> MergeMode:
    """The merge mode of a table with this ordering field and these properties."""
    has_order = ordering_fields(ordering_field, properties)
    default = MergeMode.EVENT_TIME if has_order else MergeMode.COMMIT_TIME
    return MergeMode(properties.get(MERGE_MODE_PROPERTY, default))


def merge_fields(ordering_field: str | None, properties: Mapping[str, str]) -> tuple[str, ...]:
    """The fields whose larger values win against stored records; none if the later write wins."""
    if mode_of(ordering_field, properties) is MergeMode.COMMIT_TIME:
        return ()
    return ordering_fields(ordering_field, properties)
