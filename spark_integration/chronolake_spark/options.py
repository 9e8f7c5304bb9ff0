"""What the driver tells the data source's writer, in one option of the write."""

from __future__ import annotations

import msgspec

from chronolake_spark.merge import Existing

WRITE_OPTION = "write"


class BaseFile(msgspec.Struct, frozen=True, array_like=True):
    """A file group's current base file; ``path`` is relative to the table's base path.

    ``schema_version`` is that of the schema which it was written with.
    """

    partition_path: str
    file_id: str
    path: str
    size_bytes: int
    schema_version: int


class WriteOptions(msgspec.Struct, frozen=True):
    """One write: its instant, the table, and the base files that the snapshot named after it had begun.

    ``names`` says for each version of the schema what the files of it call each column that they have.
    """

    url: str
    table: str
    requested_time: str
    base_path: str
    required: list[str]
    ordering_field: str | None
    existing: Existing
    field_ids: dict[str, int]
    base_files: list[BaseFile]
    names: dict[int, dict[str, str]]
    schema_version: int
    extra_metadata: dict[str, str]

    def to_json(self) -> str:
        """The text of the option."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> WriteOptions:
        """What ``to_json`` was given."""
        return msgspec.json.decode(text, type=cls)
