"""Offsets of ``readStream``: up to which completion time a query has read a table.

Spark writes an offset to its checkpoint before it plans the batch that ends there, so a batch that is planned
again after a crash has the same ends. Only the start of the first batch is not written: Spark asks for the
initial offset again, and ``latest`` would then be later than the end of the batch. So each offset also has the
time from which the query began.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chronolake_model.times import parse_time
from chronolake_spark import errors

BEGINNING: Final = ""
"""In place of a completion time: before everything. The next batch has all records as of its end."""
_FIELDS: Final = ("table_id", "completed", "began", "lease_id")


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """All instants that completed up to ``completed``, read by a query that began after ``began``.

    ``lease_id`` is the reader's lease that holds the files which the query has still to read.
    """

    table_id: str
    completed: str
    began: str
    lease_id: str

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> StreamOffset:
        """The offset as Spark's checkpoint has it. Raises ``InvalidOption``."""
        try:
            offset = cls(**{name: str(fields[name]) for name in _FIELDS})
            _micros(offset.completed), _micros(offset.began)
        except (KeyError, TypeError, ValueError):
            raise errors.InvalidOption(
                f"{fields!r} is no offset of a stream of the format chronolake: give the query a checkpoint "
                "folder of its own"
            ) from None
        return offset

    def to_dict(self) -> dict[str, str]:
        """The offset for Spark's checkpoint."""
        return dataclasses.asdict(self)

    def at(self, completed: str) -> StreamOffset:
        """The offset at this time, or at its own if that is later: an offset never goes back."""
        later = completed if is_before(self.completed, completed) else self.completed
        return dataclasses.replace(self, completed=later)

    def with_lease(self, lease_id: str) -> StreamOffset:
        """The offset under another lease."""
        return dataclasses.replace(self, lease_id=lease_id)


def is_before(first: str, second: str) -> bool:
    """Whether a completion time is earlier than another; they may have 17 or 20 digits, or be ``BEGINNING``."""
    return _micros(first) < _micros(second)


def start_of_batch(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """Where the batch of these ends begins.

    For the first batch of a query, ``start`` may come from a later run than ``end``. Raises ``InvalidOption``
    for ends of two tables, and for an end before the start: such a batch would have to take records back.
    """
    if start.table_id != end.table_id:
        raise errors.InvalidOption(
            f"the batch goes from table {start.table_id} to table {end.table_id}: the table was dropped and "
            "made again. Start a new query with another checkpoint folder",
            {"tables": [start.table_id, end.table_id]},
        )
    if start.completed == start.began:
        start = dataclasses.replace(end, completed=end.began)
    if is_before(end.completed, start.completed):
        raise errors.InvalidOption(
            f"the batch would end at {end.completed}, before its start {start.completed}: the checkpoint "
            "folder was changed, or is that of another query. Give each query a checkpoint folder of its own",
            {"start": start.completed, "end": end.completed},
        )
    return start


def _micros(completed: str) -> int:
    return -1 if completed == BEGINNING else parse_time(completed)
