"""The client for an event loop: the same names and the same calls as ``_client``, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from chronolake import _async_events, _async_write, _events, calls, errors
from chronolake._async_table import AsyncTable
from chronolake._async_write import AsyncWrite
from chronolake._transport import AsyncTransport, endpoint_of
from chronolake_model import tables as model
from chronolake_model.events import LoggedEvent
from chronolake_model.instants import Instant, TimeInterval
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
from chronolake_model.times import Bound, Tick
from chronolake_model.vocabulary import TableType


def connect_async(
    url: str | None = None,
    *,
    timeout_seconds: float = 30.0,
    retry_seconds: float = 60.0,
    storage_options: Mapping[str, str] | None = None,
) -> AsyncClient:
    """As ``connect``, for an event loop; nothing is awaited yet."""
    return AsyncClient(AsyncTransport(endpoint_of(url, timeout_seconds, retry_seconds)), storage_options)


class AsyncClient:
    """A metastore; as ``Client``, awaited. Close it, or use it by ``async with``."""

    def __init__(self, transport: AsyncTransport, storage_options: Mapping[str, str] | None = None) -> None:
        self._transport = transport
        self._storage_options = storage_options

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._transport.endpoint.url

    async def time(self) -> TimeInterval:
        """As ``Client.time``."""
        return await self._transport.send(calls.clock.time())

    async def outcome(self, key: str) -> Outcome:
        """As ``Client.outcome``."""
        return await self._transport.send(calls.outcomes.get(key))

    def events(
        self, after: str | None = None, table: str | None = None, *, limit: int | None = None
    ) -> AsyncGenerator[LoggedEvent, None]:
        """As ``Client.events``."""
        first = calls.events.list_all(after, table, _events.size_of_pages(limit))
        return _async_events.read(self._transport, first, limit)

    async def end_of_log(self, table: str | None = None) -> str:
        """As ``Client.end_of_log``."""
        return (await self._transport.send(calls.events.list_all(Bound.LATEST, table, 1))).cursor

    def follow(self, after: str | None = None, table: str | None = None) -> AsyncGenerator[LoggedEvent, None]:
        """As ``Client.follow``; leave it by ``contextlib.aclosing`` to close its connection at once."""
        return _async_events.follow(self._transport, calls.events.follow(after, table))

    async def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, if_not_exists: bool = False
    ) -> Namespace:
        """As ``Client.create_namespace``."""
        body = CreateNamespace(name, dict(properties or {}))
        try:
            return await self._transport.send(calls.namespaces.create(body))
        except errors.NamespaceExists:
            if not if_not_exists:
                raise
        return await self.namespace(name)

    async def namespace(self, name: str) -> Namespace:
        """One namespace. Raises ``NamespaceNotFound``."""
        return await self._transport.send(calls.namespaces.get(name))

    async def namespaces(self) -> AsyncIterator[Namespace]:
        """All namespaces, by name."""
        async for page in self._transport.pages(calls.namespaces.list_all()):
            for one in page.namespaces:
                yield one

    async def drop_namespace(self, name: str) -> None:
        """As ``Client.drop_namespace``."""
        await self._transport.send(calls.namespaces.drop(name))

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
        reuse_base_path: bool = False,
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
            reuse_base_path=reuse_base_path,
        )
        try:
            return self._as_table(await self._transport.send(calls.tables.create(body)))
        except errors.TableExists:
            if not if_not_exists:
                raise
        return await self.table(name)

    async def table(self, name: str) -> AsyncTable:
        """The table ``namespace.table``. Raises ``TableNotFound``."""
        return self._as_table(await self._transport.send(calls.tables.get(name)))

    async def tables(self, namespace: str | None = None) -> AsyncIterator[AsyncTable]:
        """All tables, or those of a namespace, by name."""
        async for page in self._transport.pages(calls.tables.list_all(namespace)):
            for one in page.tables:
                yield self._as_table(one)

    async def drop_table(self, name: str) -> None:
        """As ``Client.drop_table``."""
        await self._transport.send(calls.tables.drop(name))

    async def complete_together(self, writes: Sequence[AsyncWrite]) -> list[Instant]:
        """As ``Client.complete_together``."""
        return await _async_write.complete_together(writes)

    async def close(self) -> None:
        """Give the connections back."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()

    def _as_table(self, definition: model.Table) -> AsyncTable:
        return AsyncTable(self._transport, definition, self._storage_options)
