"""A projection: one object that loads its rows, follows the events, and writes what they changed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.events import Payload
from chronolake_metastore.domain.lists import ListEntry
from chronolake_metastore.domain.state import Evolution
from chronolake_metastore.store.instants import FoundInstants
from chronolake_metastore.store.postgres.transaction import Query, Statement
from chronolake_model.files import FileGroupName
from chronolake_model.times import Micros

Rows: TypeAlias = Generator[Sequence[Query[Any]], None, Mapping[str, Any]]
"""Yields the queries of a projection once, and returns fields of ``Loaded``."""
Followed: TypeAlias = Mapping[type[Payload], Callable[[Any], object] | None]
"""Types of events, each with a function that says of a payload whether it is followed; None if it always is."""
Entries: TypeAlias = Mapping[ListKey, Sequence[ListEntry]]
"""Lists of events, with their entries."""


class Named(msgspec.Struct, kw_only=True):
    """The objects that the commands of a group name; ``commands.handler.Names`` has those of one command.

    ``logs`` are ids of logs that have no table.
    """

    logs: Sequence[UUID] = ()
    tables: set[str] = set()
    namespaces: set[str] = set()
    instants: set[tuple[str, Micros]] = set()
    ending: set[tuple[str, Micros]] = set()
    instant_queries: list[Query[FoundInstants]] = []
    file_groups: list[tuple[str, FileGroupName]] = []
    streams: set[tuple[str, str]] = set()
    tables_of_streams: set[str] = set()


class Projection(Evolution):
    """Rows that follow from the log.

    ``tables`` are the tables of the database that have them, ``named`` the fields of ``Named`` with the objects
    whose rows are loaded, and ``followed`` the events that change them.
    """

    tables: ClassVar[Sequence[str]]
    named: ClassVar[Sequence[str]] = ()
    followed: ClassVar[Followed] = {}

    @classmethod
    def load(cls, named: Named) -> Rows:
        """Load the rows of the named objects, if there are any."""
        raise NotImplementedError

    def lists(self) -> Sequence[ListKey]:
        """Lists of events that ``write`` needs."""
        return ()

    def write(self, entries: Entries) -> Iterator[Statement]:
        """Write the rows that have changed; ``entries`` has the ``lists``."""
        raise NotImplementedError
