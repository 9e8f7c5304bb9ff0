"""The Chronolake metastore: the timeline of every table as an append-only event log, served by REST."""

from __future__ import annotations
