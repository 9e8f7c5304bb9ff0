"""The client for an event loop: the same names and the same calls as ``_client`` and ``_table``, awaited."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from chronolake import _async_events, _calls, _events, errors
from chronolake._async_write import AsyncWrite
from chronolake._calls import InstantFilter
from chronolake._table import default_writer, page_size, words, write_action
from chronolake._transport import AsyncTransport, endpoint_of
from chronolake_model import tables as model
from chronolake_model.events import LoggedEvent
from chronolake_model.files import Changes, Snapshot
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    BeginInstant,
    Instant,
    RollbackInstant,
    TimeInterval,
)
from chronolake_model.outcomes import Outcome
from chronolake_model.tables import (
    BucketIndex,
    CreateNamespace,
    CreateTable,
    Field,
    Namespace,
    NewBucketIndex,
    NewField,
)
from chronolake_model.times import Moment, Tick
from chronolake_model.vocabulary import Action, Direction, Operation, State, TableType, TimeOrder


def connect_async(
    url: str | None = None, *, timeout_seconds: float = 30.0, retry_seconds: float = 60.0
) -> AsyncClient:
    """As ``connect``, for an event loop; nothing is awaited yet."""
    return AsyncClient(AsyncTransport(endpoint_of(url, timeout_seconds, retry_seconds)))


class AsyncTable:
    """A table of the metastore; as ``Table``, awaited."""

    def __init__(self, transport: AsyncTransport, definition: model.Table) -> None:
        self._transport = transport
        self._definition = definition

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    async def reload(self) -> AsyncTable:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = await self._transport.send(_calls.table(self.name))
        return self

    async def begin(
        self,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
    ) -> AsyncWrite:
        """As ``Table.begin``: ``async with await table.begin() as write``."""
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
        )
        return AsyncWrite(self._transport, await self._transport.send(_calls.begin_instant(self.name, body)))

    async def write(self, requested_time: str) -> AsyncWrite:
        """As ``Table.write``."""
        return AsyncWrite(self._transport, await self.instant(requested_time))

    async def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return await self._transport.send(_calls.instant(self.name, requested_time))

    async def rollback(self, requested_time: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """As ``Table.rollback``."""
        body = RollbackInstant(writer or default_writer(), reason)
        return await self._transport.send(_calls.rollback_instant(self.name, requested_time, body))

    async def instants(  # noqa: PLR0913  # one keyword per filter of the timeline
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        requested_from: Moment | None = None,
        requested_to: Moment | None = None,
        completed_from: Moment | None = None,
        completed_to: Moment | None = None,
        order_by: TimeOrder = TimeOrder.REQUESTED_TIME,
        direction: Direction = Direction.ASCENDING,
        limit: int | None = None,
    ) -> AsyncIterator[Instant]:
        """As ``Table.instants``."""
        wanted = InstantFilter(
            state=words(state),
            action=words(action),
            requested_from=requested_from,
            requested_to=requested_to,
            completed_from=completed_from,
            completed_to=completed_to,
            order_by=order_by,
            direction=direction,
        )
        pages = self._transport.pages(_calls.list_instants(self.name, wanted, page_size(limit)))
        left = sys.maxsize if limit is None else limit
        # A limit ends the iteration early, and what it leaves behind must not wait for the garbage collector.
        async with contextlib.aclosing(pages):
            while left > 0 and (page := await anext(pages, None)) is not None:
                for one in page.instants[:left]:
                    yield one
                left -= len(page.instants)

    async def snapshot(self, as_of: Moment | None = None, partition_path: str | None = None) -> Snapshot:
        """As ``Table.snapshot``."""
        call = _calls.snapshot(self.name, as_of, partition_path)
        return _calls.merge_snapshot([page async for page in self._transport.pages(call)])

    async def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """As ``Table.changes``."""
        call = _calls.changes(self.name, from_, to)
        return _calls.merge_changes([page async for page in self._transport.pages(call)])


class AsyncClient:
    """A metastore; as ``Client``, awaited. Close it, or use it by ``async with``."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._transport.endpoint.url

    async def time(self) -> TimeInterval:
        """As ``Client.time``."""
        return await self._transport.send(_calls.time())

    async def outcome(self, key: str) -> Outcome:
        """As ``Client.outcome``."""
        return await self._transport.send(_calls.outcome(key))

    def events(
        self, after: str | None = None, table: str | None = None, *, limit: int | None = None
    ) -> AsyncGenerator[LoggedEvent, None]:
        """As ``Client.events``."""
        first = _calls.list_events(after, table, _events.size_of_pages(limit))
        return _async_events.read(self._transport, first, limit)

    def follow(self, after: str | None = None, table: str | None = None) -> AsyncGenerator[LoggedEvent, None]:
        """As ``Client.follow``; leave it by ``contextlib.aclosing`` to close its connection at once."""
        return _async_events.follow(self._transport, _calls.follow_events(after, table))

    async def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, if_not_exists: bool = False
    ) -> Namespace:
        """As ``Client.create_namespace``."""
        body = CreateNamespace(name, dict(properties or {}))
        try:
            return await self._transport.send(_calls.create_namespace(body))
        except errors.NamespaceExists:
            if not if_not_exists:
                raise
        return await self.namespace(name)

    async def namespace(self, name: str) -> Namespace:
        """One namespace. Raises ``NamespaceNotFound``."""
        return await self._transport.send(_calls.namespace(name))

    async def namespaces(self) -> AsyncIterator[Namespace]:
        """All namespaces, by name."""
        async for page in self._transport.pages(_calls.list_namespaces()):
            for one in page.namespaces:
                yield one

    async def drop_namespace(self, name: str) -> None:
        """As ``Client.drop_namespace``."""
        await self._transport.send(_calls.drop_namespace(name))

    async def create_table(  # noqa: PLR0913  # one keyword per part of a table's definition
        self,
        name: str,
        *,
        base_path: str,
        schema: Sequence[Field],
        record_key_fields: Sequence[str],
        type: TableType = TableType.COPY_ON_WRITE,
        partition_fields: Sequence[str] = (),
        ordering_field: str | None = None,
        index: BucketIndex = BucketIndex(),  # noqa: B008  # frozen
        tick: Tick = Tick.MILLISECOND,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> AsyncTable:
        """As ``Client.create_table``."""
        body = CreateTable(
            name=name,
            base_path=base_path,
            schema=[NewField.of(one) for one in schema],
            record_key_fields=list(record_key_fields),
            type=type,
            partition_fields=list(partition_fields),
            ordering_field=ordering_field,
            index=NewBucketIndex.of(index),
            tick=tick,
            properties=dict(properties or {}),
        )
        try:
            return AsyncTable(self._transport, await self._transport.send(_calls.create_table(body)))
        except errors.TableExists:
            if not if_not_exists:
                raise
        return await self.table(name)

    async def table(self, name: str) -> AsyncTable:
        """The table ``namespace.table``. Raises ``TableNotFound``."""
        return AsyncTable(self._transport, await self._transport.send(_calls.table(name)))

    async def tables(self, namespace: str | None = None) -> AsyncIterator[AsyncTable]:
        """All tables, or those of a namespace, by name."""
        async for page in self._transport.pages(_calls.list_tables(namespace)):
            for one in page.tables:
                yield AsyncTable(self._transport, one)

    async def drop_table(self, name: str) -> None:
        """As ``Client.drop_table``."""
        await self._transport.send(_calls.drop_table(name))

    async def close(self) -> None:
        """Give the connections back."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()
