"""Bodies of the REST API for asking which files may be deleted."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.file_names import relative_path
from chronolake_model.markers import DELETIONS_MAX, DeletedFile


class Refusal(enum.StrEnum):
    """Why a file may not be deleted. A reason, once released, keeps its meaning."""

    LIVE = "live"
    """It is in a latest file slice."""
    SERVED = "served"
    """It left the latest slices, and the table is still served as of a time when it was in one."""
    HELD = "held"
    """A savepoint, the lease of a reader or the publication for Hudi's readers needs it. Ask again later."""
    PLANNED = "planned"
    """It is in a file group for which a table service is planned."""
    PUBLISHED = "published"
    """It was published: only a clean whose plan names it may delete it."""
    STAGED = "staged"
    """Its instant is pending, and has staged it."""
    PENDING = "pending"
    """Its instant is pending, and not the caller's; or the caller does not hold the lease of the plan."""
    OTHER_INSTANT = "other-instant"
    """It is not a file of the instant in whose name it is to be deleted."""
    UNKNOWN_INSTANT = "unknown-instant"
    """The table's timeline has no instant of the time in its name."""
    DROPPED_TABLE = "dropped-table"
    """A dropped table whose base path overlaps published it, or had the instant in its name."""
    NOT_A_DATA_FILE = "not-a-data-file"
    """It has no data file's name."""


class FindDeletable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask which files may be deleted for an instant; ``writer`` is the client that would delete them.

    Without a ``writer``, no file of a pending instant may be deleted.
    """

    files: Annotated[list[DeletedFile], Meta(min_length=1, max_length=DELETIONS_MAX)]
    writer: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class FindDeletableOrphans(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask which orphans may be deleted, each by the instant in its name.

    With ``unknown_instants``, this includes files whose instant the table's timeline does not have, if its time
    is in the past.
    """

    files: Annotated[list[DeletedFile], Meta(min_length=1, max_length=DELETIONS_MAX)]
    unknown_instants: bool = False


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
