"""The named SQL files: anything with a join, a lock or a plan worth reading."""

from __future__ import annotations

from importlib import resources
from typing import Final

_INSTANT: Final = """
    i.table_id, micros(i.requested_time), i.action, i.operation, i.state, i.writer, i.lease_seconds,
    micros(i.lease_expires_at), i.version, micros(i.completion_time), i.rollback_reason, i.summary::text,
    i.extra_metadata::text, micros(i.target), micros(i.rolled_back_by), micros(i.undone_completion_time),
    i.plan::text, i.schema_version
"""
"""An instant's columns, in the order in which ``store.instants`` reads them."""


def load(name: str) -> str:
    """The text of ``sql/<name>.sql``; ``{instant}`` in it stands for the columns of the instant ``i``."""
    found = resources.files("chronolake_metastore.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return found.replace("{instant}", _INSTANT.strip())
