"""Checks of a log as it is read: the chains of its events, and the rows beside them.

The rows come from a database or from an archive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from chronolake_metastore.domain import files
from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.events import (
    Event,
    FilesDeleted,
    InstantCompleted,
    TableAltered,
    TableCreated,
    WriteStatsStaged,
)
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.proof import NOTHING, Chains, Check, ProofFinding
from chronolake_metastore.domain.stored_events import StoredEvent, decode
from chronolake_metastore.proof import event_lists
from chronolake_metastore.store import answers, proof
from chronolake_metastore.store.answers import AnswerKey
from chronolake_metastore.store.event_lists import StoredEntry, entries
from chronolake_metastore.store.postgres.transaction import Transaction
from chronolake_metastore.store.proof import EventKey, StoredDeletedFile, StoredWriteStat

CATALOG: Final = "(catalog)"
"""The name of the catalog in the place of a table's name."""


class LogRows(Protocol):
    """The rows beside events. Each method gives those of the named events in their order."""

    def write_stats(self, events: Sequence[EventKey]) -> AsyncIterator[StoredWriteStat]: ...
    def deleted_files(self, events: Sequence[EventKey]) -> AsyncIterator[StoredDeletedFile]: ...
    def entries(self, lists: Sequence[ListKey]) -> AsyncIterator[StoredEntry]: ...
    async def answer_hashes(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, bytes]:
        """The hash of each of the outcomes that is there."""


class DatabaseRows:
    """The rows in a database, as a transaction sees them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def write_stats(self, events: Sequence[EventKey]) -> AsyncIterator[StoredWriteStat]:
        return proof.write_stats(self._tx, events)

    def deleted_files(self, events: Sequence[EventKey]) -> AsyncIterator[StoredDeletedFile]:
        return proof.deleted_files(self._tx, events)

    def entries(self, lists: Sequence[ListKey]) -> AsyncIterator[StoredEntry]:
        return entries(self._tx, lists)

    async def answer_hashes(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, bytes]:
        return await answers.hashes(self._tx, keys)


class LogChecks:
    """The checks of one log, page by page. ``report_finding`` also takes the table whose log is damaged."""

    def __init__(self, report_finding: Callable[[ProofFinding, UUID | None], None]) -> None:
        self._report_finding = report_finding
        self._names = {CATALOG_ID: CATALOG}
        self.chains = Chains()
        self.files = 0
        """The number of files in the checked write stats."""

    def name(self, table_id: UUID) -> str:
        """The name of a table by the events so far, or its id."""
        return self._names.get(table_id, str(table_id))

    async def check(self, rows: LogRows, page: Sequence[StoredEvent]) -> list[Event]:
        """Check the next events of the log; gives those that can be decoded."""
        events = []
        for stored in page:
            event = self._decode(stored)
            for finding in self.chains.follow(stored, self.name(stored.table_id)):
                self._report_finding(finding, stored.table_id)
            if event is not None:
                events.append(event)
        await self._check_answers(rows, page)
        await self._check_write_stats(rows, events)
        await self._check_deletions(rows, events)
        await event_lists.check(rows.entries, events, self.name, self._report_finding)
        return events

    def close(self) -> None:
        """Report the findings that are only known at the end of the log."""
        for table_id, version in self.chains.missing():
            finding = ProofFinding(
                Check.VERSION, self.name(table_id), version, "the event", "an event", NOTHING
            )
            self._report_finding(finding, table_id)

    async def _check_answers(self, rows: LogRows, page: Sequence[StoredEvent]) -> None:
        """Compare the head of the answers that each event carries with the outcome of that number."""
        carried = [event for event in page if event.answers]
        keys = {(event.table_id, event.answers or 0) for event in carried}
        hashes = await rows.answer_hashes(sorted(keys)) if keys else {}
        for event in carried:
            digest = hashes.get((event.table_id, event.answers or 0))
            if digest != event.answers_hash:
                what = (
                    f"{event.type}: the hash of outcome {event.answers} of its table's chain, which it carries"
                )
                expected, actual = hex_of(event.answers_hash), hex_of(digest)
                table = self.name(event.table_id)
                self._report_finding(
                    ProofFinding(Check.OUTCOME, table, event.version, what, expected, actual), None
                )

    def _decode(self, stored: StoredEvent) -> Event | None:
        try:
            event = decode(stored)
        except ValueError as exc:
            name = self.name(stored.table_id)
            finding = ProofFinding(
                Check.PAYLOAD, name, stored.version, str(exc), stored.type, stored.payload[:200]
            )
            self._report_finding(finding, stored.table_id)
            return None
        match event.payload:
            case TableCreated() as created:
                self._names[event.table_id] = created.definition.name
            case TableAltered(new_name=str(new_name)):
                self._names[event.table_id] = new_name
            case _:
                pass
        return event

    async def _check_write_stats(self, rows: LogRows, events: Sequence[Event]) -> None:
        sealed = {(event.table_id, event.version): event.payload for event in events if _seals(event)}
        if not sealed:
            return
        digests = {key: files.Digest() for key in sealed}
        async for stored in rows.write_stats(list(sealed)):
            digest = digests[stored.event]
            kind = files.kind_of(stored.stat)
            if (stored.ordinal, stored.kind) != (digest.files, kind):
                what = f"write stat {stored.ordinal}: ordinal and kind"
                self._write_stats_differ(
                    stored.event, what, f"{digest.files}, {kind}", f"{stored.ordinal}, {stored.kind}"
                )
            digest.add(stored.stat)
        for key, payload in sealed.items():
            assert isinstance(payload, InstantCompleted | WriteStatsStaged)
            self.files += digests[key].files
            # Files that were staged are under the versions that staged them.
            own = 0 if isinstance(payload, InstantCompleted) and payload.staged else payload.summary.files
            if digests[key].files != own:
                expected = f"{own} files"
                self._write_stats_differ(
                    key, "its number of write stats", expected, f"{digests[key].files} files"
                )
            elif digests[key].hexdigest() != payload.write_stats_digest:
                what = "the digest over its write stats"
                self._write_stats_differ(key, what, payload.write_stats_digest, digests[key].hexdigest())

    def _write_stats_differ(self, key: EventKey, what: str, expected: str, actual: str) -> None:
        finding = ProofFinding(Check.WRITE_STATS, self.name(key[0]), key[1], what, expected, actual)
        self._report_finding(finding, key[0])

    async def _check_deletions(self, rows: LogRows, events: Sequence[Event]) -> None:
        sealed = {
            (event.table_id, event.version): event.payload
            for event in events
            if isinstance(event.payload, FilesDeleted)
        }
        if not sealed:
            return
        digests = {key: files.Digest() for key in sealed}
        async for stored in rows.deleted_files(list(sealed)):
            digest, of = digests[stored.event], sealed[stored.event].of
            if (stored.ordinal, stored.of) != (digest.files, of):
                what = f"deleted file {stored.ordinal}: ordinal and instant"
                self._deletions_differ(
                    stored.event, what, f"{digest.files}, {of}", f"{stored.ordinal}, {stored.of}"
                )
            digest.add(stored.file)
        for key, payload in sealed.items():
            digest_of_rows = digests[key]
            if digest_of_rows.files != payload.files:
                self._deletions_differ(
                    key, "its files", f"{payload.files} files", f"{digest_of_rows.files} files"
                )
            elif digest_of_rows.hexdigest() != payload.deletions_digest:
                what = "the digest over its deleted files"
                self._deletions_differ(key, what, payload.deletions_digest, digest_of_rows.hexdigest())

    def _deletions_differ(self, key: EventKey, what: str, expected: str, actual: str) -> None:
        # Nothing is projected from them: the table's log can be replayed all the same.
        finding = ProofFinding(Check.DELETIONS, self.name(key[0]), key[1], what, expected, actual)
        self._report_finding(finding, None)


def hex_of(digest: bytes | None) -> str:
    """A hash in a finding."""
    return NOTHING if digest is None else digest.hex()


def _seals(event: Event) -> bool:
    return isinstance(event.payload, InstantCompleted | WriteStatsStaged)
