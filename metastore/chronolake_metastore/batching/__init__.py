"""Waiting requests go to the database together: a queue, and lanes that each run one batch at a time."""

from __future__ import annotations
