"""The handler of a command: everything that the group loop needs to know about a kind of command.

A command loads its facts by a generator of queries. The group runs one step of all its commands in one round
trip.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from chronolake_metastore.domain import instants
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import TableInstant
from chronolake_metastore.domain.results import AnyResult, InstantResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store.instants import FoundInstants
from chronolake_metastore.store.postgres.transaction import Query, Transaction
from chronolake_model.files import FileGroupName
from chronolake_model.roles import Scope
from chronolake_model.times import Micros

CommandT = TypeVar("CommandT", bound=Command)
EvidenceT = TypeVar("EvidenceT")
ResultT = TypeVar("ResultT")

Loading = Generator[Sequence[Query[Any]], None, ResultT]
"""Yields queries, step by step, and returns a value made of their results."""
InstantName = tuple[str, Micros]
"""The name of a table, and the requested time of one of its instants."""


class Sharing(enum.Enum):
    """Whether a command may be in one transaction with others."""

    SHARED = enum.auto()
    LAST = enum.auto()
    """With earlier commands only. Later ones would read changes of it that are not loaded."""
    ALONE = enum.auto()


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that a command names. They are locked and loaded before the command is decided.

    ``tables`` are in the order of the command; ``catalog`` says whether the catalog's clock is locked too.
    ``ending`` says whether the ``instants`` may end: their marks are loaded too. ``instant_queries`` load
    instants that the command does not name itself. ``streams`` are names of tables and of streams of them;
    ``tables_of_streams`` names tables all of whose streams are loaded. ``new`` are scopes of names that need
    not exist: the caller needs its right there too. ``beside`` are scopes on which the decision asks for the
    rights of the caller itself (``State.rights``).
    """

    tables: Sequence[str] = ()
    catalog: bool = False
    namespaces: Sequence[str] = ()
    instants: Sequence[InstantName] = ()
    ending: bool = False
    file_groups: Sequence[tuple[str, FileGroupName]] = ()
    instant_queries: Sequence[Query[FoundInstants]] = ()
    streams: Sequence[tuple[str, str]] = ()
    tables_of_streams: Sequence[str] = ()
    new: Sequence[Scope] = ()
    beside: Sequence[Scope] = ()


class Handler(ABC, Generic[CommandT, EvidenceT]):
    """Locks, facts, number of files and decision of one kind of command.

    ``evidence`` are the facts for the decision beside the state; ``no_evidence`` is for a command without any.
    """

    command: ClassVar[type[Command]]
    no_evidence: ClassVar[Any] = None

    @abstractmethod
    def names(self, command: CommandT) -> Names:
        """The objects that the command names."""

    def sharing(self, command: CommandT) -> Sharing:
        """Whether the command may be in one transaction with others."""
        return Sharing.SHARED

    def files(self, command: CommandT) -> int:
        """The number of files of the command. Those of a group are bounded."""
        return 0

    def is_bulk(self, command: CommandT) -> bool:
        """Whether the command is always slow, so that it goes to the lane of large commands."""
        return False

    def locks_instants(self, state: State, command: CommandT) -> bool:
        """Whether all instants of the transaction are locked against new markers before ``load`` reads."""
        return False

    def look_ahead(self, command: CommandT) -> Loading[EvidenceT] | None:
        """Prefetch facts that never change, before anything is locked."""
        return None

    def load(self, state: State, command: CommandT, evidence: EvidenceT, now: Now) -> Loading[EvidenceT] | None:
        """Load the other facts, under the locks; ``evidence`` is the result of ``look_ahead``."""
        return None

    @abstractmethod
    def decide(self, state: State, command: CommandT, evidence: EvidenceT, origin: Origin) -> AnyResult:
        """Append the events of the command. Raises ``TimelineError``.

        Events that were appended before the error remain. Only the completion of several checkpoints has such
        events.
        """


def combined(loadings: Iterable[Loading[ResultT]]) -> Loading[list[ResultT]]:
    """Several loadings as one: each step has the queries of all of them."""
    running = dict(enumerate(loadings))
    results: dict[int, ResultT] = {}
    while running:
        queries: list[Query[Any]] = []
        for number, loading in list(running.items()):
            try:
                queries.extend(next(loading))
            except StopIteration as ended:
                results[number] = ended.value
                del running[number]
        if queries:
            yield queries
    return [results[number] for number in sorted(results)]


def single_query(query: Query[ResultT]) -> Loading[ResultT]:
    """One query as a loading."""
    yield [query]
    return query.result


async def fetch(tx: Transaction, loading: Loading[ResultT]) -> ResultT:
    """Run the steps of a loading, each in one round trip, and give its result."""
    while True:
        try:
            queries = next(loading)
        except StopIteration as ended:
            result: ResultT = ended.value
            return result
        await tx.fetch(queries)


class Answer(msgspec.Struct, frozen=True):
    """The result of a command, and its answer in the dialect of the caller: empty for a caller without one."""

    result: AnyResult
    body: bytes = b""


def instant_of(state: State, table: Table, requested_time: Micros) -> TableInstant:
    """An instant in its present state."""
    return instants.of_table(table, state.instants[table.table_id, requested_time], state.wall_offset)


def instant_result(
    state: State, table: Table, requested_time: Micros, *, is_new: bool = False
) -> InstantResult:
    """The result of a command that concerns one instant, in its present state."""
    of = instant_of(state, table, requested_time)
    return InstantResult(log_id=table.table_id, of=of, is_new=is_new)
