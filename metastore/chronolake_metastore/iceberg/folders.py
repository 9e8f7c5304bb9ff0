"""The folder of a table's metadata, as the catalog uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class MetadataFolder(Protocol):
    """The folder of a table's Iceberg metadata. Methods raise ``ConfigurationError``."""

    path: str
    """The folder below the base path."""

    async def names(self) -> list[str]:
        """The names of all files in the folder."""

    async def read(self, name: str) -> bytes | None:
        """A file, if it exists."""

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files of the folder."""

    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Create files, unless they exist, stage by stage; the base path must be claimed by the table."""
