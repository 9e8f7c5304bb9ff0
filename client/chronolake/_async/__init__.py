"""The client for an event loop, and the source from which ``chronolake._sync`` is generated."""

from __future__ import annotations
