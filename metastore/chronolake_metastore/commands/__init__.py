"""Executing commands: lock, load, decide, append events, update projections (docs/architecture.md#commands)."""

from __future__ import annotations
