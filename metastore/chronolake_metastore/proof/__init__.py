"""Proving the log: chains and projections verified, projections rebuilt, heads kept elsewhere."""

from __future__ import annotations
