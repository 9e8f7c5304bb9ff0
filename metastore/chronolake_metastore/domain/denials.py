"""Denials: requests of known callers that lack a right. A few of each subject are recorded. No I/O."""

from __future__ import annotations

from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command

RECORDED_PER_HOUR: Final = 100
"""The number of denials of one subject that a server records in an hour."""
SAME_SECONDS: Final = 60.0
"""Reads and notes that lack the same right on the same names are recorded once in this time."""


class RecordDenial(Command, frozen=True):
    """Record that a read or a note was denied. The command is always refused.

    ``denied`` is the name of the read or note. ``on`` is the pattern on which its caller lacks the ``right``;
    none for what concerns the metastore itself.
    """

    denied: str
    right: str
    on: str | None
    detail: str


def denial_of(exc: errors.TimelineError) -> errors.Forbidden | None:
    """The right that the caller lacks, if that is why its request was refused."""
    return exc if isinstance(exc, errors.Forbidden) else exc.denial
