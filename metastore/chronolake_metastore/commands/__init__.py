"""Carrying commands out: load what they touch under locks, decide, append, project (design.md section 6)."""

from __future__ import annotations
