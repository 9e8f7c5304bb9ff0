"""The REST API: translates between HTTP and commands or queries, and decides nothing."""

from __future__ import annotations
