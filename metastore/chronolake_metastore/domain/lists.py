"""Lists of an event that can be long: their entries are rows beside the event (docs/decisions/0015).

The payload has the number of entries of a list, the digest over them, so that the event's hash covers them, and
the first entries, for human readers. No decision uses the first entries.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from chronolake_model.files import FileGroupName
from chronolake_model.times import Micros

FIRST_MAX: Final = 100
"""Entries that the payload repeats."""
FIRST_BYTES_MAX: Final = 8 * 1024
"""Bytes of those entries, in UTF-8."""

ItemT = TypeVar("ItemT")


class ListName(enum.StrEnum):
    """The lists of events that are kept in rows."""

    PLAN_FILE_GROUPS = "plan-file-groups"
    PLAN_FILES = "plan-files"
    PLAN_INSTANTS = "plan-instants"
    REPLACED_FILE_GROUPS = "replaced-file-groups"


class ListEntry(msgspec.Struct, frozen=True):
    """One row: a file group by path and id, a file by its path, an instant by its time in microseconds."""

    partition_path: str | None
    name: str

    @property
    def size_bytes(self) -> int:
        """The bytes of the entry in UTF-8."""
        return len(self.name.encode()) + len((self.partition_path or "").encode())


class Sealed(msgspec.Struct, Generic[ItemT], frozen=True, omit_defaults=True):
    """A list in a payload: the number of its entries, the digest over them, and the first entries."""

    count: int = 0
    digest: str = ""
    first: list[ItemT] = []


EMPTY: Final[Sealed[Any]] = Sealed()
"""The list without entries, the default of each field. A payload leaves it out, because it is this object."""
ListEntries = Mapping[ListName, Sequence[ListEntry]]
"""The entries of the lists that an event has."""
NO_LIST_ENTRIES: Final[ListEntries] = {}


def seal(items: Sequence[ItemT]) -> Sealed[ItemT]:
    """The list with these items, as the payload has it."""
    if not items:
        return EMPTY
    entries = entries_of(items)
    return Sealed(len(items), digest(entries), list(items[: _first(entries)]))


def entries_of(items: Iterable[object]) -> list[ListEntry]:
    """The rows of a list: of file groups, of paths or of instants."""
    return [_entry(item) for item in items]


def entries_by_list(**items: Sequence[object]) -> ListEntries:
    """The entries of each list that has any; a keyword is the ``ListName`` in lower case."""
    return {ListName[name.upper()]: entries_of(some) for name, some in items.items() if some}


def file_groups(entries: Iterable[ListEntry]) -> list[FileGroupName]:
    """The file groups that entries are."""
    return [FileGroupName(entry.partition_path or "", entry.name) for entry in entries]


def instants(entries: Iterable[ListEntry]) -> list[Micros]:
    """The requested times that entries are."""
    return [Micros(int(entry.name)) for entry in entries]


def _entry(item: object) -> ListEntry:
    match item:
        case FileGroupName():
            return ListEntry(item.partition_path, item.file_id)
        case str():
            return ListEntry(None, item)
        case int():
            return ListEntry(None, str(item))
        case _:
            raise AssertionError(f"{type(item).__name__} is no item of a list")


def _first(entries: Sequence[ListEntry]) -> int:
    """How many of the entries the payload repeats."""
    size_bytes = 0
    for index, entry in enumerate(entries[:FIRST_MAX]):
        size_bytes += entry.size_bytes
        if size_bytes > FIRST_BYTES_MAX:
            return index
    return min(len(entries), FIRST_MAX)


def digest(rows: Sequence[msgspec.Struct]) -> str:
    """SHA-256, in hex, over the rows in their order. The event's hash covers it."""
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


class Digest:
    """``digest`` of rows that are added one by one."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self.files = 0
        """The number of added rows."""

    def add(self, stat: msgspec.Struct) -> None:
        """Add the next row."""
        self._hash.update(b"," + msgspec.json.encode(stat) if self.files else msgspec.json.encode(stat))
        self.files += 1

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()


class PlannedWork(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work that an instant plans. The entries of its lists are rows beside the event.

    ``instants`` are the instants that a restore rolls back, in that order. ``files_to_delete`` are the files
    that the executor of a rollback or a clean has to delete, relative to the table's base path. A rollback with
    ``by_markers`` deletes the files of the markers of its target instead. With ``direct_markers``, the markers
    of the instant, or of the target, are in storage. A clean that the server planned has ``cleaned_before``:
    from its request on, this is the first completion time that the table is served as of, unless another clean
    has a later one. ``earliest_commit_to_retain`` is of a clean, and its requested time is never before that of
    an earlier clean. A clean that has nothing to delete has only this. A clustering with ``buckets`` resizes
    the table to this number of buckets.
    """

    file_groups: Sealed[FileGroupName] = EMPTY
    details: dict[str, str] = {}
    instants: Sealed[Micros] = EMPTY
    files_to_delete: Sealed[str] = EMPTY
    by_markers: bool = False
    direct_markers: bool = False
    cleaned_before: Micros | None = None
    buckets: int | None = None
    earliest_commit_to_retain: Micros | None = None
