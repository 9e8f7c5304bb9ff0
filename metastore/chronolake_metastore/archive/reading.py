"""Reading an archive of the log: events by table and across tables, outcomes by request id, lists of instants.

An answer is as PostgreSQL gave it while it had the rows, or an error; never a part of it. The bytes of each
file are compared with the digest in the description of its run.
"""

from __future__ import annotations

import heapq
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from chronolake_metastore import object_storage
from chronolake_metastore.archive import chain_reading, indexes, instant_reading, timeline_reading
from chronolake_metastore.archive.chain_reading import ChainReading, EventSpan
from chronolake_metastore.archive.rows import EVENT_ORDER, OUTCOME_KEY, Row
from chronolake_metastore.archive.run_reading import ReadCache, RunReader
from chronolake_metastore.archive.storage import ArchiveDamaged, ArchiveStorage
from chronolake_metastore.domain.archives import ArchiveManifest, ListedRun
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.archived import (
    ArchivedCompletion,
    ArchivedEntry,
    ArchivedEvent,
    ArchivedEvents,
    ArchivedInstants,
    ArchivedStat,
    EventPlace,
    EventRows,
)
from chronolake_metastore.store.instants import Filter
from chronolake_metastore.store.outcomes import StoredOutcome
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros

CACHE_BYTES_MAX: Final = 192 * 1024 * 1024
"""The files, row groups and windows that are kept in memory."""
_KEYS_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same for outcomes by request id."""
WINDOWS: Final = (10_000, 1_000, 100, 10, 1)
"""Numbers of events that are put into the order across tables together: the first whose events fit."""
WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
_REFRESHES_MAX: Final = 3
T = TypeVar("T")


class _Listing(msgspec.Struct, frozen=True):
    """A manifest, and the hashes of the request ids of each of its runs; None until they are read."""

    manifest: ArchiveManifest
    keys: Mapping[str, array[int]] | None = None


class ArchiveReader:
    """Reads one archive. Threads may share it.

    Those that read history take turns. Those that look up outcomes or refresh take turns beside them, because
    commands wait for them. Methods block, and raise ``ArchiveDamaged``, or ``ConfigurationError`` when storage
    refuses.
    """

    def __init__(
        self,
        storage: ArchiveStorage | None = None,
        bytes_max: int = CACHE_BYTES_MAX,
        *,
        has_outcomes: bool = True,
    ) -> None:
        """Without ``storage``, the first refresh opens the location that it is given.

        A reader that is not asked for outcomes does not load the hashes of their request ids.
        """
        self._given = storage
        self._has_outcomes = has_outcomes
        self._cache = ReadCache(bytes_max)
        self._chains = ChainReading()
        self._lock = threading.Lock()
        # A thread that has the first lock may take this one too, never the other way.
        self._keys_cache = ReadCache(_KEYS_CACHE_BYTES_MAX)
        self._keys_lock = threading.RLock()
        self._listing: _Listing | None = None

    @property
    def end(self) -> int:
        """The transaction before which this reader has everything; ``refresh`` moves it on."""
        return 0 if self._listing is None else self._listing.manifest.end

    @property
    def metastore_id(self) -> UUID | None:
        """The identity of the metastore that wrote the archive last; ``refresh`` reads it."""
        return None if self._listing is None else self._listing.manifest.metastore_id

    def refresh(self, location: str = "") -> int:
        """Read the manifest and the keys of new runs; gives the new ``end``."""
        with self._keys_lock:
            if self._given is None:
                self._given = ArchiveStorage(object_storage.open_location(location))
            self._refresh()
            if self._has_outcomes:
                self._keys()
            return self.end

    def may_have_outcome(self, request_id: str) -> bool:
        """Whether the archive may have an outcome, as of the last refresh. Does not block."""
        listing = self._listing
        if listing is None or listing.keys is None:
            return True
        key = indexes.key_of(request_id)
        return any(_positions(keys, key) for keys in listing.keys.values())

    def outcome(self, request_id: str) -> StoredOutcome | None:
        """The outcome of a request, without its hash; None if the archive has none."""
        if not self.may_have_outcome(request_id):
            return None
        return self._read(lambda: self._outcome(request_id), self._keys_lock)

    def events_of_table(
        self, table_id: UUID, after_version: int, until_version: int, limit: int, bytes_max: int
    ) -> ArchivedEvents:
        """Events of one table after a version, up to another; see ``store.feed.page_of_table``."""
        span = EventSpan(table_id, after_version + 1, until_version)
        return self._read(lambda: _page(self._events_of_table(span), limit, bytes_max))

    def events_in_order(self, after: EventPlace, until: int, limit: int, bytes_max: int) -> ArchivedEvents:
        """Events of all tables after a place, of transactions before ``until``; see ``store.feed.page``."""
        return self._read(lambda: _page(self._events_in_order(after, until), limit, bytes_max))

    def version_at(self, table_id: UUID, place: EventPlace) -> int:
        """The version of a table's last event up to a place; 0 if the archive has none."""
        return self._read(lambda: self._version_at(table_id, place))

    def last_place(self, until: int) -> EventPlace:
        """The place of the last event of the transactions before ``until``; (0, 0) if there is none."""
        return self._read(lambda: self._last_place(until))

    def has_event(self, place: EventPlace) -> bool:
        """Whether a place is that of an event."""
        return self._read(lambda: self._has_event(place))

    def time_of_version(self, table_id: UUID, version: int) -> Micros | None:
        """The time of a table's event; None if the archive has none of this version."""

        def read() -> Micros | None:
            for run in self._runs():
                span = run.events.span(table_id)
                if span is not None and span.first <= version <= span.last:
                    return Micros(run.row("event", run.events.row(table_id, version))[6])
            return None

        return self._read(read)

    def version_before(self, table_id: UUID, time: Micros) -> int:
        """The version of a table's last event before a time; 0 if the archive has none."""
        return self._read(lambda: self._version_before(table_id, time))

    def rows_of_events(self, table_id: UUID, versions: Iterable[int]) -> EventRows:
        """The write stats and the entries of lists of a table's events, which the archive must have."""

        def read() -> EventRows:
            stats: list[ArchivedStat] = []
            entries: list[ArchivedEntry] = []
            for version in sorted(set(versions)):
                run, key = self._run_of(table_id, version), (table_id, version)
                for _, _, ordinal, *stat in run.between("write_stat", key, key):
                    stats.append(ArchivedStat(version, ordinal, *stat[:9]))
                for _, _, *entry in run.between("event_entry", key, key):
                    entries.append(ArchivedEntry(version, *entry))
            return EventRows(stats, entries)

        return self._read(read)

    def entries(
        self, table_id: UUID, instant: Micros, name: ListName, after: int, limit: int, bytes_max: int
    ) -> tuple[list[tuple[int, ListEntry]], bool]:
        """Entries of a list after an ordinal, as ``store.event_lists.page`` gives them."""

        def read() -> tuple[list[tuple[int, ListEntry]], bool]:
            entries: list[tuple[int, ListEntry]] = []
            size = 0
            for row in self._of_instant("event_entry", table_id, instant):
                _, _, of_list, ordinal, of_instant, partition_path, entry = row
                if (of_list, of_instant) != (name.value, instant) or ordinal <= after:
                    continue
                listed = ListEntry(partition_path, entry)
                size += listed.size_bytes + 64
                if entries and (size > bytes_max or len(entries) == limit):
                    return entries, True
                entries.append((ordinal, listed))
            return entries, len(entries) == limit

        return self._read(read)

    def deleted_files(
        self, table_id: UUID, instant: Micros, after: DeletedFile, limit: int
    ) -> list[DeletedFile]:
        """Files of an instant that were reported deleted, each once, in order, after a file."""

        def read() -> list[DeletedFile]:
            first: set[DeletedFile] = set()
            for row in self._of_instant("deleted_file", table_id, instant):
                file = DeletedFile(*row[4:])
                if row[3] == instant and file > after:
                    first.add(file)
                if len(first) > 2 * limit:
                    first = set(heapq.nsmallest(limit, first))
            return heapq.nsmallest(limit, first)

        return self._read(read)

    def completion_times(self, table_id: UUID, requested_times: Sequence[Micros]) -> list[Micros | None]:
        """The completion time of each instant, in the order asked; None of one that is not completed."""
        return self.of_runs(lambda runs: instant_reading.completion_times(runs, table_id, requested_times))

    def instants(self, table_id: UUID, requested_times: Sequence[Micros]) -> list[Instant | None]:
        """The instants with these requested times, in this order; None where there is none."""
        return self.of_runs(lambda runs: timeline_reading.instants(runs, table_id, requested_times))

    def page_of_instants(
        self, table_id: UUID, wanted: Filter, after: Micros | None, skip: int, limit: int, bytes_max: int
    ) -> ArchivedInstants:
        """Instants that pass the filter, in its order; see ``store.instants.page``."""
        of = table_id, wanted, after, skip, limit, bytes_max
        return self.of_runs(lambda runs: timeline_reading.page(runs, *of))

    def latest_completion(self, table_id: UUID, until: Micros) -> Micros | None:
        """The last completion up to a time, undone since or not."""
        return self.of_runs(lambda runs: timeline_reading.latest_completion(runs, table_id, until))

    def completions(self, table_id: UUID, after: Micros, until: Micros, limit: int) -> list[ArchivedCompletion]:
        """The first writes and restores that completed in (after, until], undone since or not."""
        search = table_id, after, until, limit
        return self.of_runs(lambda runs: timeline_reading.completions(runs, *search))

    def of_runs(self, read: Callable[[Sequence[RunReader]], T]) -> T:
        """The answer of ``read`` to all runs, in their order."""
        return self._read(lambda: read(list(self._runs())))

    # -------------------------------------------------------------------------- runs

    @property
    def _storage(self) -> ArchiveStorage:
        assert self._given is not None
        return self._given

    def _read(self, read: Callable[[], T], lock: AbstractContextManager[object] | None = None) -> T:
        """The answer of ``read``; once more when another archiver merged the runs meanwhile."""
        with lock or self._lock:
            if self._listing is None:
                self._refresh()
            for _ in range(_REFRESHES_MAX):
                listing = self._listing
                try:
                    return read()
                except ArchiveDamaged:
                    # Another thread may have refreshed meanwhile.
                    if not self._refresh() and self._listing is listing:
                        raise
            return read()

    def _refresh(self) -> bool:
        """Read the manifest; gives whether it is another one."""
        with self._keys_lock:
            manifest = self._storage.manifest()
            before = self._listing
            if before is not None and before.manifest == manifest:
                return False
            if before is None or before.keys is None:
                self._listing = _Listing(manifest)
            else:
                self._load_keys(manifest, before.keys)
            return True

    def _load_keys(self, manifest: ArchiveManifest, known: Mapping[str, array[int]]) -> dict[str, array[int]]:
        keys = {
            run.name: known[run.name] if run.name in known else self._run_of_keys(run).outcome_keys()
            for run in manifest.runs
        }
        self._listing = _Listing(manifest, keys)
        return keys

    def _keys(self) -> Mapping[str, array[int]]:
        assert self._listing is not None
        keys = self._listing.keys
        return self._load_keys(self._listing.manifest, {}) if keys is None else keys

    def _run(self, listed: ListedRun) -> RunReader:
        return self._cache.run(self._storage, listed)

    def _run_of_keys(self, listed: ListedRun) -> RunReader:
        return self._keys_cache.run(self._storage, listed)

    def _runs(self, begin: int = 0) -> Iterator[RunReader]:
        """The runs, in order, that may have transactions from ``begin`` on."""
        assert self._listing is not None
        for listed in self._listing.manifest.runs:
            if begin < listed.end:
                yield self._run(listed)

    # -------------------------------------------------------------------------- events

    def _events_of_table(self, span: EventSpan) -> Iterator[ArchivedEvent]:
        for run in self._runs():
            of_run = run.events.span(span.table_id)
            if of_run is not None:
                first, last = max(span.first, of_run.first), min(span.last, of_run.last)
                yield from self._events(run, EventSpan(span.table_id, first, last))

    def _events(self, run: RunReader, span: EventSpan) -> Iterator[ArchivedEvent]:
        def hash_of_outcome(chain_id: UUID, number: int) -> bytes | None:
            for earlier in self._runs():
                ended = earlier.outcomes.span(chain_id)
                if ended is not None and ended.last == number:
                    return bytes.fromhex(ended.hash)
            return None

        return self._chains.events(run, span, hash_of_outcome)

    def _events_in_order(self, after: EventPlace, until: int) -> Iterator[ArchivedEvent]:
        for run in self._runs(after[0]):
            if run.run.begin >= until:
                return
            number = run.after(EVENT_ORDER, after)
            while number < run.count(EVENT_ORDER):
                begin, window = self._window(run, number)
                for event in window[number - begin :]:
                    if event.event.transaction_id >= until:
                        return
                    yield event
                number = begin + len(window)

    def _window(self, run: RunReader, number: int) -> tuple[int, Sequence[ArchivedEvent]]:
        """Events in the order across tables with that of this number among them, and the number of the first.

        A window is made of each chain's part, so that a row group is decoded once for it.
        """
        for events in WINDOWS:
            begin = number // events * events
            key = run.listed.name, "window", events, begin

            def load(begin: int = begin, events: int = events) -> tuple[Sequence[ArchivedEvent], int]:
                return self._load_window(run, begin, events)

            window = self._cache.get(key, load)
            if window:
                return begin, window
        raise AssertionError("a window of one event has no bound")

    def _load_window(self, run: RunReader, begin: int, events: int) -> tuple[Sequence[ArchivedEvent], int]:
        """The events of a window, none if they are too large, and their bytes."""
        end = min(begin + events, run.count(EVENT_ORDER))
        order = list(run.rows(EVENT_ORDER, begin, end))
        found: dict[int, ArchivedEvent] = {}
        size = 0
        for span in chain_reading.spans(run, [row for _, _, row in order]):
            first_row = run.events.row(span.table_id, span.first)
            for row, event in enumerate(self._events(run, span), first_row):
                found[row] = event
                size += event.bytes
                if size > WINDOW_BYTES_MAX and events > 1:
                    return (), 0
        window = [found[row] for _, _, row in order]
        places = [(event.event.transaction_id, event.position) for event in window]
        if places != [(transaction_id, position) for transaction_id, position, _ in order]:
            raise run.damaged(EVENT_ORDER, "the order of the events", "another")
        return window, size

    def _version_at(self, table_id: UUID, place: EventPlace) -> int:
        for run in reversed(list(self._runs())):
            span = run.events.span(table_id)
            if span is None or run.run.begin > place[0]:
                continue

            def place_of(version: int, run: RunReader = run) -> EventPlace:
                row = run.row("event", run.events.row(table_id, version))
                return row[2], row[3]

            versions = range(span.first, span.last + 1)
            found = bisect_right(versions, place, key=place_of)
            return versions[found - 1] if found else span.first - 1
        return 0

    def _version_before(self, table_id: UUID, time: Micros) -> int:
        for run in reversed(list(self._runs())):
            span = run.events.span(table_id)
            if span is None:
                continue

            def time_of(version: int, run: RunReader = run) -> Micros:
                return Micros(run.row("event", run.events.row(table_id, version))[6])

            versions = range(span.first, span.last + 1)
            found = bisect_left(versions, time, key=time_of)
            if found or span.first == 1:
                return span.first - 1 + found
        return 0

    def _run_of(self, table_id: UUID, version: int) -> RunReader:
        for run in self._runs():
            span = run.events.span(table_id)
            if span is not None and span.first <= version <= span.last:
                return run
        raise ArchiveDamaged("runs", f"version {version} of {table_id}", "nothing")

    def _last_place(self, until: int) -> EventPlace:
        for run in reversed(list(self._runs())):
            if number := run.after(EVENT_ORDER, (until, 0)):
                transaction_id, position, _ = run.row(EVENT_ORDER, number - 1)
                return transaction_id, position
        return 0, 0

    def _has_event(self, place: EventPlace) -> bool:
        for run in self._runs(place[0]):
            number = run.after(EVENT_ORDER, place)
            return number > 0 and run.row(EVENT_ORDER, number - 1)[:2] == place
        return False

    # -------------------------------------------------------------------------- outcomes and lists

    def _outcome(self, request_id: str) -> StoredOutcome | None:
        assert self._listing is not None
        key, keys = indexes.key_of(request_id), self._keys()
        for listed in self._listing.manifest.runs:
            for position in _positions(keys[listed.name], key):
                run = self._run_of_keys(listed)
                of_key, number = run.row(OUTCOME_KEY, position)
                if of_key != key:
                    raise run.damaged(OUTCOME_KEY, f"the key {key}", f"{of_key}")
                row = run.row("outcome", number)
                if row[2] == request_id:
                    return _outcome(row)
        return None

    def _of_instant(self, table: str, table_id: UUID, instant: Micros) -> Iterator[Row]:
        """The rows of a table in row groups that have any of an instant."""
        for run in self._runs():
            span = run.events.span(table_id)
            if span is not None:
                yield from run.between(table, (table_id, span.first), (table_id, span.last), instant)


def _page(events: Iterator[ArchivedEvent], limit: int, bytes_max: int) -> ArchivedEvents:
    """The first events within the bounds, at least one, and the others of the last one's request."""
    page: list[ArchivedEvent] = []
    size = 0
    for event in events:
        if len(page) == limit or (page and size + event.bytes > bytes_max):
            counted = len(page)
            last = page[-1].event
            others = (event, *_of_transaction(events, last.transaction_id))
            page += [other for other in others if _is_of_request(other, last)]
            return ArchivedEvents(page, counted, size, is_cut=True)
        page.append(event)
        size += event.bytes
    return ArchivedEvents(page, len(page), size, is_cut=False)


def _of_transaction(events: Iterator[ArchivedEvent], transaction_id: int) -> Iterator[ArchivedEvent]:
    for event in events:
        if event.event.transaction_id != transaction_id:
            return
        yield event


def _is_of_request(other: ArchivedEvent, last: StoredEvent) -> bool:
    return (other.event.transaction_id, other.event.request_id) == (last.transaction_id, last.request_id)


def _positions(keys: array[int], key: int) -> range:
    """The places of a key in the sorted keys."""
    return range(bisect_left(keys, key), bisect_right(keys, key))


def _outcome(row: Row) -> StoredOutcome:
    chain_id, number, request_id, fingerprint, table_id, version, code, result, *others = row
    dialect, answer_digest, recorded_at, command, actor, address, _ = others
    return StoredOutcome(
        request_id=request_id,
        fingerprint=fingerprint,
        table_id=table_id,
        version=version,
        code=code,
        result=result,
        dialect=dialect,
        answer_digest=answer_digest,
        recorded_at=None if recorded_at is None else Micros(recorded_at),
        command=command,
        actor=actor,
        address=address,
        chain_id=chain_id,
        number=number,
    )
