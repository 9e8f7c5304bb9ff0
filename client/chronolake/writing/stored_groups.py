"""The file groups that a task writes: their slices as of the time that the write reads, and their file ids.

Each task asks the server for the file groups of each batch of its rows, in one request. So a write costs the
same in a table of any size. With direct markers, where executors need not reach the server, the driver fetches
the slices of the whole table instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from chronolake.indexes.tables import BlockingTable
from chronolake.slices import stored_slices
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing import new_groups
from chronolake_model.file_names import bucket_file_id
from chronolake_model.slices import FILE_GROUPS_MAX, BucketName, FoundFileGroup
from chronolake_model.tables import SchemaField


class GroupNumber(NamedTuple):
    """A partition path, and the number of the file group in it: with a bucket index that of its bucket."""

    partition_path: str
    bucket: int


class StoredGroup(NamedTuple):
    """The slice of a file group that the write reads, if there is one, and the file id that it writes."""

    slice: StoredSlice | None
    file_id: str


class Lookup(Protocol):
    """A lookup of the file groups of a task."""

    def groups(self, groups: Sequence[GroupNumber]) -> Mapping[GroupNumber, StoredGroup]:
        """The slice and the file id of each of these file groups."""

    def fields(self, schema_version: int) -> Sequence[SchemaField]:
        """The columns of a version of the schema."""


class ServerLookup:
    """Looks file groups up at the server, as of a completion time.

    ``replaces`` if the write replaces the file groups that exist: then it opens the next ones.
    """

    def __init__(self, table: BlockingTable, as_of: str, *, replaces: bool) -> None:
        self._table = table
        self._as_of = as_of
        self._replaces = replaces

    def groups(self, groups: Sequence[GroupNumber]) -> dict[GroupNumber, StoredGroup]:
        """As ``Lookup.groups``."""
        known: dict[GroupNumber, StoredGroup] = {}
        for first in range(0, len(groups), FILE_GROUPS_MAX):
            portion = groups[first : first + FILE_GROUPS_MAX]
            buckets = [BucketName(*group) for group in portion]
            answers = self._table.file_groups(as_of=self._as_of, buckets=buckets).file_groups
            known.update(
                (group, self._stored(group, answer)) for group, answer in zip(portion, answers, strict=True)
            )
        return known

    def fields(self, schema_version: int) -> Sequence[SchemaField]:
        """As ``Lookup.fields``."""
        return self._table.schema(schema_version).fields

    def _stored(self, group: GroupNumber, answer: FoundFileGroup) -> StoredGroup:
        if answer.slice is not None and not self._replaces:
            return StoredGroup(stored_slices.of(answer.slice), answer.slice.file_id)
        gone = [answer.replaced, None if answer.slice is None else answer.slice.file_id]
        return StoredGroup(
            None, new_groups.next_file_id(group.bucket, [name for name in gone if name is not None])
        )


class StoredGroups:
    """The file groups of a task, by partition path and bucket.

    ``slices`` and ``new_file_ids`` are those that the driver has fetched: with a ``lookup`` there are none.
    ``fields`` has the columns of known versions of the schema.
    """

    def __init__(
        self,
        slices: Mapping[GroupNumber, StoredSlice],
        new_file_ids: Mapping[GroupNumber, str],
        fields: Mapping[int, Sequence[SchemaField]],
        lookup: Lookup | None,
    ) -> None:
        self._groups = {group: StoredGroup(None, file_id) for group, file_id in new_file_ids.items()}
        self._groups |= {group: StoredGroup(stored, stored.file_id) for group, stored in slices.items()}
        self._lookup = lookup
        self.fields = dict(fields)
        """The columns of each version of the schema that the files of the slices were written with."""

    def load(self, groups: Iterable[GroupNumber]) -> None:
        """Look those up that are not known, in one request."""
        unknown = [group for group in dict.fromkeys(groups) if group not in self._groups]
        if self._lookup is None or not unknown:
            return
        loaded = self._lookup.groups(unknown)
        self._groups |= loaded
        for group in loaded.values():
            for file in [] if group.slice is None else group.slice.files:
                if file.schema_version not in self.fields:
                    self.fields[file.schema_version] = self._lookup.fields(file.schema_version)

    def __getitem__(self, group: GroupNumber) -> StoredGroup:
        return self._groups.get(group) or StoredGroup(None, bucket_file_id(group.bucket))
