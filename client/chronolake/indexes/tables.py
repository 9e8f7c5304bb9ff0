"""The methods of a table, and of the markers of an instant, that writes call. ``chronolake.Table`` has them.

They block. For a table of an event loop, ``concurrency.blocking_table`` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.instants import Instant
from chronolake_model.markers import Marker, MarkersType
from chronolake_model.schemas import TableSchema
from chronolake_model.slices import BucketName, FoundFileGroups, PendingFileGroups
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Action, Direction, State, TimeOrder


class BlockingMarkers(Protocol):
    """The markers of an instant."""

    def create(self, markers: Iterable[Marker]) -> Sequence[object]:
        """As ``Markers.create``."""

    def check(self, marker: Marker) -> bool:
        """As ``Markers.check``."""


class BlockingTable(Protocol):
    """A table. The methods are those of ``chronolake.Table``."""

    @property
    def definition(self) -> Table:
        """The definition, as last fetched."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The access to the files."""

    def reload(self) -> BlockingTable:
        """Fetch the definition again."""

    def schema(self, schema_version: int) -> TableSchema:
        """A version of the schema."""

    def snapshot(self, as_of: str | None = None) -> Snapshot:
        """The live slices."""

    def scan(
        self, filter: Filter | None, as_of: str | None = None, partition_paths: Iterable[str] | None = None
    ) -> Snapshot:
        """The slices that may have a matching record."""

    def file_groups(
        self,
        names: Iterable[FileGroupName] = (),
        as_of: str | None = None,
        *,
        buckets: Iterable[BucketName] = (),
    ) -> FoundFileGroups:
        """The slices of some file groups."""

    def pending_file_groups(self) -> PendingFileGroups:
        """The file groups in plans."""

    def changes(self, from_: str | None = None, to: str | None = None) -> Changes:
        """The changes of a range."""

    def instants(
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        completed_to: str | None = None,
        order_by: TimeOrder = TimeOrder.REQUESTED_TIME,
        direction: Direction = Direction.ASCENDING,
        limit: int | None = None,
    ) -> Iterator[Instant]:
        """The timeline."""

    def claim_storage(self) -> None:
        """Claim the base path."""

    def remove_index_files(self, paths: Sequence[str]) -> None:
        """Remove files of the record index."""

    def markers_of(
        self, requested_time: str, *, markers: MarkersType | None = None, writer: str | None = None
    ) -> BlockingMarkers:
        """The markers of an instant."""
