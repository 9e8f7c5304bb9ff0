# Generated from chronolake/_async/__init__.py by tools/async_to_sync.py: do not edit.
"""The client for an event loop, and the source from which ``chronolake._sync`` is generated."""

from __future__ import annotations
