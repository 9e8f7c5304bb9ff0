"""Digests over rows beside an event, which the event's hash covers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec


def digest(rows: Sequence[msgspec.Struct]) -> str:
    """SHA-256, in hex, over the rows in their order. The event's hash covers it."""
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


class Digest:
    """``digest`` of rows that are added one by one."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self.files = 0
        """The number of added rows."""

    def add(self, stat: msgspec.Struct) -> None:
        """Add the next row."""
        self._hash.update(b"," + msgspec.json.encode(stat) if self.files else msgspec.json.encode(stat))
        self.files += 1

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()
