"""The client: a metastore, its namespaces and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from chronolake import _events, _write, calls, errors
from chronolake._table import Table
from chronolake._transport import Transport, endpoint_of
from chronolake._write import Write
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


def connect(
    url: str | None = None,
    *,
    timeout_seconds: float = 30.0,
    retry_seconds: float = 60.0,
    storage_options: Mapping[str, str] | None = None,
) -> Client:
    """A client of the metastore at ``url`` ($CHRONOLAKE_URL unless given, else http://127.0.0.1:7077).

    One try waits ``timeout_seconds`` for its answer; what fails for want of a connection or of an available
    server is tried again for ``retry_seconds``. ``storage_options`` say how tables in S3 are reached where
    the environment does not: ``endpoint_override``, ``access_key``, ``secret_key``, ``session_token``,
    ``region``. Nothing is sent yet. Raises ``ValueError`` for no http URL.
    """
    return Client(Transport(endpoint_of(url, timeout_seconds, retry_seconds)), storage_options)


class Client:
    """A metastore. Threads may share it; close it, or use it as a context manager."""

    def __init__(self, transport: Transport, storage_options: Mapping[str, str] | None = None) -> None:
        self._transport = transport
        self._storage_options = storage_options

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._transport.endpoint.url

    def time(self) -> TimeInterval:
        """The TrueTime interval: what completed before the call did so at ``latest`` or before."""
        return self._transport.send(calls.clock.time())

    def outcome(self, key: str) -> Outcome:
        """What became of the command of an idempotency key: its answer, or its refusal, as it was given.

        Raises ``OutcomeNotFound`` when it was not carried out so far; one under way may still be.
        """
        return self._transport.send(calls.outcomes.get(key))

    def events(
        self, after: str | None = None, table: str | None = None, *, limit: int | None = None
    ) -> Iterator[LoggedEvent]:
        """Every change of all tables or of one, in order, until there is nothing more for now.

        ``after`` is the ``cursor`` of the last event that was dealt with; the log's beginning unless given. A
        cursor never skips an event that is committed later. One of a single table is of no use for all, and
        the other way round: raises ``InvalidRequest``. Raises ``TableNotFound``.
        """
        first = calls.events.list_all(after, table, _events.size_of_pages(limit))
        return _events.read(self._transport, first, limit)

    def end_of_log(self, table: str | None = None) -> str:
        """The cursor of the end of the log now, of all tables or of one: what happens later comes behind it.

        Raises ``TableNotFound``.
        """
        return self._transport.send(calls.events.list_all(Bound.LATEST, table, 1)).cursor

    def follow(self, after: str | None = None, table: str | None = None) -> Iterator[LoggedEvent]:
        """As ``events``, and then what comes, for ever.

        A connection that is lost is made again, for as long as this client retries, and goes on behind the last
        event: each comes once. Keep its ``cursor`` together with what was done about it, and nothing is missed
        or done twice over restarts of yours either. Raises ``ConnectionFailed`` or ``ServerUnavailable`` when
        the server stays away.
        """
        return _events.follow(self._transport, calls.events.follow(after, table))

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, if_not_exists: bool = False
    ) -> Namespace:
        """Make a namespace, or with ``if_not_exists`` take the one of this name, whatever its properties.

        Raises ``NamespaceExists``.
        """
        try:
            return self._transport.send(calls.namespaces.create(CreateNamespace(name, dict(properties or {}))))
        except errors.NamespaceExists:
            if not if_not_exists:
                raise
        return self.namespace(name)

    def namespace(self, name: str) -> Namespace:
        """One namespace. Raises ``NamespaceNotFound``."""
        return self._transport.send(calls.namespaces.get(name))

    def namespaces(self) -> Iterator[Namespace]:
        """All namespaces, by name."""
        pages = self._transport.pages(calls.namespaces.list_all())
        return (one for page in pages for one in page.namespaces)

    def drop_namespace(self, name: str) -> None:
        """Drop a namespace. Raises ``NamespaceNotFound``, ``NamespaceNotEmpty``."""
        self._transport.send(calls.namespaces.drop(name))

    def create_table(  # noqa: PLR0913  # one keyword per part of a table's definition
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
    ) -> Table:
        """Make a table, or with ``if_not_exists`` take the one of this name, whatever its definition.

        A local ``base_path`` may be relative, begin with ``~`` or lead over links: the table gets the absolute
        path that it leads to from here. It may not overlap with another table's; with ``reuse_base_path`` the
        table takes it over from dropped ones, of which nothing is deleted there any more.

        Raises ``TableExists``, ``BasePathTaken``, ``NamespaceNotFound``, ``InvalidTable``.
        """
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
            return self._as_table(self._transport.send(calls.tables.create(body)))
        except errors.TableExists:
            if not if_not_exists:
                raise
        return self.table(name)

    def table(self, name: str) -> Table:
        """The table ``namespace.table``. Raises ``TableNotFound``."""
        return self._as_table(self._transport.send(calls.tables.get(name)))

    def table_of(self, definition: model.Table) -> Table:
        """The table of a definition that was fetched before, in another process say. Nothing is sent."""
        return self._as_table(definition)

    def tables(self, namespace: str | None = None) -> Iterator[Table]:
        """All tables, or those of a namespace, by name."""
        pages = self._transport.pages(calls.tables.list_all(namespace))
        return (self._as_table(one) for page in pages for one in page.tables)

    def drop_table(self, name: str) -> None:
        """Drop a table's metadata, never its files. Raises ``TableNotFound``."""
        self._transport.send(calls.tables.drop(name))

    def complete_together(self, writes: Sequence[Write]) -> list[Instant]:
        """Publish what was added to each of ``writes``, of one table or several: all of them, or none.

        What each is to say of itself it was told before: ``write.extra_metadata``, ``write.with_schema``,
        ``write.clean_before``. They complete in one transaction, at one place in the order of the log. Raises
        what ``Write.complete`` does, for the first that may not complete; then none has.
        """
        return _write.complete_together(writes)

    def close(self) -> None:
        """Give the connections back; the client and its tables are of no use afterwards."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()

    def _as_table(self, definition: model.Table) -> Table:
        return Table(self._transport, definition, self._storage_options)
