"""The named SQL files: anything with a join, a lock or a plan worth reading."""

from __future__ import annotations

from importlib import resources
from typing import Final

_INSTANT: Final = """
    i.table_id, micros(i.requested_time), i.action, i.operation, i.state, i.writer, i.lease_seconds,
    micros(i.lease_expires_at), i.version, micros(i.completion_time), i.rollback_reason, i.summary::text,
    i.extra_metadata::text, micros(i.target), micros(i.rolled_back_by), micros(i.undone_completion_time),
    i.plan::text, i.schema_version, micros(i.unswept_since)
"""
"""An instant's columns, in the order in which ``store.instants`` reads them."""

_PENDING: Final = """
    i.requested_time <= moment(:as_of)
    AND (
        i.state IN ('requested', 'inflight')
        OR moment(:as_of) < coalesce(
            i.completion_time,
            i.undone_completion_time,
            (SELECT e.time FROM event e WHERE e.table_id = i.table_id AND e.version = i.version)
        )
    )
"""
"""Whether the instant ``i`` was pending as of a time; when it was rolled back, its last event says."""

_FILE: Final = """
    f.partition_path, f.file_id, f.file_name, f.kind, f.size_bytes, f.records, micros(f.requested_time),
    micros(f.completion_time), f.schema_version
"""
"""A data file's columns, in the order in which ``store.files.PublishedFile`` has them."""


_MEANINGS: Final = {"{instant}": _INSTANT.strip(), "{file}": _FILE.strip(), "{pending}": _PENDING.strip()}


def load(name: str) -> str:
    """The text of ``sql/<name>.sql``.

    ``{instant}`` in it stands for the columns of the instant ``i``, ``{file}`` for those of the file ``f``,
    ``{pending}`` for whether the instant was pending.
    """
    found = resources.files("chronolake_metastore.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
    for place, meaning in _MEANINGS.items():
        found = found.replace(place, meaning)
    return found
