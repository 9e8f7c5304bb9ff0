"""The eras of the log that an archive has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain.events import EraArchived, Event
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Projection
from chronolake_metastore.store import eras
from chronolake_metastore.store.postgres.transaction import Statement


class ArchivedEras(Projection):
    """The archived eras, each by its last event."""

    tables = ("archived_era",)
    followed: ClassVar[Followed] = {EraArchived: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.archived: list[tuple[int, EraArchived]] = []
        """With the versions of the events."""

    @override
    def evolve(self, event: Event) -> None:
        assert isinstance(event.payload, EraArchived)
        self.archived.append((event.version, event.payload))

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        for version, archived in self.archived:
            yield eras.save_archived(version, archived)
