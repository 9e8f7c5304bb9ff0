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


def mode_of(ordering_field: str | None, properties: Mapping[str, str]) -> MergeMode:
    """The merge mode of a table with this ordering field and these properties."""
    default = MergeMode.COMMIT_TIME if ordering_field is None else MergeMode.EVENT_TIME
    return MergeMode(properties.get(MERGE_MODE_PROPERTY, default))


def merge_field(ordering_field: str | None, properties: Mapping[str, str]) -> str | None:
    """The field whose larger value wins against stored records; None if the later write wins."""
    return None if mode_of(ordering_field, properties) is MergeMode.COMMIT_TIME else ordering_field
