"""The publication for Hudi's readers in a table's storage.

All calls block. The asyncio client runs them in threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronolake import storage as storages
from chronolake._location import TableLocation
from chronolake_model.publication import (
    HistoryFile,
    HistoryInstant,
    HistoryRange,
    PublicationStep,
    PublishedFile,
    PublishedHistory,
)
from chronolake_storage import published_history, publishing
from chronolake_storage.files import Files
from chronolake_storage.guard import Guard
from chronolake_storage.published_history import HistoryListing, HistorySource


class PublishedLocation:
    """The storage of a table that is published. Each method raises ``StorageFailed``."""

    def __init__(self, location: TableLocation) -> None:
        self._location = location

    @property
    def _files(self) -> Files:
        return self._location.checked_storage.files

    @property
    def _guard(self) -> Guard:
        return self._location.guard

    def begin(self, files_since: str | None) -> None:
        """Claim the base path for publishing, see ``publishing.begin``."""
        self._location.claimed  # noqa: B018 - the folder is made
        with storages.storage_failures():
            publishing.begin(self._files, self._guard, files_since)

    def hide(self, was_published: bool) -> None:
        """Hide the table from Hudi's readers, see ``publishing.hide``."""
        with storages.storage_failures():
            publishing.hide(self._files, self._guard, was_published=was_published)

    def execute(self, steps: Sequence[PublicationStep], is_hidden: bool) -> None:
        """Execute steps of a publication."""
        with storages.storage_failures():
            publishing.execute(self._files, self._guard, steps, is_hidden=is_hidden)

    def find(self, owned: publishing.Owned) -> publishing.Comparison:
        """List ``.hoodie``, see ``publishing.find``."""
        with storages.storage_failures():
            return publishing.find(self._files, owned)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of the publication."""
        with storages.storage_failures():
            self._guard.remove_published(paths)

    def find_history(self, written: PublishedHistory | None) -> HistoryListing:
        """Compare the history of a publication, see ``published_history.find``."""
        with storages.storage_failures():
            return published_history.find(self._files, written)

    def write_history(self, range_: HistoryRange, source: HistorySource) -> HistoryFile:
        """Write a file of the history, see ``published_history.write``."""
        with storages.storage_failures():
            return published_history.write(self._files, range_, source)

    def compare_history(self, name: str, instants: Sequence[HistoryInstant]) -> bool:
        """Compare a file of the history, see ``published_history.differs``."""
        with storages.storage_failures():
            return published_history.differs(self._files, name, instants)

    def show_history(self, history: PublishedHistory) -> None:
        """Let readers find a history, see ``published_history.show``."""
        with storages.storage_failures():
            published_history.show(self._files, history)

    def remove_archived(self, before: str) -> bool:
        """Remove instants from the timeline, see ``published_history.remove_archived``."""
        with storages.storage_failures():
            return published_history.remove_archived(self._files, self._guard, before)

    def remove_unused_history(self, history: PublishedHistory) -> None:
        """Remove old files of a history, see ``published_history.remove_unused``."""
        with storages.storage_failures():
            published_history.remove_unused(self._files, self._guard, history)

    def compare(
        self, expected: Sequence[PublishedFile], comparison: publishing.Comparison
    ) -> list[PublishedFile]:
        """Find files that are missing or differ, see ``publishing.differing``."""
        with storages.storage_failures():
            return publishing.differing(self._files, expected, comparison.stored)

    def put_right(
        self, expected: Sequence[PublishedFile], comparison: publishing.Comparison
    ) -> list[PublishedFile]:
        """Write files that are missing or differ, see ``publishing.put_right``."""
        with storages.storage_failures():
            return publishing.put_right(self._files, expected, comparison.stored)
