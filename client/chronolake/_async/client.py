"""The client: a metastore, its namespaces and its tables."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chronolake import calls, errors
from chronolake._access import ClientCredentials, ServerAccess
from chronolake._async import events, write
from chronolake._async.table import AsyncTable
from chronolake._async.transport import AsyncTransport
from chronolake._async.write import AsyncWrite
from chronolake._concurrency import awaiting as concurrency
from chronolake._definitions import fields_of, warn_of_new
from chronolake._event_stream import page_size
from chronolake._http import endpoint_of
from chronolake.writing import choices
from chronolake_model import operations, tables as model
from chronolake_model.access import CanI, Grant, GrantRole, RevokeRole, RightCheck, WhoAmI
from chronolake_model.adoption import AdoptedTable, AdoptionCheck, AdoptTable
from chronolake_model.cuts import Cut
from chronolake_model.events import LoggedEvent, Outcome
from chronolake_model.health import TableHealth
from chronolake_model.instants import Instant, TimeInterval
from chronolake_model.names import listed, split_table_name
from chronolake_model.roles import Right, Role, refuse_unknown_subject, scope_of
from chronolake_model.services import ServicesStatus
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

if TYPE_CHECKING:
    import pyarrow as pa
from chronolake_model.vocabulary import IndexType, TableType


def connect_async(  # noqa: PLR0913  # one keyword per choice of the user
    url: str | ServerAccess | None = None,
    *,
    timeout_seconds: float = 30.0,
    retry_seconds: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    oauth: ClientCredentials | None = None,
    profile: str | None = None,
) -> AsyncClient:
    """A client of the metastore at ``url`` ($CHRONOLAKE_URL unless given, else http://127.0.0.1:7077).

    A request waits ``timeout_seconds`` for its answer. It is retried for ``retry_seconds`` while the server
    cannot be reached or is not available: 60 unless given, but 5 while the server has never answered this
    process, because the URL may be wrong. ``storage_options`` are for tables in S3, where the environment does
    not have them: ``endpoint_override``, ``access_key``, ``secret_key``, ``session_token``, ``region``; or
    ``credentials``: with ``vended`` the server gives keys for each table, which are renewed in time.

    A server with access control needs a ``token``, or a ``token_file``, which is read again when it changes, or
    ``oauth``: then tokens are fetched and renewed. ``ca_file`` has the CAs that are trusted for https. A
    ``profile`` has these settings in a file, and variables of the environment may have them
    (docs/security.md). Nothing is sent yet. Raises ``ValueError`` unless ``url`` is an http URL, and for a
    token that would travel over plain http to another machine.
    """
    endpoint = endpoint_of(
        url,
        timeout_seconds,
        retry_seconds,
        token=token,
        token_file=token_file,
        ca_file=ca_file,
        oauth=oauth,
        profile=profile,
    )
    return AsyncClient(AsyncTransport(endpoint), storage_options)


class AsyncClient:
    """A metastore. Tasks of one event loop may share it. Close it, or use it as a context manager."""

    def __init__(self, transport: AsyncTransport, storage_options: Mapping[str, str] | None = None) -> None:
        self._transport = transport
        self._storage_options = storage_options

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._transport.endpoint.url

    @property
    def access(self) -> ServerAccess:
        """The URL and the files that were given: by these, another process of the same job can connect."""
        return self._transport.endpoint.access

    async def time(self) -> TimeInterval:
        """The current time as an interval: an instant that completed before this call did so by ``latest``."""
        return await self._transport.send(calls.call(operations.catalog.GET_TIME))

    async def outcome(self, key: str) -> Outcome:
        """The outcome of the command with an idempotency key: its answer or its refusal, unchanged.

        Raises ``OutcomeNotFound`` when it was not executed so far; a command in flight may be executed later.
        """
        return await self._transport.send(calls.call(operations.catalog.GET_OUTCOME, key))

    def events(
        self, after: str | None = None, table: str | None = None, *, limit: int | None = None
    ) -> concurrency.Stream[LoggedEvent]:
        """The events of all tables or of one, in order, up to the end of the log.

        ``after`` is the ``cursor`` of the last processed event; without it the log is read from its beginning.
        A cursor never skips an event that is committed later. A cursor of one table cannot be used for all
        tables, nor the reverse: this raises ``InvalidRequest``. Raises ``TableNotFound``.
        """
        first = calls.catalog.list_events(after, table, page_size(limit))
        return events.read(self._transport, first, limit)

    async def end_of_log(self, table: str | None = None) -> str:
        """The cursor of the present end of the log, of all tables or of one: later events come after it.

        Raises ``TableNotFound``.
        """
        return (await self._transport.send(calls.catalog.list_events(Bound.LATEST, table, 1))).cursor

    def follow(self, after: str | None = None, table: str | None = None) -> concurrency.Stream[LoggedEvent]:
        """As ``events``, and then later events as they come, without end.

        After a lost connection it reconnects, for as long as this client retries, and continues after the last
        event: each event comes once. Store the ``cursor`` of an event in one transaction with its effects: then
        no event is missed or processed twice when the follower restarts. Raises ``ConnectionFailed`` or
        ``ServerUnavailable`` when the retries are used up. Close it, by ``contextlib.aclosing``, to end its
        connection.
        """
        return events.follow(self._transport, calls.catalog.follow_events(after, table))

    async def time_of_cursor(self, cursor: str, table: str) -> str | None:
        """The time from which the changes of a table are those after a cursor of the log.

        The cursor is one of the table's events or of those of all tables. An instant of the table completed
        later if and only if the event of its completion is after the cursor. None if all events of the table
        are. Raises ``TableNotFound``, and ``InvalidRequest`` for a cursor of another table or metastore.
        """
        return (await self._transport.send(calls.catalog.time_of_cursor(table, cursor))).time

    async def cut(self, namespace: str | None = None, *, tables: Sequence[str] | None = None) -> Cut:
        """The states of all tables, of those of a namespace, or of some by name, at one position of the log.

        Methods with ``as_of`` take the cut: reads of many tables then see one moment. If an event is in the
        cut, so are all that precede it in the log of all tables. ``cut.position`` is a cursor: ``events`` after
        it are those that the cut lacks. While another transaction is open, the last commits may be missing;
        then ``cut.caught_up`` is false. Raises ``NamespaceNotFound``, ``TableNotFound``.
        """
        pages = await self._transport.all_pages(calls.catalog.take_cut(namespace, tables))
        return calls.base.merge_pages(pages, "tables")

    async def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, if_not_exists: bool = False
    ) -> Namespace:
        """Create a namespace; with ``if_not_exists`` an existing one is returned, regardless of its properties.

        A caller that may only read the existing one gets it, too. Raises ``NamespaceExists``.
        """
        if if_not_exists:
            with contextlib.suppress(errors.NamespaceNotFound):
                return await self.namespace(name)
        body = CreateNamespace(name, dict(properties or {}))
        try:
            return await self._transport.send(calls.call(operations.catalog.CREATE_NAMESPACE, body=body))
        except errors.NamespaceExists:
            if not if_not_exists:
                raise
        return await self.namespace(name)

    async def namespace(self, name: str) -> Namespace:
        """One namespace. Raises ``NamespaceNotFound``."""
        return await self._transport.send(calls.call(operations.catalog.GET_NAMESPACE, name))

    def namespaces(self) -> AsyncIterator[Namespace]:
        """All namespaces, by name."""
        return self._transport.entries(calls.catalog.list_namespaces(), lambda page: page.namespaces)

    async def drop_namespace(self, name: str) -> None:
        """Drop a namespace. Raises ``NamespaceNotFound``, ``NamespaceNotEmpty``."""
        await self._transport.send(calls.call(operations.catalog.DROP_NAMESPACE, name))

    async def grant(self, subject: str, role: Role | str, on: str) -> Grant:
        """Grant a role to a subject, in place of the one that it has there.

        ``subject`` is ``token:<id>`` or ``oidc:<alias>:<sub>``. ``on`` is ``*`` (everything), ``shop`` (a
        namespace with its tables), ``shop.raw_*`` (names that begin so) or ``shop.orders`` (one table, whatever
        its name later). Raises ``ValueError`` for other forms, ``Forbidden``, ``TableNotFound``.
        """
        _refuse_malformed(subject, on)
        body = GrantRole(subject, Role(role), on)
        return await self._transport.send(calls.call(operations.access.GRANT_ROLE, body=body))

    async def revoke(self, subject: str, on: str) -> None:
        """Revoke the role that a subject has on exactly ``on``; nothing changes if it has none there.

        Raises ``ValueError``, ``Forbidden``, ``TableNotFound``.
        """
        _refuse_malformed(subject, on)
        body = RevokeRole(subject, on)
        await self._transport.send(calls.call(operations.access.REVOKE_ROLE, body=body))

    def grants(self, subject: str | None = None) -> AsyncIterator[Grant]:
        """The caller's own grants, and those on names that it may grant roles on; or those of a subject."""
        return self._transport.entries(calls.catalog.list_grants(subject), lambda page: page.grants)

    async def who_am_i(self) -> WhoAmI:
        """The caller as the server knows it, with its grants."""
        return await self._transport.send(calls.call(operations.access.WHO_AM_I))

    async def can_i(self, right: Right | str, on: str) -> bool:
        """Whether the caller has a right on all names of a pattern, which need not exist.

        ``right`` is ``read``, ``write``, ``maintain``, ``define`` or ``grant``; ``administer``, which no role
        has, is true for the static admin alone.
        """
        body = CanI([RightCheck(Right(right), on)])
        return (await self._transport.send(calls.call(operations.access.CAN_I, body=body))).allowed[0]

    async def create_table(  # noqa: PLR0913  # one keyword per part of a table's definition
        self,
        name: str,
        *,
        base_path: str,
        schema: Sequence[Field] | pa.Schema,
        record_key_fields: Sequence[str],
        type: TableType = TableType.COPY_ON_WRITE,
        partition_fields: Sequence[str] = (),
        ordering_field: str | None = None,
        index: BucketIndex | IndexType | str = BucketIndex(),  # noqa: B008  # frozen
        tick: Tick = Tick.MILLISECOND,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        reuse_base_path: bool = False,
    ) -> AsyncTable:
        """Create a table; with ``if_not_exists`` an existing one is returned, regardless of its definition.

        A local ``base_path`` may be relative, begin with ``~`` or have links in it: the table gets the absolute
        path that it resolves to on this machine. It may not overlap another table's. With ``reuse_base_path``
        the table takes the base path over from dropped tables, whose files are never deleted. One record key or
        partition field may be given as a text, an index by its type, and the schema as one of PyArrow: a column
        gets the type that holds all values of its Arrow type. A warning is logged before if Hudi's
        readers will not see the table, with the reason.

        Raises ``ValueError`` unless ``name`` is ``namespace.table``, and for an unknown type or index,
        ``TypeError`` for a schema of another kind or with types that no column has, ``TableExists``,
        ``BasePathTaken``, ``NamespaceNotFound``, ``InvalidTable``.
        """
        split_table_name(name)
        body = CreateTable(
            name=name,
            base_path=base_path,
            schema=[NewField.of(field) for field in fields_of(schema)],
            record_key_fields=listed(record_key_fields),
            type=choices.of("type", type, TableType),
            partition_fields=listed(partition_fields),
            ordering_field=ordering_field,
            index=NewBucketIndex.of(
                index if isinstance(index, BucketIndex) else BucketIndex(choices.of("index", index, IndexType))
            ),
            tick=Tick(tick),
            properties=dict(properties or {}),
            reuse_base_path=reuse_base_path,
        )
        warn_of_new(body)
        try:
            return self._as_table(await self._transport.send(calls.catalog.create_table(body)))
        except errors.TableExists:
            if not if_not_exists:
                raise
        return await self.table(name)

    async def check_new_table(self, definition: CreateTable) -> None:
        """Raise the error that ``create_table`` would raise for ``definition`` now; nothing is created.

        The namespace is checked last: if ``NamespaceNotFound`` is raised, the rest of the definition is valid.
        As in ``create_table``, a warning says if Hudi's readers will not see the table.
        """
        warn_of_new(definition)
        await self._transport.send(calls.catalog.check_new_table(definition))

    async def adopt_table(self, request: AdoptTable) -> AdoptedTable:
        """Create a table with the history that Hudi's timeline has; ``chronolake.hudi`` makes the request.

        Raises what ``create_table`` raises, and ``InvalidWriteStat``, ``InvalidPlan``.
        """
        return await self._transport.send(calls.call(operations.catalog.ADOPT_TABLE, body=request))

    async def check_adoption(self, request: AdoptTable) -> AdoptionCheck:
        """Raise the error that ``adopt_table`` would raise now, or say whose claim the folder may have.

        Nothing is created.
        """
        return await self._transport.send(calls.call(operations.catalog.CHECK_ADOPTION, body=request))

    async def table(self, name: str) -> AsyncTable:
        """The table ``namespace.table``. Raises ``TableNotFound``."""
        return self._as_table(await self._transport.send(calls.call(operations.catalog.GET_TABLE, name)))

    def table_of(self, definition: model.Table) -> AsyncTable:
        """A table from a definition that was fetched before, perhaps in another process. Nothing is sent."""
        return self._as_table(definition)

    def tables(self, namespace: str | None = None) -> AsyncIterator[AsyncTable]:
        """All tables, or those of a namespace, by name."""
        return self._transport.entries(
            calls.catalog.list_tables(namespace), lambda page: [self._as_table(table) for table in page.tables]
        )

    def dropped_tables(self) -> AsyncIterator[model.DroppedTable]:
        """All dropped tables that published files."""
        return self._transport.entries(calls.catalog.list_dropped_tables(), lambda page: page.tables)

    async def refusal(self) -> str | None:
        """Why the server only reads, as on a copy of a database; None if it takes commands."""
        return (await self._transport.send(calls.catalog.first_health())).refusal

    def health(self) -> AsyncIterator[TableHealth]:
        """The state of all tables by name: publication, lag, log files, pending plans."""
        return self._transport.entries(calls.catalog.list_health(), lambda page: page.tables)

    def services(self) -> AsyncIterator[ServicesStatus]:
        """The table services of all tables by name: pending plans, last runs, cancelled clusterings."""
        return self._transport.entries(calls.catalog.list_services(), lambda page: page.tables)

    async def drop_table(self, name: str, *, version: int | None = None) -> None:
        """Drop a table's metadata, never its files; with ``version`` only if its log ends there.

        Raises ``TableNotFound``, and ``IllegalTransition`` for another version.
        """
        await self._transport.send(calls.catalog.drop_table(name, version))

    async def complete_together(self, writes: Sequence[AsyncWrite]) -> list[Instant]:
        """Complete ``writes``, of one table or several, in one transaction: all of them, or none.

        Each publishes the files that were added to it. Set ``write.extra_metadata``, ``write.with_schema`` and
        ``write.clean_before`` before. Raises the errors of ``AsyncWrite.complete``, for the first write that
        cannot complete; then no write has completed.
        """
        return await write.complete_together(writes)

    async def close(self) -> None:
        """Close the connections; the client and its tables cannot be used afterwards."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()

    def _as_table(self, definition: model.Table) -> AsyncTable:
        return AsyncTable(self._transport, definition, self._storage_options)


def _refuse_malformed(subject: str, on: str) -> None:
    """Raise ``ValueError``, which says the forms; the server would answer with a regular expression."""
    refuse_unknown_subject(subject)
    scope_of(on)
