"""Bodies of the REST API for asking which files may be deleted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.file_names import relative_path
from chronolake_model.markers import DELETIONS_MAX, DeletedFile
from chronolake_model.names import decoder_pattern
from chronolake_model.vocabulary import (
    Refusal,
)

__all__ = ["Refusal"]
"""Words of the vocabulary that these bodies have."""


class LogHead(msgspec.Struct, frozen=True):
    """The last event of a table's log: its version, and its hash in hexadecimal digits."""

    version: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    hash: Annotated[str, Meta(pattern=decoder_pattern("^[0-9a-f]{1,64}$"))]


class FindDeletable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask which files may be deleted for an instant; ``writer`` is the client that would delete them.

    Without a ``writer``, no file of a pending instant may be deleted. ``recorded`` is the event that the claim
    in the table's storage records: a database that lacks it is an earlier state, and no file may be deleted.
    """

    files: Annotated[list[DeletedFile], Meta(min_length=1, max_length=DELETIONS_MAX)]
    writer: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    recorded: LogHead | None = None


class FindDeletableOrphans(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask which orphans may be deleted, each by the instant in its name.

    With ``unknown_instants``, this includes files whose instant the table's timeline does not have, if its time
    is in the past. ``recorded`` is as for ``FindDeletable``.
    """

    files: Annotated[list[DeletedFile], Meta(min_length=1, max_length=DELETIONS_MAX)]
    unknown_instants: bool = False
    recorded: LogHead | None = None


class RefusedDeletion(msgspec.Struct, frozen=True):
    """A file that may not be deleted, and why."""

    partition_path: str
    file_name: str
    reason: Refusal

    @property
    def path(self) -> str:
        """The data file, relative to the table's base path."""
        return relative_path(self.partition_path, self.file_name)

    @property
    def why(self) -> str:
        """The reason in words."""
        text = f"it may not be deleted: {self.reason}"
        if self.reason is not Refusal.HELD:
            return text
        return (
            f"{text}, because a savepoint, a reader's lease or the publication for Hudi's readers needs it "
            "now. Clean again later: it stays on the list"
        )


class Deletable(msgspec.Struct, frozen=True):
    """The files that may not be deleted. All others may, at the moment of the question.

    ``table_id`` and ``metastore_id`` are what the claim in the table's storage must say.
    """

    table: str
    table_id: str
    metastore_id: str
    refused: list[RefusedDeletion]
