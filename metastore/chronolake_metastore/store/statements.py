"""The named SQL files: anything with a join, a lock or a plan worth reading."""

from __future__ import annotations

from importlib import resources


def load(name: str) -> str:
    """The text of ``sql/<name>.sql``."""
    return resources.files("chronolake_metastore.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
