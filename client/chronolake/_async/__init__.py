"""The asyncio client, and the source from which the blocking client ``chronolake._sync`` is generated."""

from __future__ import annotations
