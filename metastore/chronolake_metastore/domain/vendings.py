"""Vendings: credentials for a table's storage that a caller got. The log has them, without the keys. No I/O."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.domain.commands import Command
from chronolake_model.credentials import StorageAccess
from chronolake_model.times import Micros

RECORDED_PER_HOUR: Final = 1_000
"""The number of vendings to one subject that a server records in an hour. A job may read many tables."""
SAME_SECONDS: Final = 900.0
"""Vendings to one subject for the same access to a table are recorded once in this time."""


class RecordVending(Command, frozen=True):
    """Record that a subject got credentials for a table."""

    table: str
    subject: str
    access: StorageAccess
    expires_at: Micros
