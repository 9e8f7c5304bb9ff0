"""History that is only in the archive of the log, and what reads it there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.feed import FeedEntry
from chronolake_metastore.store.instants import Filter
from chronolake_metastore.store.outcomes import StoredOutcome
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, read
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, State

EVENT_BYTES: Final = 512
"""The share of an event in the bound of a page, beside its payload (``feed/page.sql``)."""
_NAMES: Final = """
    SELECT table_id, namespace || '.' || name, definition ->> 'tick'
    FROM lake_table
    WHERE table_id = ANY(%(table_ids)s::uuid[])
"""
_FIRST_VERSION: Final = """
    SELECT coalesce(min(e.version), (SELECT c.version + 1 FROM clock c WHERE c.table_id = %(table_id)s))
    FROM event e
    WHERE e.table_id = %(table_id)s
        AND e.transaction_id >= %(transaction_id)s::text::xid8
        -- Whole partitions are left out: a table may have many events before the border that its state needs.
        AND e.era > coalesce((SELECT max(era.era) FROM era WHERE era.events_left_at IS NOT NULL), 0)
"""
_BORDER: Final = """
    SELECT
        a.archived_before,
        (SELECT last.location FROM archived_era last ORDER BY last.era DESC LIMIT 1),
        ARRAY(SELECT metastore_id FROM metastore)
    FROM era
    JOIN archived_era a ON a.era = era.era
    WHERE era.events_left_at IS NOT NULL
    ORDER BY era.era DESC
    LIMIT 1
"""
_HAS_LEFT: Final = """
    SELECT EXISTS (
        SELECT
        FROM first_event f
        LEFT JOIN event e ON e.table_id = f.table_id AND e.version = f.version
        WHERE f.table_id = %(table_id)s AND (e.time IS NULL OR e.time > moment(%(time)s))
    )
"""
_BORDER_OF_ANSWERS: Final = """
    SELECT archived_before, location, ARRAY(SELECT metastore_id FROM metastore)
    FROM archived_era
    ORDER BY era DESC
    LIMIT 1
"""
_LAG: Final = statements.load("eras/find_lag")
_FIND_LEFT: Final = statements.load("eras/find_left")
_FIRST_EVENT: Final = """
    SELECT f.version, micros(e.time), micros(f.instants_from)
    FROM first_event f
    JOIN event e ON e.table_id = f.table_id AND e.version = f.version
    WHERE f.table_id = %(table_id)s::uuid
"""
_INSTANTS_FROM: Final = """
    SELECT micros(f.instants_from) FROM first_event f WHERE f.table_id = %(table_id)s::uuid
"""
ResultT = TypeVar("ResultT")
EventPlace = tuple[int, int]
"""A transaction and a position in it."""


class ArchivedEvent(msgspec.Struct, frozen=True):
    """An event, and its position in its transaction."""

    event: StoredEvent
    position: int

    @property
    def bytes(self) -> int:
        """Its share of the bound of a page."""
        return self.event.payload_bytes + EVENT_BYTES


class ArchivedEvents(msgspec.Struct, frozen=True):
    """A page of events. Those after the first ``counted`` complete the last request.

    ``bytes`` is the share of the counted ones of the bound. ``is_cut`` says that the bounds end the page.
    """

    events: Sequence[ArchivedEvent]
    counted: int
    bytes: int
    is_cut: bool


class ArchivedStat(msgspec.Struct, frozen=True):
    """A write stat, without column statistics, at its place in the write stats of an event."""

    version: int
    ordinal: int
    kind: str
    partition_path: str
    file_id: str
    file_name: str
    size_bytes: int
    records: int
    inserts: int
    updates: int
    deletes: int


class ArchivedEntry(msgspec.Struct, frozen=True):
    """An entry of a list, at its place in a list of an event."""

    version: int
    list: str
    ordinal: int
    instant: Micros
    partition_path: str | None
    name: str


class EventRows(msgspec.Struct, frozen=True):
    """The rows beside events."""

    stats: Sequence[ArchivedStat] = ()
    entries: Sequence[ArchivedEntry] = ()


class ArchivedInstants(msgspec.Struct, frozen=True):
    """A page of a timeline, and the number of instants that were left out before it.

    ``is_cut`` says that the bounds end the page.
    """

    instants: Sequence[Instant]
    skipped: int
    is_cut: bool


class ArchivedCompletion(msgspec.Struct, frozen=True):
    """The completion of a write or a restore, or of another instant that was undone since."""

    requested: Micros
    completed: Micros
    action: Action
    state: State


class FirstEvent(msgspec.Struct, frozen=True):
    """The first event of a table from which on the database has all: 1 if none has left.

    ``instants_from`` is as in ``find_instants_from``.
    """

    version: int = 1
    time: Micros = Micros(0)
    instants_from: Micros | None = None


@runtime_checkable
class ArchivedLog(Protocol):
    """An archive of the log. Methods block unless they say otherwise.

    They raise ``ConfigurationError`` when the archive is damaged, or storage refuses.
    """

    @property
    def end(self) -> int:
        """The transaction before which this reader has everything; ``refresh`` moves it on. Does not block."""

    @property
    def metastore_id(self) -> UUID | None:
        """The identity of the metastore that wrote it last, as of the last refresh. Does not block."""

    def refresh(self, location: str) -> int:
        """Take in what was archived since; gives the new ``end``.

        ``location`` is that of the archive, for a reader that was given none.
        """

    def may_have_outcome(self, request_id: str) -> bool:
        """Whether the archive may have an outcome, as of the last refresh. Does not block."""

    def outcome(self, request_id: str) -> StoredOutcome | None:
        """The outcome of a request, without its hash; None if the archive has none."""

    def events_of_table(
        self, table_id: UUID, after_version: int, until_version: int, limit: int, bytes_max: int
    ) -> ArchivedEvents:
        """Events of one table after a version, up to another; bounded as ``feed.page_of_table``."""

    def events_in_order(self, after: EventPlace, until: int, limit: int, bytes_max: int) -> ArchivedEvents:
        """Events of all tables after a place, of transactions before ``until``; bounded as ``feed.page``."""

    def version_at(self, table_id: UUID, place: EventPlace) -> int:
        """The version of a table's last event up to a place; 0 if the archive has none."""

    def last_place(self, until: int) -> EventPlace:
        """The place of the last event of the transactions before ``until``; (0, 0) if there is none."""

    def has_event(self, place: EventPlace) -> bool:
        """Whether a place is that of an event."""

    def time_of_version(self, table_id: UUID, version: int) -> Micros | None:
        """The time of a table's event; None if the archive has none of this version."""

    def version_before(self, table_id: UUID, time: Micros) -> int:
        """The version of a table's last event before a time; 0 if the archive has none."""

    def rows_of_events(self, table_id: UUID, versions: Iterable[int]) -> EventRows:
        """The write stats and the entries of lists of a table's events, which the archive must have."""

    def entries(
        self, table_id: UUID, instant: Micros, name: ListName, after: int, limit: int, bytes_max: int
    ) -> tuple[list[tuple[int, ListEntry]], bool]:
        """Entries of a list after an ordinal, as ``event_lists.page`` gives them."""

    def deleted_files(
        self, table_id: UUID, instant: Micros, after: DeletedFile, limit: int
    ) -> list[DeletedFile]:
        """Files of an instant that were reported deleted, each once, in order, after a file."""

    def completion_times(self, table_id: UUID, requested_times: Sequence[Micros]) -> list[Micros | None]:
        """The completion time of each instant, in the order asked; None of one that is not completed."""

    def instants(self, table_id: UUID, requested_times: Sequence[Micros]) -> list[Instant | None]:
        """The instants with these requested times, in this order; None where there is none."""

    def page_of_instants(
        self, table_id: UUID, wanted: Filter, after: Micros | None, skip: int, limit: int, bytes_max: int
    ) -> ArchivedInstants:
        """Instants that pass the filter, in its order; as ``instants.page``."""

    def latest_completion(self, table_id: UUID, until: Micros) -> Micros | None:
        """The last completion up to a time, undone since or not."""

    def completions(self, table_id: UUID, after: Micros, until: Micros, limit: int) -> list[ArchivedCompletion]:
        """The first writes and restores that completed in (after, until], undone since or not."""


class LogBorder(msgspec.Struct, frozen=True):
    """Rows of the transactions before this one are only in the archive."""

    transaction_id: int
    location: str = ""
    """The location of the archive, as it was recorded when they left."""
    identities: Sequence[UUID] | None = None
    """The identities of the metastore, one of which wrote the archive; None where they are not compared."""

    def is_archived(self, log: ArchivedLog) -> bool:
        """Whether an archive is that of this log, and was read up to the border. Does not block."""
        is_own = self.identities is None or log.metastore_id in self.identities
        return is_own and log.end >= self.transaction_id


class InstantsBorder(msgspec.Struct, frozen=True):
    """The database has all instants of a table that were requested at a time or later.

    The timeline before ``since`` is that of the archive, even where the database still has rows. Its instants
    have ended before ``since`` too.
    """

    since: Micros
    log: LogBorder


class ArchiveLag(msgspec.Struct, frozen=True):
    """The distance from the end of an archive to that of the log, and the age of what could leave.

    ``seconds`` is the age of the oldest event that the archive lacks, ``oldest_era_seconds`` the time since the
    end of the oldest era whose answers PostgreSQL has. Each is 0 if there is none.
    """

    transactions: int
    seconds: float
    oldest_era_seconds: float


async def lag(connection: Connection, end: int) -> ArchiveLag:
    """The lag of an archive that ends before a transaction."""
    return ArchiveLag(*(await connection.execute(_LAG, {"end": str(end)})).one())


def find_border() -> Query[LogBorder | None]:
    """The border of the events; None while PostgreSQL has all of them.

    A transaction that is not of one moment reads it after the rows that may be missing. Rows leave only after
    the border is committed, and after the transactions that may have read an earlier one have ended.
    """
    return Query(_BORDER, {}, lambda rows: LogBorder(*rows[0]) if rows else None)


def find_first_event(table_id: UUID) -> Query[FirstEvent]:
    """The first event of a table from which on the database has all."""
    return Query(
        _FIRST_EVENT, {"table_id": table_id}, lambda rows: FirstEvent(*rows[0]) if rows else FirstEvent()
    )


async def first_event(connection: Connection, table_id: UUID) -> FirstEvent:
    """As ``find_first_event``, in a transaction that only reads."""
    return await _read(connection, find_first_event(table_id))


def find_instants_from(table_id: UUID) -> Query[Micros | None]:
    """The requested time from which on the database has all instants of a table; None if it has all.

    The timeline before it is that of the archive, even where the database still has rows.
    """
    return Query(_INSTANTS_FROM, {"table_id": table_id}, lambda rows: rows[0][0] if rows else None)


async def instants_from(connection: Connection, table_id: UUID) -> Micros | None:
    """As ``find_instants_from``, in a transaction that only reads."""
    return await _read(connection, find_instants_from(table_id))


async def instants_border(connection: Connection, table_id: UUID) -> InstantsBorder | None:
    """The border of the instants of a table; None while the database has all of them."""
    since = await instants_from(connection, table_id)
    if since is None:
        return None
    log = await border(connection)
    assert log is not None, "instants leave after their events"
    return InstantsBorder(since, log)


async def border(connection: Connection) -> LogBorder | None:
    """The border, in a transaction that only reads."""
    return await _read(connection, find_border())


async def border_of_instant(connection: Connection, table_id: UUID, requested_time: Micros) -> LogBorder | None:
    """The border, if events of an instant may have left; None if the database has all of them."""
    left = await connection.execute(_HAS_LEFT, {"table_id": table_id, "time": requested_time})
    return await border(connection) if left.scalar_one() else None


async def border_of_answers(connection: Connection) -> LogBorder | None:
    """The border of the answers, in a transaction that only reads."""
    return await _read(connection, find_border_of_answers())


async def _read(connection: Connection, query: Query[ResultT]) -> ResultT:
    return query.result if query.is_known else await read(connection, query)


def find_border_of_answers() -> Query[LogBorder | None]:
    """The border of the outcomes and refusals; None while PostgreSQL has all of them."""
    return Query(_BORDER_OF_ANSWERS, {}, lambda rows: LogBorder(*rows[0]) if rows else None)


def find_left(found: Iterable[StoredOutcome]) -> Query[set[str]]:
    """The request ids of those archived outcomes that have left the database.

    It never had the others: it was restored from a backup, and the archive is newer.
    """
    outcomes = list(found)
    parameters = {
        "request_ids": [outcome.request_id for outcome in outcomes],
        "chain_ids": [outcome.chain_id for outcome in outcomes],
        "numbers": [outcome.number for outcome in outcomes],
    }
    return Query(_FIND_LEFT, parameters, lambda rows: {request_id for (request_id,) in rows})


def log_of(database: Database) -> ArchivedLog | None:
    """The archive that a server was given."""
    log = database.archive
    assert log is None or isinstance(log, ArchivedLog)
    return log


async def ask(
    database: Database,
    border: LogBorder,
    read: Callable[[ArchivedLog], ResultT],
    *,
    of_outcomes: bool = False,
) -> ResultT:
    """The answer of the archive, which has all before the border; no transaction may wait for it.

    Questions about history take turns; so do those ``of_outcomes``, for which commands wait, beside them.
    Raises ``ArchiveNotSet`` or ``ArchiveUnavailable``.
    """
    log = log_of(database)
    if log is None:
        raise errors.ArchiveNotSet(
            "the history that this request needs is in the archive of the log; an operator must give this "
            "server the option --archive with its location"
        )
    thread = database.outcomes_thread if of_outcomes else database.history_thread
    return await asyncio.get_running_loop().run_in_executor(thread, _read_archive, log, border, read)


def _read_archive(log: ArchivedLog, border: LogBorder, read: Callable[[ArchivedLog], ResultT]) -> ResultT:
    try:
        if not border.is_archived(log):
            log.refresh(border.location)
        if not border.is_archived(log):
            raise errors.ArchiveUnavailable(_other(log, border), end=log.end, border=border.transaction_id)
        return read(log)
    except errors.ConfigurationError as exc:
        raise errors.ArchiveUnavailable(
            f"the archive of the log cannot be read: {exc}; send the request again", reason=str(exc)
        ) from exc


def _other(log: ArchivedLog, border: LogBorder) -> str:
    """The reason why an archive has not all before the border."""
    found = f"the archive of the log ends at transaction {log.end} of metastore {log.metastore_id}"
    if log.metastore_id is None:
        found = "there is no archive of the log where this server looks for it"
    return (
        f"{found}, and the database has nothing before transaction {border.transaction_id}: put the archive "
        f"back at {border.location}, or start the server with --archive, which must name the archive of this "
        "database"
    )


async def first_version(connection: Connection, table_id: UUID, border: LogBorder) -> int:
    """The version of a table's first event after the border; the next one if there is none."""
    parameters = {"table_id": table_id, "transaction_id": str(border.transaction_id)}
    return int((await connection.execute(_FIRST_VERSION, parameters)).scalar_one())


async def entries(
    connection: Connection, events: Iterable[ArchivedEvent], *, as_text: bool = False
) -> list[FeedEntry]:
    """Archived events as the feed has them, with the present names of their tables."""
    events = list(events)
    table_ids = sorted({archived.event.table_id for archived in events})
    rows = await connection.execute(_NAMES, {"table_ids": table_ids})
    tables = {table_id: (name, Tick(tick)) for table_id, name, tick in rows}
    nameless: tuple[None, None] = (None, None)
    return [
        _entry(archived, *tables.get(archived.event.table_id, nameless), as_text=as_text) for archived in events
    ]


async def names(connection: Connection, table_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The present names of tables. The catalog has none."""
    rows = await connection.execute(_NAMES, {"table_ids": list(table_ids)})
    return {table_id: name for table_id, name, _ in rows}


def _entry(archived: ArchivedEvent, table: str | None, tick: Tick | None, *, as_text: bool) -> FeedEntry:
    event = archived.event
    return FeedEntry(
        transaction_id=str(event.transaction_id),
        position=archived.position,
        table=table,
        tick=tick,
        table_id=event.table_id,
        version=event.version,
        type=event.type,
        instant=event.instant,
        time=event.time,
        actor=event.actor,
        request_id=event.request_id,
        payload=event.payload if as_text else msgspec.json.decode(event.payload),
        hash=event.hash.hex(),
    )
