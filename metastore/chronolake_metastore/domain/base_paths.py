"""Base paths: those of two tables never overlap (docs/architecture.md#markers-and-deletion)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.rights import Rights
from chronolake_model import base_paths as keys
from chronolake_model.roles import Right, scope_of
from chronolake_model.times import Micros

NEIGHBOURS_MAX: Final = 1_000
"""Dropped tables whose base paths one new table takes over."""


class BasePath(msgspec.Struct, frozen=True):
    """The folder of a table. Without a ``key`` it cannot be compared, and nothing is deleted there.

    ``is_checked`` says whether the table was created when overlapping base paths were refused.
    """

    table_id: UUID
    key: str | None
    is_checked: bool


class Neighbour(msgspec.Struct, frozen=True):
    """A table whose base path overlaps with another one; a dropped one was not taken over so far.

    The base path of a table that never published a file, such as after a failed load, is taken over without
    asking.
    """

    table_id: UUID
    name: str
    base_path: str
    is_dropped: bool
    has_published: bool = True


class PublishedTime(msgspec.Struct, frozen=True):
    """The requested time of an instant of a dropped table that has published or staged files."""

    requested_time: Micros
    table: str


def of_new_table(table_id: UUID, event: TableCreated) -> BasePath:
    """The folder of the table that ``event`` created."""
    key = event.base_path_key
    if key is not None:
        return BasePath(table_id, key, is_checked=True)
    return BasePath(table_id, keys.canonical_if_comparable(event.definition.base_path), is_checked=False)


def refuse_taken(definition: NewDefinition, neighbours: Sequence[Neighbour], rights: Rights) -> None:
    """Raise ``BasePathTaken`` unless all ``neighbours`` are dropped, and the caller takes them over.

    It takes over only what it could have created itself.
    """
    live = next((neighbour for neighbour in neighbours if not neighbour.is_dropped), None)
    foreign = next(
        (neighbour for neighbour in neighbours if not rights.may(Right.DEFINE, scope_of(neighbour.name))), None
    )
    taken = live or foreign or next((neighbour for neighbour in neighbours if neighbour.has_published), None)
    if taken is None:
        return
    context = {
        "base_path": definition.base_path,
        "table": taken.name,
        "table_id": str(taken.table_id),
        "table_base_path": taken.base_path,
        "dropped": taken.is_dropped,
    }
    overlaps = f"the base path {definition.base_path!r} overlaps with {taken.base_path!r} of the"
    if live is not None:
        raise errors.BasePathTaken(f"{overlaps} table {live.name!r}; choose another base path", **context)
    if foreign is not None:
        raise errors.BasePathTaken(
            f"{overlaps} dropped table {foreign.name!r}, whose files only an admin of its name may take over; "
            "choose another base path",
            **context,
        )
    if not definition.reuse_base_path:
        raise errors.BasePathTaken(
            f"{overlaps} dropped table {taken.name!r}, whose files may still be there; choose another "
            "base path, or create the table with reuse_base_path: nothing of the dropped one is deleted then",
            **context,
        )
    if len(neighbours) > NEIGHBOURS_MAX:
        raise errors.BasePathTaken(
            f"the base path {definition.base_path!r} overlaps with those of more than {NEIGHBOURS_MAX} dropped "
            "tables; choose a folder of its own for the table",
            **context,
        )
