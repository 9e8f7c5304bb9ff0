"""The projections as a whole."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.store.transaction import Statement

PROJECTIONS: Final = ("clock", "namespace", "lake_table", "instant", "file")
"""The tables that follow from the log."""


def clear() -> list[Statement]:
    """Empty every projection, and keep commands waiting until the transaction ends."""
    return [
        # Commands take row locks on the clocks; this makes them wait, and leaves readers alone.
        ("LOCK TABLE clock IN EXCLUSIVE MODE", {}),
        *((f"DELETE FROM {projection}", {}) for projection in PROJECTIONS),  # noqa: S608 - names of ours
    ]
