"""The tokens of callers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain.events import Event, TokenCreated, TokenRevoked, TokenRotated
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Projection
from chronolake_metastore.store import tokens
from chronolake_metastore.store.postgres.transaction import Statement


class Tokens(Projection):
    """The tokens, each by its events."""

    tables = ("token",)
    followed: ClassVar[Followed] = {TokenCreated: None, TokenRotated: None, TokenRevoked: None}

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._events: list[Event] = []

    @override
    def evolve(self, event: Event) -> None:
        self._events.append(event)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        for event in self._events:
            match event.payload:
                case TokenCreated() as created:
                    yield tokens.save_created(created, event.time)
                case TokenRotated() as rotated:
                    yield tokens.save_rotated(rotated)
                case TokenRevoked() as revoked:
                    yield tokens.save_revoked(revoked, event.time)
                case _:
                    raise AssertionError(event.type)
