"""The tables and namespaces that a subject may read, as ranges of names. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from chronolake_metastore.domain.events import BasePathTakenOver
from chronolake_metastore.domain.rights import Rights
from chronolake_model.names import split_table_name

_AFTER_ALL: Final = "\x7f"
"""It is after all characters of names."""


class NameRange(NamedTuple):
    """Names of tables in the order (namespace, table), from the first to the last.

    With a ``table_id`` only this table, if it still has the name.
    """

    first: tuple[str, str]
    last: tuple[str, str]
    table_id: UUID | None = None


class Readable:
    """The tables that a subject may read: those with these beginnings of names, and single ones.

    No two of the prefixes begin alike, and no single table has one of them.
    """

    def __init__(self, prefixes: Iterable[str], tables: Mapping[UUID, str | None]) -> None:
        self._prefixes: list[str] = []
        for prefix in sorted(prefixes):
            # In this order a prefix directly follows what it begins with, or others that begin with that.
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)
        self._tables = tables

    def has(self, name: str | None, table_id: UUID) -> bool:
        """Whether a table is among them. The catalog, which has no name, never is."""
        return table_id in self._tables or (name is not None and self._has_prefix(name))

    def has_event(self, name: str | None, table_id: UUID, event_type: str) -> bool:
        """Whether an event of a table may be shown. One type names another table, which may be hidden."""
        return event_type != BasePathTakenOver.__name__ and self.has(name, table_id)

    def _has_prefix(self, name: str) -> bool:
        number = bisect_right(self._prefixes, name)
        return number > 0 and name.startswith(self._prefixes[number - 1])

    def ranges(self, namespace: str | None = None) -> list[NameRange]:
        """Disjoint ranges of the names, of one namespace or of all."""
        ranges = [*map(_range_of, self._prefixes), *self._single()]
        if namespace is None:
            return ranges
        whole = _range_of(f"{namespace}.")
        clipped = [
            NameRange(max(of.first, whole.first), min(of.last, whole.last), of.table_id) for of in ranges
        ]
        return [of for of in clipped if of.first <= of.last]

    def _single(self) -> list[NameRange]:
        return [
            NameRange(split_table_name(name), split_table_name(name), table_id)
            for table_id, name in self._tables.items()
            if name is not None and not self._has_prefix(name)
        ]

    def namespaces(self) -> list[tuple[str, str]]:
        """Disjoint ranges, first and last, of the names of namespaces in which the subject sees something."""
        disjoint: list[tuple[str, str]] = []
        for first, last in sorted((of.first[0], of.last[0]) for of in self.ranges()):
            if disjoint and first <= disjoint[-1][1]:
                disjoint[-1] = disjoint[-1][0], max(last, disjoint[-1][1])
            else:
                disjoint.append((first, last))
        return disjoint


def readable_by(rights: Rights) -> Readable | None:
    """The tables that a subject may read; None for one that may read everything, the catalog's log too."""
    if rights.sees_everything:
        return None
    # Each role can read.
    return Readable(
        (role.prefix for role in rights.held if role.prefix is not None),
        {role.table_id: role.table for role in rights.held if role.table_id is not None},
    )


def _range_of(prefix: str) -> NameRange:
    """The names of tables that begin with a text."""
    namespace, dot, table = prefix.partition(".")
    if not dot:
        return NameRange((prefix, ""), (prefix + _AFTER_ALL, ""))
    return NameRange((namespace, table), (namespace, table + _AFTER_ALL))
