"""The roles of subjects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar
from uuid import UUID

from typing_extensions import override

from chronolake_metastore.domain import grants
from chronolake_metastore.domain.events import Event, RoleGranted, RoleRevoked, TableDropped
from chronolake_metastore.domain.grants import StoredGrant, key_of
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Projection
from chronolake_metastore.store import grants as stored
from chronolake_metastore.store.postgres.transaction import Statement


class Grants(Projection):
    """The present roles of subjects. Those on a table end with it."""

    tables = ("role_grant",)
    followed: ClassVar[Followed] = {RoleGranted: None, RoleRevoked: None, TableDropped: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.changed: dict[tuple[str, str], StoredGrant | None] = {}
        """By subject and key; None is a revoked one."""
        self.dropped: set[UUID] = set()

    @override
    def evolve(self, event: Event) -> None:
        match event.payload:
            case RoleGranted() as granted:
                key = key_of(granted.pattern, granted.table_id)
                self.changed[granted.subject, key] = grants.evolve(granted, event)
            case RoleRevoked() as revoked:
                self.changed[revoked.subject, key_of(revoked.pattern, revoked.table_id)] = None
            case TableDropped():
                self.dropped.add(event.table_id)
                of_table = key_of("", event.table_id)
                for subject, key in [*self.changed]:
                    if key == of_table:
                        self.changed[subject, key] = None
            case other:
                raise TypeError(other)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        revoked = [key for key, grant in self.changed.items() if grant is None]
        granted = [grant for grant in self.changed.values() if grant is not None]
        if self.dropped:
            yield stored.delete_of_tables(self.dropped)
        if revoked:
            yield stored.delete(revoked)
        if granted:
            yield stored.save(granted)
