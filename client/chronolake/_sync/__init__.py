# Generated from chronolake/_async/__init__.py by tools/async_to_sync.py: do not edit.
"""The asyncio client, and the source from which the blocking client ``chronolake._sync`` is generated."""

from __future__ import annotations
