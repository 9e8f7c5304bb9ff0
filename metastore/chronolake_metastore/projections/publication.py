"""The progress of publication, where it begins: it follows the log, but a replay does not make it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain.events import CredentialsVended, Event, HudiFilesFound, TableAdopted
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Projection
from chronolake_metastore.store import publication
from chronolake_metastore.store.postgres.transaction import Statement


class Publications(Projection):
    """The begin of the publication of adopted tables, and events that publish nothing.

    It has no ``tables``: how far a table is published is not in the log.
    """

    tables = ()
    followed: ClassVar[Followed] = {TableAdopted: None, HudiFilesFound: None, CredentialsVended: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.adopted: list[Event] = []
        """Events up to which Hudi has published a table's folder before it came in."""
        self.found: list[Event] = []
        """Events that publish nothing."""

    @override
    def evolve(self, event: Event) -> None:
        (self.adopted if isinstance(event.payload, TableAdopted) else self.found).append(event)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        if self.adopted:
            yield publication.begin_behind(self.adopted)
        if self.found:
            yield publication.pass_over(self.found)
