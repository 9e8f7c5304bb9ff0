"""The folder of a table's metadata, as the catalog uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from chronolake_metastore import errors

METADATA_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest metadata of a table that is read: 10,000 snapshots have about 10 MB."""
LIST_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest manifest list that is read: that of very many manifests has some megabytes."""


class MetadataFolder(Protocol):
    """The folder of a table's Iceberg metadata. Methods raise ``ConfigurationError``."""

    path: str
    """The folder below the base path."""

    async def check_location(self) -> None:
        """Raise ``ConfigurationError`` if the location of the table was revoked since the folder was opened."""

    async def sizes(self) -> dict[str, int]:
        """The names of the catalog's files in the folder, with their sizes, without other files."""

    async def read(self, name: str, bytes_max: int) -> bytes | None:
        """A file, if it exists; one that is larger than ``bytes_max`` is damaged, and reads as empty."""

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files of the folder."""

    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Create files, unless they exist, stage by stage; the base path must be claimed by the table."""


class BasePathAbsent(errors.ConfigurationError):
    """The base path of a table does not exist. Its first writer makes it; ``path`` is that of the folder."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class AbsentFolder:
    """The folder of a table that nobody has written. It stays empty: the server makes no base path."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def check_location(self) -> None:
        """Nothing is in a location."""

    async def sizes(self) -> dict[str, int]:
        """No files."""
        return {}

    async def read(self, _name: str, _bytes_max: int) -> bytes | None:
        """No file."""
        return None

    async def remove(self, names: Sequence[str]) -> None:
        """Nothing is there to remove."""

    async def create(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Nothing is stored: the answer to the client has the metadata."""
